"""The shared library: where it is, and include/incipit/cache.h in ctypes.

Structs and functions carry the names and the order of the header; tests/test_library.py holds them against the
header itself. Enums are c_int, as the C compiler has them.

The library is loaded as a PyDLL: its calls take well under a millisecond and keep Python's global lock. That is
cheaper than giving the lock away and back, and no other thread can change a token buffer, or call into the same
cache, in the middle of a call.
"""
from __future__ import annotations

import ctypes
import ctypes.util
import os
import sys
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char,
    c_char_p,
    c_int,
    c_size_t,
    c_uint8,
    c_uint32,
    c_uint64,
    c_void_p,
)
from pathlib import Path
from typing import List, Tuple

VERSION_MAJOR = 0
VERSION_MINOR = 1

U32_MAX = 2**32 - 1
U64_MAX = 2**64 - 1

BLOCK_NONE = U32_MAX
NODE_NONE = U32_MAX
TAIL_OFF = U32_MAX
GHOST_OFF = U32_MAX
EXPLAIN_TOKENS = 8
EXPLAIN_OTHER_SCOPES = 1
HISTOGRAM_COUNT = 33


# ---- Structs, in the order of the header ----


class icp_group(Structure):
    _fields_ = [("kind", c_int), ("window", c_uint32), ("block_count", c_uint32)]


class icp_cache_options(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("block_count", c_uint32),
        ("block_tokens", c_uint32),
        ("groups", POINTER(icp_group)),
        ("group_count", c_uint32),
        ("policy", c_int),
        ("duplicates", c_int),
        ("tail_tokens_min", c_uint32),
        ("lease_count_max", c_uint32),
        ("lease_tokens_max", c_uint32),
        ("scope_count_max", c_uint32),
        ("pin_count_max", c_uint32),
        ("extra_count_max", c_uint32),
        ("ghost_count", c_uint32),
        ("name_kind", c_int),
        ("name_seed", c_char_p),
        ("seed", c_uint64),
        ("event", c_void_p),  # icp_event_fn *, cast: NULL where nobody listens
        ("event_context", c_void_p),
        ("memory", c_void_p),
        ("memory_bytes", c_size_t),
        ("hash_bits", c_uint32),
    ]


class icp_error(Structure):
    _fields_ = [("text", c_char * 192)]


class icp_extra(Structure):
    _fields_ = [("position", c_uint32), ("length", c_uint32), ("id", c_void_p), ("id_bytes", c_size_t)]


class icp_text(Structure):
    _fields_ = [
        ("tokens", c_void_p),  # const uint32_t *
        ("token_count", c_size_t),
        ("extras", POINTER(icp_extra)),
        ("extra_count", c_size_t),
    ]


class icp_request(Structure):
    _fields_ = [("text", icp_text), ("scope", c_uint64), ("flags", c_uint32)]


class icp_hit(Structure):
    _fields_ = [("cached_tokens", c_uint32), ("block_tokens_hit", c_uint32), ("tail_tokens_hit", c_uint32)]


class icp_copy(Structure):
    _fields_ = [("from", c_uint32), ("to", c_uint32), ("positions", c_uint32)]


class icp_lease_info(Structure):
    _fields_ = [
        ("scope", c_uint64),
        ("token_count", c_uint32),
        ("published_tokens", c_uint32),
        ("block_count", c_uint32),
    ]


class icp_scope_key(Structure):
    _fields_ = [("model", c_char_p), ("adapter", c_char_p), ("tenant", c_char_p), ("salt", c_char_p)]


class icp_explanation(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("why", c_int),
        ("hit", icp_hit),
        ("position", c_uint32),
        ("shared_tokens", c_uint32),
        ("group", c_uint32),
        ("text_tokens", c_uint32),
        ("evicted_tokens", c_uint32),
        ("evicted_ticks_ago", c_uint64),
        ("other_tokens", c_uint32),
        ("token_count", c_uint32),
        ("cached", c_uint32 * EXPLAIN_TOKENS),
        ("asked", c_uint32 * EXPLAIN_TOKENS),
    ]


class icp_name(Structure):
    _fields_ = [("bytes", c_uint8 * 32), ("length", c_uint32)]


class icp_name_root(Structure):
    _fields_ = [("kind", c_int), ("seed", c_char_p), ("scope", icp_scope_key), ("block_tokens", c_uint32)]


class icp_event(Structure):
    _fields_ = [
        ("kind", c_int),
        ("is_all", c_int),
        ("sequence", c_uint64),
        ("tick", c_uint64),
        ("scope", c_uint64),
        ("node", c_uint32),
        ("parent", c_uint32),
        ("position", c_uint32),
        ("group_mask", c_uint32),
        ("blocks", POINTER(c_uint32)),
        ("text", icp_text),
        ("name", icp_name),
        ("parent_name", icp_name),
    ]


icp_event_fn = CFUNCTYPE(None, c_void_p, POINTER(icp_event))


class icp_cache_stats(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("match_count", c_uint64),
        ("queried_tokens", c_uint64),
        ("hit_tokens", c_uint64),
        ("tail_tokens", c_uint64),
        ("taken_count", c_uint64),
        ("stored_count", c_uint64),
        ("duplicate_count", c_uint64),
        ("evicted_count", c_uint64),
        ("refused_count", c_uint64),
        ("full_count", c_uint64),
        ("block_count", c_uint64),
        ("block_count_spare", c_uint64),
        ("block_count_cached", c_uint64),
        ("block_count_leased", c_uint64),
        ("block_count_shared", c_uint64),
        ("block_count_private", c_uint64),
        ("block_count_duplicate", c_uint64),
        ("block_count_pinned", c_uint64),
        ("node_count", c_uint64),
        ("lease_count", c_uint64),
        ("scope_count", c_uint64),
        ("pin_count", c_uint64),
        ("extra_count", c_uint64),
        ("residency", c_uint64 * HISTOGRAM_COUNT),
        ("idle", c_uint64 * HISTOGRAM_COUNT),
        ("reuse_gap", c_uint64 * HISTOGRAM_COUNT),
    ]


class icp_scope_stats(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("match_count", c_uint64),
        ("queried_tokens", c_uint64),
        ("hit_tokens", c_uint64),
        ("tail_tokens", c_uint64),
        ("stored_count", c_uint64),
        ("evicted_count", c_uint64),
        ("block_count", c_uint64),
        ("block_count_cached", c_uint64),
        ("node_count", c_uint64),
        ("lease_count", c_uint64),
        ("quota_min", c_uint32),
        ("quota_max", c_uint32),
    ]


class icp_block_info(Structure):
    _fields_ = [
        ("state", c_int),
        ("reference_count", c_uint32),
        ("pin_count", c_uint32),
        ("node", c_uint32),
        ("position", c_uint32),
        ("scope", c_uint64),
        ("idle_ticks", c_uint64),
    ]


# ---- Functions ----

_CACHE = c_void_p
_HANDLE = c_uint64  # icp_lease, icp_scope, icp_pin

FUNCTIONS = {
    # name: (result, arguments)
    "icp_version": (c_char_p, []),
    "icp_status_name": (c_char_p, [c_int]),
    "icp_status_text": (c_char_p, [c_int]),
    "icp_cache_size": (c_size_t, [POINTER(icp_cache_options)]),
    "icp_cache_open": (c_int, [POINTER(_CACHE), POINTER(icp_cache_options), POINTER(icp_error)]),
    "icp_cache_close": (None, [_CACHE]),
    "icp_cache_match": (c_int, [_CACHE, POINTER(icp_request), POINTER(_HANDLE), POINTER(icp_hit)]),
    "icp_lease_extend": (c_int, [_CACHE, _HANDLE, c_uint32]),
    "icp_lease_table": (c_int, [_CACHE, _HANDLE, c_uint32, POINTER(c_void_p), POINTER(c_uint32)]),
    "icp_lease_tail": (c_int, [_CACHE, _HANDLE, c_uint32, POINTER(icp_copy)]),
    "icp_lease_publish": (c_int, [_CACHE, _HANDLE, POINTER(icp_text)]),
    "icp_lease_release": (c_int, [_CACHE, _HANDLE]),
    "icp_cache_tick": (c_int, [_CACHE, c_uint64]),
    "icp_lease_truncate": (c_int, [_CACHE, _HANDLE, c_uint32]),
    "icp_lease_unpublish": (c_int, [_CACHE, _HANDLE, c_uint32]),
    "icp_lease_inspect": (c_int, [_CACHE, _HANDLE, POINTER(icp_lease_info)]),
    "icp_scope_open": (c_int, [_CACHE, POINTER(icp_scope_key), POINTER(_HANDLE)]),
    "icp_scope_close": (c_int, [_CACHE, _HANDLE]),
    "icp_scope_quota": (c_int, [_CACHE, _HANDLE, c_uint32, c_uint32]),
    "icp_scope_clear": (c_int, [_CACHE, _HANDLE]),
    "icp_cache_clear": (c_int, [_CACHE]),
    "icp_cache_pin": (c_int, [_CACHE, POINTER(icp_request), c_uint64, POINTER(_HANDLE), POINTER(c_uint32)]),
    "icp_cache_unpin": (c_int, [_CACHE, _HANDLE]),
    "icp_cache_explain": (c_int, [_CACHE, POINTER(icp_request), c_uint32, POINTER(icp_explanation)]),
    "icp_explanation_text": (c_size_t, [POINTER(icp_explanation), c_char_p, c_size_t]),
    "icp_name_chain": (
        c_int,
        [POINTER(icp_name_root), POINTER(icp_text), POINTER(icp_name), c_size_t, POINTER(c_size_t)],
    ),
    "icp_cache_dump": (c_int, [_CACHE, icp_event_fn, c_void_p, POINTER(c_uint64)]),
    "icp_cache_statistics": (c_int, [_CACHE, POINTER(icp_cache_stats)]),
    "icp_scope_statistics": (c_int, [_CACHE, _HANDLE, POINTER(icp_scope_stats)]),
    "icp_block_inspect": (c_int, [_CACHE, c_uint32, c_uint32, POINTER(icp_block_info)]),
    "icp_cache_queue": (c_int, [_CACHE, c_uint32, c_void_p, c_size_t, POINTER(c_size_t)]),
    "icp_cache_check": (c_int, [_CACHE, POINTER(icp_error)]),
}


# ---- Finding and loading it ----


def file_name() -> str:
    """What the library's file is called on this system."""
    return "libincipit.dylib" if sys.platform == "darwin" else "libincipit.so"


def candidates() -> List[str]:
    """Where the library may be, best first. INCIPIT_LIBRARY alone counts where it is set."""
    named = os.environ.get("INCIPIT_LIBRARY")
    if named:
        return [named]
    package = Path(__file__).resolve().parent
    found = []
    if (package / file_name()).is_file():
        found.append(str(package / file_name()))
    checkout = package.parent.parent
    built = checkout / "build" / "release" / file_name()
    if (checkout / "include" / "incipit" / "cache.h").is_file() and built.is_file():
        found.append(str(built))
    installed = ctypes.util.find_library("incipit")
    if installed:
        found.append(installed)
    return found


def check_version(text: str, path: str) -> None:
    """ImportError unless a library of this version speaks our header: the same major number, no older minor one."""
    try:
        major, minor = (int(part) for part in text.split(".")[:2])
    except ValueError:
        raise ImportError(f"{path} gives its version as {text!r}: is it libincipit?") from None
    if major != VERSION_MAJOR or minor < VERSION_MINOR:
        wanted = f"{VERSION_MAJOR}.{VERSION_MINOR}"
        raise ImportError(
            f"{path} is libincipit {text}, this package needs {wanted} or a later {VERSION_MAJOR}.x: "
            "build or install the library that came with it, or point INCIPIT_LIBRARY at it"
        )


def load() -> Tuple[ctypes.PyDLL, str]:
    """The library, its prototypes set, and the path that it came from. ImportError says what to do."""
    paths = candidates()
    if not paths:
        raise ImportError(
            f"{file_name()} was not found. Build it (make, in the Incipit source tree), or install it (make install), "
            f"or set INCIPIT_LIBRARY to the path of {file_name()}"
        )
    path = paths[0]
    try:
        library = ctypes.PyDLL(path)
    except OSError as error:
        origin = "INCIPIT_LIBRARY names" if os.environ.get("INCIPIT_LIBRARY") else "there is"
        raise ImportError(f"{origin} {path}, but it cannot be loaded: {error}") from error
    for name, (result, arguments) in FUNCTIONS.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise ImportError(f"{path} has no {name}: is it libincipit {VERSION_MAJOR}.{VERSION_MINOR}?") from None
        function.restype = result
        function.argtypes = arguments
        if name == "icp_version":  # the first: of another version, say so before missing what it lacks
            check_version(function().decode(), path)
    return library, path


lib, path = load()
