"""Statuses and the exceptions that stand for them."""
from __future__ import annotations

import enum
from typing import Dict, Optional, Type

from . import _library


class Status(enum.IntEnum):
    """icp_status: what a call of the C library answers. The numbers are stable."""

    OK = 0
    FULL = 1
    QUOTA = 2
    TOO_MANY_LEASES = 3
    TOO_MANY_SCOPES = 4
    TOO_MANY_PINS = 5
    TOO_LONG = 6
    BAD_ARGUMENT = 7
    STALE = 8
    NOT_FOUND = 9
    NO_MEMORY = 10
    CORRUPT = 11


def status_text(status: int) -> str:
    """The library's own sentence for a status."""
    text: bytes = _library.lib.icp_status_text(status)
    return text.decode()


class CacheError(Exception):
    """A call was refused and has changed nothing. The message is the library's sentence for the status."""

    status: Optional[Status] = None

    def __init__(self, text: Optional[str] = None, status: Optional[int] = None) -> None:
        if status is not None:
            self.status = Status(status) if status in Status.__members__.values() else None
        if text is None:
            text = "unknown status" if self.status is None else status_text(self.status)
        super().__init__(text)


class Full(CacheError):
    """The pool has no block to give: release a lease, or try again when one has ended."""

    status = Status.FULL


class Quota(CacheError):
    """The scope holds as many blocks as its quota allows."""

    status = Status.QUOTA


class TooManyLeases(CacheError):
    """lease_count_max leases are open."""

    status = Status.TOO_MANY_LEASES


class TooManyScopes(CacheError):
    """scope_count_max scopes are open or hold blocks."""

    status = Status.TOO_MANY_SCOPES


class TooManyPins(CacheError):
    """pin_count_max pins are set."""

    status = Status.TOO_MANY_PINS


class TooLong(CacheError):
    """The text is longer than lease_tokens_max."""

    status = Status.TOO_LONG


class BadArgument(CacheError, ValueError):
    """An argument is out of range or does not fit the others."""

    status = Status.BAD_ARGUMENT


class Stale(CacheError):
    """The lease, scope or pin was released or closed before."""

    status = Status.STALE


class Closed(Stale):
    """The cache itself was closed."""

    def __init__(self, text: str = "the cache is closed") -> None:
        super().__init__(text)


class NotFound(CacheError, LookupError):
    """The cache does not hold that."""

    status = Status.NOT_FOUND


class NoMemory(CacheError, MemoryError):
    """Memory could not be had."""

    status = Status.NO_MEMORY


class Corrupt(CacheError):
    """An invariant does not hold: a bug in the library, or a stray write into its memory."""

    status = Status.CORRUPT


_CLASSES: Dict[int, Type[CacheError]] = {
    kind.status: kind
    for kind in (
        Full,
        Quota,
        TooManyLeases,
        TooManyScopes,
        TooManyPins,
        TooLong,
        BadArgument,
        Stale,
        NotFound,
        NoMemory,
        Corrupt,
    )
    if kind.status is not None
}


def error_of(status: int, text: Optional[str] = None) -> CacheError:
    """The exception for a status, with its sentence or a better one."""
    kind = _CLASSES.get(status)
    if kind is not None:
        return kind(text)
    return CacheError(text or status_text(status), status)
