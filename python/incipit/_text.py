"""Python arguments as C ones: tokens, extras, numbers and strings.

Tokens are not copied where they lie in memory as the C library reads them: one dimension, contiguous, 32-bit
integers. array('I') and array('i'), numpy uint32 and int32, memoryviews cast to 'I' and ctypes arrays all do. Such
an object is asked for its memory with PyObject_GetBuffer, Python's own C call for it, because a read-only buffer
(a frozen numpy array, a memoryview of bytes) gives its address no other way: ctypes' from_buffer wants a writable
one. The one path serves both. What it gives is given back with PyBuffer_Release as soon as the call is over, so the
object cannot be resized or freed during the call and is free again after it.

Everything else is iterated over and copied into an array('I'): the slow path, some 10 to 30 ns a token.

ctypes cuts an int that is too large to the bits that fit, silently, and a C string ends at its first NUL: two
tenants "a\\0b" and "a\\0c" would share. So every number and string is checked here before it is passed on.
"""
from __future__ import annotations

import ctypes
import operator
import sys
from array import array
from ctypes import POINTER, byref, c_char_p, c_int, c_ssize_t, c_void_p
from types import TracebackType
from typing import Any, Iterable, List, NamedTuple, Optional, Tuple, Type, Union

from ._errors import BadArgument
from ._library import U32_MAX, U64_MAX, icp_extra, icp_text

Tokens = Iterable[int]


class Extra(NamedTuple):
    """What decides the meaning of the placeholder tokens at [position, position + length): an image, a clip.

    The id is its content hash, as bytes or as text (taken as UTF-8). A plain tuple of the three does as well.
    """

    position: int
    length: int
    id: Union[bytes, str]


Extras = Iterable[Union[Extra, Tuple[int, int, Union[bytes, str]]]]


# ---- Numbers and strings ----


def u32(value: int, name: str) -> int:
    number = operator.index(value)
    if not 0 <= number <= U32_MAX:
        raise BadArgument(f"{name} is {number}: it must lie between 0 and 2**32 - 1")
    return number


def u64(value: int, name: str) -> int:
    number = operator.index(value)
    if not 0 <= number <= U64_MAX:
        raise BadArgument(f"{name} is {number}: it must lie between 0 and 2**64 - 1")
    return number


def enumerator(value: int, name: str) -> int:
    """An enum's number, known or not: the library judges it, but it has to arrive whole."""
    number = operator.index(value)
    if not -(2**31) <= number < 2**31:
        raise BadArgument(f"{name} is {number}: there is no such value")
    return number


def string(value: Union[str, bytes, None], name: str) -> Optional[bytes]:
    if value is None:
        return None
    if isinstance(value, str):
        value = value.encode()
    elif not isinstance(value, bytes):
        raise TypeError(f"{name} must be str, bytes or None, not {type(value).__name__}")
    if b"\0" in value:
        raise BadArgument(f"{name} contains a NUL character: C would take only what comes before it")
    return value


# ---- The buffer protocol ----


class Py_buffer(ctypes.Structure):
    """CPython's struct of this name; unchanged since 3.3, part of the stable ABI since 3.11."""

    _fields_ = [
        ("buf", c_void_p),
        ("obj", c_void_p),
        ("len", c_ssize_t),
        ("itemsize", c_ssize_t),
        ("readonly", c_int),
        ("ndim", c_int),
        ("format", c_char_p),
        ("shape", POINTER(c_ssize_t)),
        ("strides", POINTER(c_ssize_t)),
        ("suboffsets", POINTER(c_ssize_t)),
        ("internal", c_void_p),
    ]


_PyBUF_FORMAT = 0x0004
_PyBUF_ND = 0x0008  # with a shape but no strides: C-contiguous or refused

# Prototypes of our own: the attributes of ctypes.pythonapi are shared with every other package.
_get_buffer = ctypes.PYFUNCTYPE(c_int, ctypes.py_object, POINTER(Py_buffer), c_int)(
    ("PyObject_GetBuffer", ctypes.pythonapi)
)
_release_buffer = ctypes.PYFUNCTYPE(None, POINTER(Py_buffer))(("PyBuffer_Release", ctypes.pythonapi))

_FORMATS = frozenset(
    (order + letter).encode()
    for order in ("", "@", "=", "<" if sys.byteorder == "little" else ">")
    for letter in "IiLl"  # of 4 bytes: itemsize tells
)


class Text:
    """Tokens and extras as an icp_text, for the length of a with statement."""

    __slots__ = ("_buffer", "_copied", "_ids", "_text")

    def __init__(self, tokens: Tokens, extras: Extras = ()) -> None:
        self._text = icp_text()
        self._buffer: Optional[Py_buffer] = None
        self._copied: Any = None  # the slow path's array, and the extras' ids: C points into both
        self._ids: List[bytes] = []
        if extras:
            self._set_extras(extras)
        if not self._borrow(tokens):
            self._copy(tokens)

    def __enter__(self) -> icp_text:
        return self._text

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if self._buffer is not None:
            _release_buffer(byref(self._buffer))
            self._buffer = None
        self._text.tokens = None

    def _borrow(self, tokens: Tokens) -> bool:
        """Points at the caller's own memory. False: it is not laid out so that we could."""
        if type(tokens) is list or type(tokens) is tuple:
            return False
        buffer = Py_buffer()
        try:
            _get_buffer(tokens, byref(buffer), _PyBUF_ND | _PyBUF_FORMAT)
        except (TypeError, BufferError, ValueError):  # no buffer at all; not contiguous; numpy's way to say so
            return False
        if buffer.itemsize == 4 and buffer.format in _FORMATS and buffer.ndim == 1:
            self._buffer = buffer
            self._text.tokens = buffer.buf
            self._text.token_count = buffer.len // 4
            return True
        ndim = buffer.ndim
        _release_buffer(byref(buffer))
        if ndim != 1:
            raise BadArgument(f"tokens have {ndim} dimensions: they must have one")
        return False

    def _copy(self, tokens: Tokens) -> None:
        if isinstance(tokens, (str, bytes, bytearray)):
            raise TypeError(
                f"tokens must be ints, not {type(tokens).__name__}; for the bytes of 32-bit integers pass "
                "memoryview(...).cast('I')"
            )
        items = tokens if isinstance(tokens, (list, tuple, array)) else list(tokens)
        try:
            copy = array("I", items)
        except (OverflowError, TypeError):
            raise _first_bad(items) from None
        self._copied = copy
        self._text.tokens, self._text.token_count = copy.buffer_info()

    def _set_extras(self, extras: Extras) -> None:
        items = list(extras)
        table = (icp_extra * len(items))()
        for index, (position, length, id) in enumerate(items):
            if isinstance(id, str):
                id = id.encode()
            if not isinstance(id, bytes):
                raise TypeError(f"the id of extra {index} must be bytes or str, not {type(id).__name__}")
            table[index].position = u32(position, f"the position of extra {index}")
            table[index].length = u32(length, f"the length of extra {index}")
            table[index].id = ctypes.cast(c_char_p(id), c_void_p)
            table[index].id_bytes = len(id)
            self._ids.append(id)
        self._text.extras = table
        self._text.extra_count = len(items)


def _first_bad(items: Iterable[Any]) -> Exception:
    """Says which token is no 32-bit number."""
    for index, item in enumerate(items):
        try:
            number = operator.index(item)
        except TypeError:
            return TypeError(f"token {index} is {item!r}: not an int")
        if not 0 <= number <= U32_MAX:
            return BadArgument(f"token {index} is {number}: it must lie between 0 and 2**32 - 1")
    return TypeError("tokens must be ints")
