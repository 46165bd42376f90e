"""Tokens in memory are read where they lie; everything else is checked and copied."""
import ctypes
import mmap
import os
import tempfile
import unittest
from array import array

import incipit
from incipit._text import Text

from .engine import begin, serve

try:
    import numpy
except ImportError:
    numpy = None

TOKENS = [7, 0, 2**31, 2**32 - 1, 5]


def address_of_bytes(data):
    return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value


def words_at(text):
    return list((ctypes.c_uint32 * text.token_count).from_address(text.tokens))


class ZeroCopy(unittest.TestCase):
    def assert_borrowed(self, tokens, address, expected=TOKENS):
        with Text(tokens) as text:
            self.assertEqual(text.tokens, address)
            self.assertEqual(words_at(text), expected)

    def test_an_array_is_read_where_it_lies(self):
        tokens = array("I", TOKENS)
        self.assert_borrowed(tokens, tokens.buffer_info()[0])

    def test_a_signed_array_is_read_by_its_bits(self):
        tokens = array("i", [1, -1])
        self.assert_borrowed(tokens, tokens.buffer_info()[0], [1, 2**32 - 1])

    def test_a_ctypes_array_is_read_where_it_lies(self):
        tokens = (ctypes.c_uint32 * len(TOKENS))(*TOKENS)
        self.assert_borrowed(tokens, ctypes.addressof(tokens))

    def test_a_read_only_buffer_is_read_where_it_lies(self):
        data = array("I", TOKENS).tobytes()
        self.assert_borrowed(memoryview(data).cast("I"), address_of_bytes(data))

    def test_a_slice_of_a_view_is_read_where_it_lies(self):
        tokens = array("I", [9, 9] + TOKENS)
        self.assert_borrowed(memoryview(tokens)[2:], tokens.buffer_info()[0] + 8)

    def test_a_text_too_large_to_copy_is_taken(self):
        size = 1 << 38  # 256 GiB of holes
        with tempfile.TemporaryFile() as file:
            try:
                os.truncate(file.fileno(), size)
                tokens = memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)).cast("I")
            except (OSError, ValueError) as error:
                self.skipTest(f"no sparse file of {size} bytes here: {error}")
            with incipit.Cache(4) as cache:
                with self.assertRaises(incipit.TooLong):
                    cache.match(tokens)

    def test_the_buffer_is_held_during_the_call_and_free_after_it(self):
        tokens = array("I", range(8))
        held = []

        def grow(event):
            try:
                tokens.append(0)
            except BufferError as error:
                held.append(error)

        with incipit.Cache(8, block_tokens=4, event=grow) as cache:
            begin(cache, tokens).release()
        self.assertEqual(len(held), 2)  # both blocks were stored while the array could not be resized
        tokens.append(8)

    def test_the_buffer_is_free_after_a_call_that_failed(self):
        tokens = array("I")
        with incipit.Cache(8) as cache:
            try:
                cache.match(tokens)
                self.fail("an empty text was matched")
            except incipit.BadArgument as error:
                self.assertIsNotNone(error.__traceback__)  # whose frames are alive
                tokens.append(1)

    def test_a_change_to_the_buffer_is_seen_by_the_next_call(self):
        tokens = array("I", range(9))
        with incipit.Cache(8, block_tokens=4, tail_tokens_min=incipit.TAIL_OFF) as cache:
            serve(cache, tokens)
            self.assertEqual(serve(cache, tokens).cached_tokens, 8)
            tokens[4] = 99
            self.assertEqual(serve(cache, tokens).cached_tokens, 4)

    def test_every_kind_of_tokens_means_the_same(self):
        kinds = [
            list,
            tuple,
            iter,
            lambda items: array("I", items),
            lambda items: array("Q", items),
            lambda items: memoryview(array("I", items).tobytes()).cast("I"),
            lambda items: memoryview(array("I", [word for item in items for word in (item, 0)]))[::2],
            lambda items: (ctypes.c_uint32 * len(items))(*items),
            lambda items: (ctypes.c_int64 * len(items))(*items),
        ]
        if numpy is not None:
            kinds += [lambda items: numpy.array(items, dtype="u4"), lambda items: numpy.array(items, dtype=">i8")]
        expected = incipit.names(TOKENS, block_tokens=5)
        for kind in kinds:
            self.assertEqual(incipit.names(kind(TOKENS), block_tokens=5), expected)


@unittest.skipIf(numpy is None, "numpy is not installed")
class Numpy(unittest.TestCase):
    def test_arrays_of_32_bits_are_read_where_they_lie(self):
        for dtype in ("uint32", "int32"):
            tokens = numpy.array([1, 2, 3], dtype=dtype)
            for readonly in (False, True):
                tokens.flags.writeable = not readonly
                with Text(tokens) as text:
                    self.assertEqual(text.tokens, tokens.ctypes.data)
                    self.assertEqual(text.token_count, 3)

    def test_other_layouts_are_copied(self):
        wide = numpy.arange(10, dtype="int64")
        strided = numpy.arange(20, dtype="uint32")[::2]
        swapped = numpy.arange(10, dtype="uint32").astype(">u4")
        for tokens, expected in ((wide, list(range(10))), (strided, list(range(0, 20, 2))), (swapped, list(range(10)))):
            with Text(tokens) as text:
                self.assertEqual(words_at(text), expected)

    def test_a_float_array_and_two_dimensions_are_refused(self):
        with self.assertRaisesRegex(TypeError, "token 0 is .*not an int"):
            incipit.names(numpy.ones(4, dtype="float32"))
        with self.assertRaisesRegex(incipit.BadArgument, "tokens have 2 dimensions"):
            incipit.names(numpy.ones((4, 4), dtype="uint32"))

    def test_numpy_integers_are_integers(self):
        with incipit.Cache(numpy.int64(8), block_tokens=numpy.uint8(4)) as cache:
            with begin(cache, numpy.arange(6, dtype="int32")) as lease:
                self.assertEqual(numpy.asarray(lease.table(numpy.int32(0))).tolist(), [0, 1])


class TheSlowPath(unittest.TestCase):
    def test_what_is_no_32_bit_number_is_named(self):
        for tokens, kind, sentence in (
            ([1, -1], incipit.BadArgument, "token 1 is -1"),
            ([2**32], incipit.BadArgument, "token 0 is 4294967296"),
            ((1, 2, 3.0), TypeError, "token 2 is 3.0: not an int"),
            ([1, None], TypeError, "token 1 is None: not an int"),
            (array("q", [-5]), incipit.BadArgument, "token 0 is -5"),
            ("text", TypeError, "not str"),
            (b"12345678", TypeError, r"not bytes; .*cast\('I'\)"),
            (bytearray(8), TypeError, "not bytearray"),
            (7, TypeError, "not iterable"),
        ):
            with self.assertRaisesRegex(kind, sentence):
                incipit.names(tokens)

    def test_numbers_arrive_whole_or_not_at_all(self):
        with incipit.Cache(8, block_tokens=4) as cache, begin(cache, [1, 2, 3]) as lease:
            for call in (
                lambda: lease.extend(2**32 + 4),
                lambda: lease.extend(-1),
                lambda: lease.truncate(2**32),
                lambda: lease.table(2**32),
                lambda: cache.tick(2**64),
                lambda: cache.match([1], flags=2**32),
                lambda: cache.match([1], [(2**32, 1, "x")]),
                lambda: cache.block(0, 2**32),
                lambda: cache.pin([1], until=-1),
                lambda: incipit.Cache(2**32 + 8),
                lambda: incipit.Cache(8, seed=2**64),
                lambda: incipit.Cache(8, policy=2**32 + 1),
                lambda: incipit.Cache(8, groups=[incipit.Group.window(2**32 + 1)]),
            ):
                with self.assertRaises(incipit.BadArgument):
                    call()
            with self.assertRaises(TypeError):
                lease.extend(4.0)
            self.assertEqual(lease.info().token_count, 3)

    def test_a_string_with_a_nul_is_refused_before_c_cuts_it(self):
        with incipit.Cache(8) as cache:
            for key in ("model", "adapter", "tenant", "salt"):
                with self.assertRaisesRegex(incipit.BadArgument, f"{key} contains a NUL"):
                    cache.open_scope(**{key: "a\0b"})
        with self.assertRaises(incipit.BadArgument):
            incipit.names([1], seed="a\0b")

    def test_an_id_may_hold_any_byte(self):
        with incipit.Cache(8, block_tokens=4) as cache:
            serve(cache, [1, 2, 3, 4, 5], [(0, 4, b"a\0b")])
            self.assertEqual(serve(cache, [1, 2, 3, 4, 5], [(0, 4, b"a\0c")]).cached_tokens, 0)
            self.assertEqual(serve(cache, [1, 2, 3, 4, 5], [(0, 4, b"a\0b")]).cached_tokens, 4)

    def test_an_id_is_bytes_or_text(self):
        with self.assertRaisesRegex(TypeError, "the id of extra 0 must be bytes or str, not int"):
            incipit.names([1], [(0, 1, 5)])
