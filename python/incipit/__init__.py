"""Incipit: an automatic prefix cache for KV blocks. Tokens in, block numbers out.

A binding of libincipit, the C library, through ctypes: nothing is compiled. The calls that do the job, in the order
an engine uses them for one request:

    Cache.match      the longest cached prefix of a prompt, as a Lease
    Lease.extend     room for more tokens: new blocks, evicting what is least worth keeping
    Lease.table      the block table to hand to the attention kernel
    Lease.publish    full blocks of known tokens become findable by others
    Lease.release    the request is over; its blocks stay cached until their turn comes

and Cache.tick once per engine step. A call that is refused raises a CacheError and has changed nothing.

    >>> import incipit
    >>> cache = incipit.Cache(64, block_tokens=4)
    >>> with cache.match([1, 2, 3, 4, 5, 6]) as lease:
    ...     lease.extend(6)
    ...     lease.publish([1, 2, 3, 4, 5, 6])
    ...     list(lease.table())
    [0, 1]
    >>> with cache.match([1, 2, 3, 4, 7]) as lease:
    ...     lease.hit.cached_tokens
    4

Each function is specified in incipit/cache.h; the names here are those names.
"""
from ._cache import FOREVER, Cache, Lease, Pin, Scope, names
from ._errors import (
    BadArgument,
    CacheError,
    Closed,
    Corrupt,
    Full,
    NoMemory,
    NotFound,
    Quota,
    Stale,
    Status,
    TooLong,
    TooManyLeases,
    TooManyPins,
    TooManyScopes,
)
from ._library import BLOCK_NONE, GHOST_OFF, TAIL_OFF
from ._library import lib as _lib
from ._library import path as library_path
from ._records import (
    BlockInfo,
    BlockState,
    Copy,
    Duplicates,
    Event,
    EventKind,
    Explanation,
    Flags,
    Group,
    GroupKind,
    Hit,
    LeaseInfo,
    NameKind,
    Policy,
    ScopeStats,
    Stats,
    Why,
)
from ._text import Extra, Extras, Tokens

__version__ = "0.1.0"
library_version: str = _lib.icp_version().decode()

__all__ = [
    "BLOCK_NONE",
    "FOREVER",
    "GHOST_OFF",
    "TAIL_OFF",
    "BadArgument",
    "BlockInfo",
    "BlockState",
    "Cache",
    "CacheError",
    "Closed",
    "Copy",
    "Corrupt",
    "Duplicates",
    "Event",
    "EventKind",
    "Explanation",
    "Extra",
    "Extras",
    "Flags",
    "Full",
    "Group",
    "GroupKind",
    "Hit",
    "Lease",
    "LeaseInfo",
    "NameKind",
    "NoMemory",
    "NotFound",
    "Pin",
    "Policy",
    "Quota",
    "Scope",
    "ScopeStats",
    "Stale",
    "Stats",
    "Status",
    "Tokens",
    "TooLong",
    "TooManyLeases",
    "TooManyPins",
    "TooManyScopes",
    "Why",
    "library_path",
    "library_version",
    "names",
]

# A traceback says incipit.Full, which is what a program catches, and not the file that it is written in.
for _name in __all__:
    if isinstance(globals()[_name], type):
        globals()[_name].__module__ = "incipit"
names.__module__ = "incipit"
del _name
