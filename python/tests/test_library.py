"""The declarations are the header's, and the library is found or asked for in plain words."""
import ctypes
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import incipit
from incipit import _library

PYTHON = Path(__file__).resolve().parent.parent
INCLUDE = PYTHON.parent / "include"
HEADER = INCLUDE / "incipit" / "cache.h"

STRUCTS = {
    name: value
    for name, value in vars(_library).items()
    if name.startswith("icp_") and isinstance(value, type) and issubclass(value, ctypes.Structure)
}

ENUMS = {
    incipit.Status: "ICP_",
    incipit.GroupKind: "ICP_GROUP_",
    incipit.Policy: "ICP_POLICY_",
    incipit.Duplicates: "ICP_DUPLICATES_",
    incipit.NameKind: "ICP_NAME_",
    incipit.Flags: "ICP_",
    incipit.Why: "ICP_WHY_",
    incipit.EventKind: "ICP_EVENT_",
    incipit.BlockState: "ICP_BLOCK_",
}

CONSTANTS = {
    "ICP_VERSION_MAJOR": _library.VERSION_MAJOR,
    "ICP_VERSION_MINOR": _library.VERSION_MINOR,
    "ICP_BLOCK_NONE": incipit.BLOCK_NONE,
    "ICP_NODE_NONE": _library.NODE_NONE,
    "ICP_TAIL_OFF": incipit.TAIL_OFF,
    "ICP_GHOST_OFF": incipit.GHOST_OFF,
    "ICP_EXPLAIN_TOKENS": _library.EXPLAIN_TOKENS,
    "ICP_EXPLAIN_OTHER_SCOPES": _library.EXPLAIN_OTHER_SCOPES,
    "ICP_HISTOGRAM_COUNT": _library.HISTOGRAM_COUNT,
    "ICP_STATUS_COUNT": len(incipit.Status),
    "ICP_POLICY_COUNT": len(incipit.Policy),
    "ICP_WHY_COUNT": len(incipit.Why),
}


def header_text():
    """The header without comments and preprocessor lines."""
    text = re.sub(r"/\*.*?\*/", " ", HEADER.read_text(), flags=re.S).replace("\\\n", " ")
    return re.sub(r"^\s*#.*$", "", text, flags=re.M)


def declared():
    """What this package says, by C expression."""
    sizes = {}
    for name, struct in STRUCTS.items():
        sizes[f"sizeof({name})"] = ctypes.sizeof(struct)
        for field, *_ in struct._fields_:
            sizes[f"offsetof({name}, {field})"] = getattr(struct, field).offset
            sizes[f"sizeof((({name} *)0)->{field})"] = getattr(struct, field).size
    for enum, prefix in ENUMS.items():
        sizes.update((prefix + member.name, int(member)) for member in enum)
    return {**sizes, **CONSTANTS}


@unittest.skipUnless(HEADER.is_file(), "not in a source checkout: there is no header to compare with")
class TheHeader(unittest.TestCase):
    def test_every_size_offset_and_number_is_the_c_compilers(self):
        compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if not compiler:
            self.skipTest("no C compiler: layouts were not compared")
        expected = declared()
        lines = "".join(f'    printf("%lld\\n", (long long)({expression}));\n' for expression in expected)
        source = f"#include <incipit/cache.h>\n#include <stdio.h>\nint main(void)\n{{\n{lines}    return 0;\n}}\n"
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "layout")
            Path(program + ".c").write_text(source)
            command = [*compiler.split(), "-std=c11", "-I", str(INCLUDE), program + ".c", "-o", program]
            subprocess.run(command, check=True)
            output = subprocess.run([program], check=True, capture_output=True, text=True).stdout
        self.assertEqual(dict(zip(expected, map(int, output.split()))), expected)

    def test_no_struct_and_no_field_is_missing(self):
        bodies = re.findall(r"struct\s+(icp_\w+)\s*\{(.*?)\}", header_text(), flags=re.S)
        self.assertEqual({name for name, _ in bodies}, set(STRUCTS))
        for name, body in bodies:
            fields = [re.search(r"(\w+)\s*(\[\w+\])?\s*$", part).group(1) for part in body.split(";") if part.strip()]
            self.assertEqual(fields, [field for field, *_ in STRUCTS[name]._fields_], name)

    def test_no_function_is_missing_and_all_take_as_many_arguments(self):
        functions = re.findall(r"ICP_API\s[^;(]*?(icp_\w+)\(([^)]*)\);", header_text())
        counts = {name: 0 if arguments.strip() == "void" else arguments.count(",") + 1 for name, arguments in functions}
        self.assertEqual(counts, {name: len(types) for name, (_, types) in _library.FUNCTIONS.items()})


class TheStatuses(unittest.TestCase):
    def test_names_are_the_librarys(self):
        for status in incipit.Status:
            self.assertEqual(_library.lib.icp_status_name(status).decode(), "ICP_" + status.name)

    def test_each_but_ok_has_an_exception_with_the_librarys_sentence(self):
        for status in list(incipit.Status)[1:]:
            error = incipit._errors.error_of(status)
            self.assertIs(error.status, status)
            self.assertIsNot(type(error), incipit.CacheError)
            self.assertEqual(str(error), _library.lib.icp_status_text(status).decode())

    def test_an_unknown_one_is_still_an_error(self):
        error = incipit._errors.error_of(99)
        self.assertIsNone(error.status)
        self.assertTrue(str(error))

    def test_exceptions_are_what_python_programs_catch(self):
        self.assertTrue(issubclass(incipit.BadArgument, ValueError))
        self.assertTrue(issubclass(incipit.NotFound, LookupError))
        self.assertTrue(issubclass(incipit.NoMemory, MemoryError))
        self.assertTrue(issubclass(incipit.Closed, incipit.Stale))
        self.assertEqual(incipit.Full.__module__, "incipit")


class FindingTheLibrary(unittest.TestCase):
    def test_the_environment_alone_counts_where_it_is_set(self):
        with mock.patch.dict(os.environ, INCIPIT_LIBRARY="/nowhere/libincipit.so"):
            self.assertEqual(_library.candidates(), ["/nowhere/libincipit.so"])

    def test_next_to_the_package_comes_before_the_checkout_and_the_system(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder).resolve()
            package = root / "python" / "incipit"
            beside = package / _library.file_name()
            built = root / "build" / "release" / _library.file_name()
            for file in (beside, built, root / "include" / "incipit" / "cache.h"):
                file.parent.mkdir(parents=True, exist_ok=True)
                file.touch()
            with mock.patch.dict(os.environ), mock.patch.object(_library, "__file__", str(package / "_library.py")):
                os.environ.pop("INCIPIT_LIBRARY", None)
                with mock.patch("ctypes.util.find_library", return_value="libincipit.so.0"):
                    self.assertEqual(_library.candidates(), [str(beside), str(built), "libincipit.so.0"])

    def test_where_there_is_none_the_error_says_what_to_do(self):
        with mock.patch.object(_library, "candidates", return_value=[]):
            with self.assertRaisesRegex(ImportError, "make install.*INCIPIT_LIBRARY"):
                _library.load()

    def test_one_that_cannot_be_loaded_is_named(self):
        environment = {**os.environ, "INCIPIT_LIBRARY": "/nowhere/libincipit.so", "PYTHONPATH": str(PYTHON)}
        run = subprocess.run([sys.executable, "-c", "import incipit"], env=environment, capture_output=True, text=True)
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("ImportError: INCIPIT_LIBRARY names /nowhere/libincipit.so, but", run.stderr)

    def test_another_library_is_told_from_ours(self):
        other = ctypes.util.find_library("c")
        with mock.patch.object(_library, "candidates", return_value=[other]):
            with self.assertRaisesRegex(ImportError, "has no icp_version: is it libincipit"):
                _library.load()

    def test_the_version_must_have_our_major_number_and_no_older_minor_one(self):
        _library.check_version("0.1.0", "x")
        _library.check_version("0.1.7", "x")
        _library.check_version("0.2.0", "x")
        for text in ("0.0.9", "1.1.0"):
            with self.assertRaisesRegex(ImportError, f"x is libincipit {text}, this package needs 0.1"):
                _library.check_version(text, "x")
        with self.assertRaisesRegex(ImportError, "is it libincipit"):
            _library.check_version("new", "x")

    def test_the_running_library_says_who_it_is(self):
        self.assertRegex(incipit.library_version, r"^\d+\.\d+\.\d+$")
        self.assertTrue(incipit.library_path)
