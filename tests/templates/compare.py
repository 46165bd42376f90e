#!/usr/bin/env python3
"""compare.py - chat templates through our interpreter and through Jinja as Hugging Face sets it up: the same bytes?

usage: compare.py RENDERER FOLDER [--write] [-v]

RENDERER is build/<config>/tests/test_chat. Every *.jinja of FOLDER is rendered with every case (FOLDER/cases/*.json,
or those beside this file), and every small template of FOLDER/snippets*.json. Both must give the same text, or both an
error; the words of raise_exception must come through. With --write, what Jinja gives is written to FOLDER/expected and
into the snippets, for tests/test_chat.c to hold us to without Python. Exit 1 where something differs, 77 where jinja2
is not installed.
"""
import argparse
import datetime
import json
import pathlib
import subprocess
import sys

try:
    import jinja2
    import jinja2.ext
    import jinja2.nodes
    import jinja2.sandbox
except ImportError:
    print("python3-jinja2 is not installed")
    sys.exit(77)


class RaisedByTemplate(jinja2.TemplateError):
    pass


class Generation(jinja2.ext.Extension):
    """{% generation %}: marks what the assistant said, for training; here it only passes it through."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_pass"), [], [], body).set_lineno(line)

    def _pass(self, caller):
        return caller()


class Sandbox(jinja2.sandbox.ImmutableSandboxedEnvironment):
    """As newer versions are: those of Debian 12 let a template pop from a list."""

    def is_safe_attribute(self, obj, attr, value):
        return super().is_safe_attribute(obj, attr, value) and not (isinstance(obj, list) and attr == "pop")


def environment(now):
    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise RaisedByTemplate(message)

    env = Sandbox(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    moment = datetime.datetime.fromtimestamp(now, datetime.timezone.utc)
    env.globals["strftime_now"] = moment.strftime
    return env


def render_jinja(text, case):
    """(text, error): one of them is None; an error of raise_exception is its words, others are ""."""
    variables = {"tools": None, "documents": None, **case.get("variables", {})}
    variables["messages"] = case["messages"]
    if "tools" in case:
        variables["tools"] = case["tools"]
    variables["add_generation_prompt"] = case.get("add_generation_prompt", False)
    variables["bos_token"] = case.get("bos_token", "")
    variables["eos_token"] = case.get("eos_token", "")
    try:
        return environment(case.get("now", 0)).from_string(text).render(**variables), None
    except RaisedByTemplate as error:
        return None, str(error)
    except Exception as error:  # whatever Python makes of a template's mistake
        render_jinja.last = f"{type(error).__name__}: {error}"
        return None, ""


def render_ours(renderer, template, case):
    done = subprocess.run([renderer, "--render", template, case], capture_output=True, check=False)
    if done.returncode == 0:
        return done.stdout.decode("utf-8"), None
    if done.returncode == 1:
        return None, done.stderr.decode("utf-8")
    raise RuntimeError(f"{renderer} ended with {done.returncode} on {template}, {case}: {done.stderr}")


def first_difference(left, right):
    at = next((i for i, (a, b) in enumerate(zip(left, right)) if a != b), min(len(left), len(right)))
    return f"at {at}: jinja {left[max(0, at - 30):at + 40]!r}, ours {right[max(0, at - 30):at + 40]!r}"


def verdict(theirs, ours):
    """None where the two agree, otherwise what is wrong."""
    (their_text, their_error), (our_text, our_error) = theirs, ours
    if their_error is not None:
        if our_error is None:
            return f"jinja refuses ({their_error or render_jinja.last}), ours gives {our_text[:60]!r}"
        words = their_error[:100]
        return None if words in our_error else f"jinja says {their_error!r}, ours {our_error!r}"
    if our_error is not None:
        return f"ours refuses: {our_error.strip()}"
    return None if their_text == our_text else first_difference(their_text, our_text)


def check_templates(options):
    """Every template with every case. Yields (what, None or what is wrong); writes what Jinja gave where asked."""
    cases = options.folder / "cases"
    if not cases.is_dir():
        cases = pathlib.Path(__file__).parent / "cases"
    for template in sorted(options.folder.glob("*.jinja")):
        source = template.read_text(encoding="utf-8")
        expected = {}
        for path in sorted(cases.glob("*.json")):
            case = json.loads(path.read_text(encoding="utf-8"))
            theirs = render_jinja(source, case)
            expected[path.stem] = as_expected(theirs)
            wrong = verdict(theirs, render_ours(options.renderer, template, path))
            if options.v and wrong is None and theirs[1] is not None:
                print(f"{template.name}, {path.stem}: both refuse: {theirs[1] or render_jinja.last}")
            yield f"{template.name}, {path.stem}", wrong
        if options.write:
            write_json(options.folder / "expected" / f"{template.stem}.json", expected)


def check_snippets(options, path):
    """The small templates of one file, {"case": ..., "snippets": [{"template": ..., ...}]}."""
    whole = json.loads(path.read_text(encoding="utf-8"))
    done = subprocess.run([options.renderer, "--snippets", path], capture_output=True, check=True)
    results = json.loads(done.stdout)
    for number, (snippet, ours) in enumerate(zip(whole["snippets"], results, strict=True)):
        theirs = render_jinja(snippet["template"], whole["case"])
        expected = as_expected(theirs)
        wrong = verdict(theirs, (ours.get("text"), ours.get("error")))
        if wrong is None and not options.write and any(snippet.get(key) != expected[key] for key in expected):
            wrong = f"{path.name} expects something else"
        whole["snippets"][number] = {"template": snippet["template"], **expected}
        yield f"{path.name}, {snippet['template']!r}", wrong
    if options.write:
        write_json(path, whole)


def as_expected(theirs):
    return {"text": theirs[0]} if theirs[0] is not None else {"refused": theirs[1]}


def write_json(path, value):
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(usage="compare.py RENDERER FOLDER [--write] [-v]")
    parser.add_argument("renderer")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("-v", action="store_true")
    options = parser.parse_args()
    same = different = 0
    checks = [check_templates(options)]
    checks += [check_snippets(options, path) for path in sorted(options.folder.glob("snippets*.json"))]
    for what, wrong in (result for check in checks for result in check):
        same += wrong is None
        different += wrong is not None
        if wrong is not None:
            print(f"{what}: {wrong}")
    print(f"{same} the same, {different} different")
    return 1 if different or same == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
