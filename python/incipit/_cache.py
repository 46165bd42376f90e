"""Cache, Lease, Scope and Pin.

MEMORY. The library takes all of its memory at open, so this package hands it a private anonymous map of Python's
own making. Block tables lie in it, and every memoryview of a table keeps the map alive: whatever is closed first, a
view never points at memory that is gone. Lease.release and Cache.close also end the views that were given out, so
that using one later is a ValueError rather than somebody else's blocks; see Lease.table for the one exception.

CLOSING. Leases, scopes and pins hold their Cache; each call asks it for the C pointer, which close sets to None.

OVERLAP. Calls on one cache must not overlap in time. Each holds a lock while it runs; who does not get it at once
(an event callback that calls back, a second thread while a callback runs) gets a RuntimeError, as waiting could only
hang or hide the mistake.
"""
from __future__ import annotations

import ctypes
import mmap
import sys
import threading
import warnings
import weakref
from array import array
from ctypes import byref, c_char, c_size_t, c_uint32, c_uint64, c_void_p
from types import TracebackType
from typing import Any, Callable, Dict, Iterable, List, NoReturn, Optional, Tuple, Type

from . import _library
from ._errors import BadArgument, Closed, Corrupt, Stale, Status, error_of
from ._library import EXPLAIN_OTHER_SCOPES, U64_MAX, lib
from ._records import (
    BlockInfo,
    Copy,
    Duplicates,
    Event,
    Explanation,
    Group,
    Hit,
    LeaseInfo,
    NameKind,
    Policy,
    ScopeStats,
    Stats,
    block_info_of,
    explanation_of,
    fields_of,
    hit_of,
    name_bytes,
)
from ._text import Extras, Text, Tokens, enumerator, string, u32, u64

FOREVER = U64_MAX
_HUGE_PAGE_BYTES = 2 << 20


class _Owned:
    """What stands for one thing inside the library: two Python objects for it would free it twice."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} cannot be copied or pickled")


class _Listener:
    """The C side of an event callback. Apart from Cache, so that the two are no reference cycle."""

    def __init__(self, callback: Callable[[Event], object], group_count: int) -> None:
        self.callback = callback
        self.group_count = group_count
        self.error: Optional[BaseException] = None
        self.function = _library.icp_event_fn(self._run)

    def _run(self, context: Optional[int], event: Any) -> None:
        # An exception cannot pass through C: the first is kept, and raised by the call that caused it. Later events
        # of the same call are delivered all the same: the callback may keep a replica that must not miss one.
        try:
            self.callback(Event._from_c(event.contents, self.group_count))
        except BaseException as error:  # KeyboardInterrupt as well
            if self.error is None:
                self.error = error

    def close(self) -> None:
        """Raises what was kept, and ends the cycle between the C function and this object."""
        del self.function
        self.raise_kept()

    def raise_kept(self) -> None:
        error, self.error = self.error, None
        if error is not None:
            raise error


class Cache(_Owned):
    """An automatic prefix cache for KV blocks: tokens in, block numbers out.

    block_count is the number of blocks of group 0; every other option has the name and the meaning that
    icp_cache_options gives it in incipit/cache.h, and 0 means the default, given here in [brackets].

    block_tokens       tokens per block [16]
    groups             groups of layers [one Group.full()]
    policy             what leaves first [SPARE_LRU]
    duplicates         what publish does with content that is there already [KEEP]
    tail_tokens_min    shortest tail worth a copy; TAIL_OFF: whole blocks only [1]
    lease_count_max    leases open at once [256]
    lease_tokens_max   tokens in one lease [131072]
    scope_count_max    scopes beside the default one [64]
    pin_count_max      pins at once [64]
    extra_count_max    extra keys attached to cached blocks at once [1024]
    ghost_count        evictions remembered for explain; GHOST_OFF: none [block_count]
    name_kind          names kept with each cached block, for events [NONE]
    name_seed          what the chain of names starts from [vLLM's]
    seed               of the internal hash: give a random one where prompts come from strangers
    event              called with an Event for every change to what can be found, during the call that changes it.
                       It must not call back into the cache. The first exception that it raises in a call is raised
                       by that call, which has done its work all the same.
    hash_bits          for tests: keep this many bits of the internal hash [64]

    BadArgument, with the library's sentence: an option is out of range. NoMemory.

    A cache is a context manager that closes it. It belongs to one thread at a time.
    """

    _pointer: Optional[int] = None

    def __init__(
        self,
        block_count: int,
        *,
        block_tokens: int = 0,
        groups: Iterable[Group] = (),
        policy: int = Policy.DEFAULT,
        duplicates: int = Duplicates.KEEP,
        tail_tokens_min: int = 0,
        lease_count_max: int = 0,
        lease_tokens_max: int = 0,
        scope_count_max: int = 0,
        pin_count_max: int = 0,
        extra_count_max: int = 0,
        ghost_count: int = 0,
        name_kind: int = NameKind.NONE,
        name_seed: Optional[str] = None,
        seed: int = 0,
        event: Optional[Callable[[Event], object]] = None,
        hash_bits: int = 0,
    ) -> None:
        if self._pointer is not None:
            raise RuntimeError("the cache is open already")
        group_list = list(groups)
        group_table = (_library.icp_group * max(1, len(group_list)))(*(group._to_c() for group in group_list))
        options = _library.icp_cache_options(struct_size=ctypes.sizeof(_library.icp_cache_options))
        options.block_count = u32(block_count, "block_count")
        options.block_tokens = u32(block_tokens, "block_tokens")
        options.groups = group_table if group_list else None
        options.group_count = len(group_list)
        options.policy = enumerator(policy, "policy")
        options.duplicates = enumerator(duplicates, "duplicates")
        options.tail_tokens_min = u32(tail_tokens_min, "tail_tokens_min")
        options.lease_count_max = u32(lease_count_max, "lease_count_max")
        options.lease_tokens_max = u32(lease_tokens_max, "lease_tokens_max")
        options.scope_count_max = u32(scope_count_max, "scope_count_max")
        options.pin_count_max = u32(pin_count_max, "pin_count_max")
        options.extra_count_max = u32(extra_count_max, "extra_count_max")
        options.ghost_count = u32(ghost_count, "ghost_count")
        options.name_kind = enumerator(name_kind, "name_kind")
        options.name_seed = string(name_seed, "name_seed")
        options.seed = u64(seed, "seed")
        options.hash_bits = u32(hash_bits, "hash_bits")

        self._group_count = max(1, len(group_list))
        self._pool_blocks = [group.block_count or block_count for group in group_list] or [block_count]
        self._listener = None if event is None else _Listener(event, self._group_count)
        if self._listener is not None:
            options.event = ctypes.cast(self._listener.function, c_void_p)
        self._lock = threading.Lock()
        self._dropped: List[int] = []  # leases that were garbage collected
        self._views: Dict[int, List[weakref.ref[memoryview]]] = {}  # of block tables, by lease
        self._open(options)

    def _open(self, options: _library.icp_cache_options) -> None:
        """Makes the memory and the cache in it."""
        size = lib.icp_cache_size(byref(options))
        if size > 0:
            memory = _map_memory(size)
            self._words = memoryview(memory).cast("I").toreadonly()
            self._address = ctypes.addressof(c_char.from_buffer(memory))
            options.memory = self._address
            options.memory_bytes = len(memory)
        pointer = c_void_p()
        error = _library.icp_error()
        status = lib.icp_cache_open(byref(pointer), byref(options), byref(error))
        if status != Status.OK:
            raise error_of(status, error.text.decode(errors="replace") or None)
        if size == 0:
            lib.icp_cache_close(pointer)
            raise Corrupt("the library opens a cache whose options it calls invalid")
        self._pointer = pointer.value

    # ---- Its life ----

    def close(self) -> None:
        """Ends the cache, whatever leases are open. Every later call on it, or on what it gave, raises Closed; a
        second close does nothing.
        """
        if not self._lock.acquire(False):
            raise _overlap()
        try:
            pointer, self._pointer = self._pointer, None
            if pointer is None:
                return
            for handle in list(self._views):
                self._end_views(handle)
            lib.icp_cache_close(pointer)
            self._words = memoryview(b"").cast("I")  # the map goes with the last view of it
        finally:
            self._lock.release()
        if self._listener is not None:
            self._listener.close()

    @property
    def is_closed(self) -> bool:
        return self._pointer is None

    @property
    def memory_bytes(self) -> int:
        """Bytes that the cache takes, all of it since open."""
        if self._pointer is None:
            raise Closed()
        return self._words.nbytes

    def __enter__(self) -> Cache:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def __del__(self) -> None:
        pointer, self._pointer = self._pointer, None
        if pointer is not None:
            lib.icp_cache_close(pointer)

    def __repr__(self) -> str:
        state = " closed" if self.is_closed else ""
        return f"<incipit.Cache{state} block_count={self._pool_blocks[0]}>"

    # ---- Requests ----

    def match(
        self,
        tokens: Tokens,
        extras: Extras = (),
        *,
        scope: Optional[Scope] = None,
        flags: int = 0,
    ) -> Lease:
        """The longest usable cached prefix of a text, as a lease that holds its blocks against eviction.

        tokens are not copied where they are a buffer of 32-bit integers (array('I'), numpy, ctypes, memoryview);
        an 'i' buffer is taken by its bits, so -1 is token 2**32 - 1. Any other iterable of ints is copied, slowly.

        BadArgument: an empty text, extras out of order. TooLong, TooManyLeases. Stale: the scope.
        """
        handle = c_uint64()
        hit = _library.icp_hit()
        with Text(tokens, extras) as text:
            request = _library.icp_request(text, self._scope_handle(scope), u32(flags, "flags"))
            status = self._run(lib.icp_cache_match, byref(request), byref(handle), byref(hit))
        lease = Lease(self, handle.value, hit_of(hit)) if status == Status.OK else None
        self._finish(status)
        assert lease is not None
        return lease

    def explain(
        self,
        tokens: Tokens,
        extras: Extras = (),
        *,
        scope: Optional[Scope] = None,
        flags: int = 0,
        other_scopes: bool = False,
    ) -> Explanation:
        """How a request would match, and why not further. Changes nothing. Errors as for match.

        other_scopes: the caller may know that other scopes hold this text.
        """
        c = _library.icp_explanation(struct_size=ctypes.sizeof(_library.icp_explanation))
        with Text(tokens, extras) as text:
            request = _library.icp_request(text, self._scope_handle(scope), u32(flags, "flags"))
            self._call(lib.icp_cache_explain, byref(request), EXPLAIN_OTHER_SCOPES if other_scopes else 0, byref(c))
        return explanation_of(c)

    def tick(self, tick: int) -> None:
        """Sets the logical time: once per engine step, in any unit that never goes back.

        Leases that were garbage collected unreleased are released here. BadArgument: earlier than the last tick.
        """
        while self._dropped:
            handle = self._dropped.pop(0)
            self._run(lib.icp_lease_release, handle)  # stale ones do not matter
            self._end_views(handle)
        self._call(lib.icp_cache_tick, u64(tick, "tick"))

    # ---- Scopes, pins ----

    def open_scope(self, *, model: str = "", adapter: str = "", tenant: str = "", salt: str = "") -> Scope:
        """The scope of these four texts, made if need be: what must be equal before two requests share anything.

        BadArgument: a text is too long. TooManyScopes.
        """
        key = _scope_key(model, adapter, tenant, salt)
        handle = c_uint64()
        self._call(lib.icp_scope_open, byref(key), byref(handle))
        return Scope(self, handle.value)

    @property
    def default_scope(self) -> Scope:
        """The scope of requests that name none. It cannot be closed."""
        return Scope(self, 0)

    def pin(
        self,
        tokens: Tokens,
        extras: Extras = (),
        *,
        scope: Optional[Scope] = None,
        until: int = FOREVER,
    ) -> Pin:
        """Keeps the cached whole-block prefix of a text from eviction until the tick is reached, or until unpin.

        It lasts though the Pin is dropped. NotFound: not one block is cached. BadArgument: the tick has passed.
        TooManyPins.
        """
        handle = c_uint64()
        token_count = c_uint32()
        with Text(tokens, extras) as text:
            request = _library.icp_request(text, self._scope_handle(scope), 0)
            tick = u64(until, "until")
            self._call(lib.icp_cache_pin, byref(request), tick, byref(handle), byref(token_count))
        return Pin(self, handle.value, token_count.value)

    def clear(self) -> None:
        """Forgets everything that is cached. Leases keep their blocks and publish nothing more."""
        self._call(lib.icp_cache_clear)

    # ---- A look inside ----

    def dump(self) -> Tuple[List[Event], int]:
        """STORED for every node that can be found now, parents first, and the sequence of the last event that this
        includes: with both, a subscriber who missed something starts anew.
        """
        events: List[Event] = []
        listener = _Listener(events.append, self._group_count)
        sequence = c_uint64()
        try:
            self._call(lib.icp_cache_dump, listener.function, None, byref(sequence))
        finally:
            listener.close()
        return events, sequence.value

    def stats(self) -> Stats:
        c = _library.icp_cache_stats(struct_size=ctypes.sizeof(_library.icp_cache_stats))
        self._call(lib.icp_cache_statistics, byref(c))
        return Stats(**fields_of(c))

    def block(self, group: int, number: int) -> BlockInfo:
        """One block of the pool that a group draws on. BadArgument: no such group or block."""
        c = _library.icp_block_info()
        self._call(lib.icp_block_inspect, u32(group, "group"), u32(number, "number"), byref(c))
        return block_info_of(c)

    def queue(self, group: int = 0) -> List[int]:
        """The free blocks of the pool that a group draws on, in the order in which extend would take them for the
        default scope.
        """
        number = u32(group, "group")
        capacity = self._pool_blocks[number] if number < self._group_count else 1
        blocks = array("I", bytes(4 * capacity))
        count = c_size_t()
        self._call(lib.icp_cache_queue, number, blocks.buffer_info()[0], capacity, byref(count))
        return blocks[: count.value].tolist()

    def check(self) -> None:
        """Walks everything and proves the library's invariants. Corrupt, with a sentence, where one does not hold."""
        error = _library.icp_error()
        status = self._run(lib.icp_cache_check, byref(error))
        if status != Status.OK:
            raise error_of(status, error.text.decode(errors="replace") or None)

    # ---- Calls into C ----

    def _run(self, function: Callable[..., int], *arguments: object) -> int:
        """One call, none other at the same time. Returns its status."""
        if not self._lock.acquire(False):
            raise _overlap()
        try:
            if self._pointer is None:
                raise Closed()
            return function(self._pointer, *arguments)
        finally:
            self._lock.release()

    def _finish(self, status: int) -> None:
        """Raises what a callback raised during the call, or what the status stands for."""
        if self._listener is not None:
            self._listener.raise_kept()
        if status:
            raise error_of(status)

    def _call(self, function: Callable[..., int], *arguments: object) -> None:
        self._finish(self._run(function, *arguments))

    def _scope_handle(self, scope: Optional[Scope]) -> int:
        if scope is None:
            return 0
        if scope._cache is not self:
            raise BadArgument("the scope belongs to another cache")
        return scope._open_handle()

    # ---- Views of block tables ----

    def _view(self, handle: int, address: Optional[int], count: int) -> memoryview:
        """The count words at an address inside the cache's memory, read-only; ended with the lease."""
        start = (address - self._address) // 4 if count and address else 0
        view = self._words[start : start + count]
        if start < 0 or len(view) != count:
            raise Corrupt("a block table lies outside the memory of its cache")
        views = self._views.setdefault(handle, [])
        if len(views) >= 32:
            views[:] = [reference for reference in views if reference() is not None]
        views.append(weakref.ref(view))
        return view

    def _end_views(self, handle: int) -> None:
        for reference in self._views.pop(handle, ()):
            view = reference()
            if view is not None:
                try:
                    view.release()
                except BufferError:  # numpy or another view stands on it; it keeps the memory alive
                    pass


class Lease(_Owned):
    """One request's hold on its blocks: its block tables. Made by Cache.match; a context manager that releases it.

    Release it in the end, whatever became of the request. One that is garbage collected before gives a
    ResourceWarning and is released at the next Cache.tick.
    """

    __slots__ = ("__weakref__", "_cache", "_handle", "_is_released", "hit")

    hit: Hit
    """What the match found; compute starts at hit.cached_tokens."""

    def __init__(self, cache: Cache, handle: int, hit: Hit) -> None:
        self._cache = cache
        self._handle = handle
        self._is_released = False
        self.hit = hit

    def extend(self, token_count: int) -> None:
        """Room for token_count tokens in all, evicting what is least worth keeping. A count at or below the current
        one changes nothing. Full, Quota: nothing was changed. TooLong, Stale.
        """
        self._cache._call(lib.icp_lease_extend, self._handle, u32(token_count, "token_count"))

    def table(self, group: int = 0) -> memoryview:
        """The block table of one group, to hand to the attention kernel: a read-only memoryview, format 'I', of the
        library's own table, which is not copied. Entry i is the block of positions [i * block_tokens,
        (i + 1) * block_tokens), or BLOCK_NONE.

        A view shows later changes of its entries and is valid until the lease is released; it has the length of now,
        so ask again after extend. After release or close using it is a ValueError. Where something stands on it (a
        numpy array, a slice), that cannot be taken back: it stays safe to read, but shows whatever the cache
        keeps there next. For a copy that stays, say list(lease.table()).
        """
        address = c_void_p()
        count = c_uint32()
        cache = self._cache
        cache._call(lib.icp_lease_table, self._handle, u32(group, "group"), byref(address), byref(count))
        return cache._view(self._handle, address.value, count.value)

    def tail(self, group: int = 0) -> Optional[Copy]:
        """The copy that the engine has to make before it computes the next token, or None where there is no tail.
        NotFound: there is a tail, but no extend yet. Stale.
        """
        copy = _library.icp_copy()
        self._cache._call(lib.icp_lease_tail, self._handle, u32(group, "group"), byref(copy))
        return Copy(getattr(copy, "from"), copy.to, copy.positions) if copy.positions else None

    def publish(self, tokens: Tokens, extras: Extras = ()) -> None:
        """Makes the full blocks of a text findable: the whole text of the lease so far, within what extend made room
        for. Only blocks not yet published are read, so from a buffer (see Cache.match) a decode step costs O(1).
        BadArgument: the text is longer than the lease, or the extras are out of order. Stale.
        """
        with Text(tokens, extras) as text:
            self._cache._call(lib.icp_lease_publish, self._handle, byref(text))

    def truncate(self, token_count: int) -> None:
        """Drops the last tokens, down to token_count: rejected guesses, a stop string. What was published stays
        cached; tail tells what to copy where the end now lies inside a published block. Full, Quota, Stale.
        NotFound: a window block or a state needed from there on is gone: release and match again.
        """
        self._cache._call(lib.icp_lease_truncate, self._handle, u32(token_count, "token_count"))

    def unpublish(self, token_count: int) -> None:
        """A step failed: what was published past token_count, and everything cached below it, can no longer be
        found. Call this, then truncate or release, for every lease of the step. Stale.
        """
        self._cache._call(lib.icp_lease_unpublish, self._handle, u32(token_count, "token_count"))

    def release(self) -> None:
        """Ends the lease. Published blocks stay cached until their turn to leave comes. Stale: released before."""
        cache = self._cache
        status = cache._run(lib.icp_lease_release, self._handle)
        self._is_released = True
        cache._end_views(self._handle)
        cache._finish(status)

    def info(self) -> LeaseInfo:
        c = _library.icp_lease_info()
        self._cache._call(lib.icp_lease_inspect, self._handle, byref(c))
        return LeaseInfo(**fields_of(c))

    @property
    def is_released(self) -> bool:
        return self._is_released or self._cache.is_closed

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if not self.is_released:
            self.release()

    def __del__(self) -> None:
        if not self.is_released and not sys.is_finalizing():
            self._cache._dropped.append(self._handle)  # and no call: this may run inside another
            warnings.warn(f"{self!r} was never released", ResourceWarning, stacklevel=2, source=self)

    def __repr__(self) -> str:
        state = " released" if self.is_released else ""
        return f"<incipit.Lease {self._handle:#x}{state} {self.hit}>"


class Scope(_Owned):
    """Who may share with whom. Made by Cache.open_scope; a context manager that closes it.

    Each object closes once what it opened, and no other object's. Leases may outlive it; what is cached stays cached.
    """

    __slots__ = ("_cache", "_handle", "_is_closed")

    def __init__(self, cache: Cache, handle: int) -> None:
        self._cache = cache
        self._handle = handle
        self._is_closed = False

    @property
    def handle(self) -> int:
        """The number by which events, LeaseInfo and BlockInfo name this scope."""
        return self._handle

    def quota(self, min: int = 0, max: int = 0) -> None:
        """At least and at most so many blocks, in each pool, for its cached and leased blocks together; max 0: no
        limit. BadArgument: min > max, or the sum of all min exceeds a pool.
        """
        self._cache._call(lib.icp_scope_quota, self._open_handle(), u32(min, "min"), u32(max, "max"))

    def clear(self) -> None:
        """Forgets what is cached under it. Leases keep their blocks and publish nothing more."""
        self._cache._call(lib.icp_scope_clear, self._open_handle())

    def stats(self) -> ScopeStats:
        c = _library.icp_scope_stats(struct_size=ctypes.sizeof(_library.icp_scope_stats))
        self._cache._call(lib.icp_scope_statistics, self._open_handle(), byref(c))
        return ScopeStats(**fields_of(c))

    def close(self) -> None:
        """Stale: closed before. The default scope cannot be closed: BadArgument."""
        status = self._cache._run(lib.icp_scope_close, self._open_handle())
        self._is_closed = status == Status.OK
        self._cache._finish(status)

    def _open_handle(self) -> int:
        # The library counts opens per scope, not per object: only we know that this object's is over.
        if self._is_closed:
            raise Stale()
        return self._handle

    def __enter__(self) -> Scope:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if not (self._is_closed or self._cache.is_closed or self._handle == 0):
            self.close()

    def __repr__(self) -> str:
        state = " closed" if self._is_closed or self._cache.is_closed else ""
        return f"<incipit.Scope {self._handle:#x}{state}>"


class Pin(_Owned):
    """A cached prefix that is kept from eviction. Made by Cache.pin; a context manager that unpins it."""

    __slots__ = ("_cache", "_handle", "token_count")

    token_count: int
    """The tokens that are kept: whole blocks."""

    def __init__(self, cache: Cache, handle: int, token_count: int) -> None:
        self._cache = cache
        self._handle = handle
        self.token_count = token_count

    def unpin(self) -> None:
        """Stale: unpinned before, or run out."""
        self._cache._call(lib.icp_cache_unpin, self._handle)

    def __enter__(self) -> Pin:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        try:
            self.unpin()
        except Stale:  # run out, unpinned inside, or the cache is closed
            pass

    def __repr__(self) -> str:
        return f"<incipit.Pin {self._handle:#x} token_count={self.token_count}>"


def names(
    tokens: Tokens,
    extras: Extras = (),
    *,
    block_tokens: int = 16,
    kind: int = NameKind.SHA256,
    seed: Optional[str] = None,
    model: str = "",
    adapter: str = "",
    tenant: str = "",
    salt: str = "",
) -> List[bytes]:
    """The names of the full blocks of a text, vLLM's block hashes: a pure function, no cache needed.

    seed stands for PYTHONHASHSEED; None is vLLM's default. BadArgument: kind NONE, block_tokens 0, extras out of
    order.
    """
    root = _library.icp_name_root(
        kind=enumerator(kind, "kind"),
        seed=string(seed, "seed"),
        scope=_scope_key(model, adapter, tenant, salt),
        block_tokens=u32(block_tokens, "block_tokens"),
    )
    with Text(tokens, extras) as text:
        capacity = text.token_count // max(1, root.block_tokens)
        table = (_library.icp_name * max(1, capacity))()
        count = c_size_t()
        status = lib.icp_name_chain(byref(root), byref(text), table, capacity, byref(count))
    if status != Status.OK:
        raise error_of(status)
    return [name_bytes(name) for name in table[: count.value]]


def _scope_key(model: str, adapter: str, tenant: str, salt: str) -> _library.icp_scope_key:
    return _library.icp_scope_key(
        string(model, "model"), string(adapter, "adapter"), string(tenant, "tenant"), string(salt, "salt")
    )


def _overlap() -> RuntimeError:
    return RuntimeError(
        "a call on this cache is running: an event callback must not call back, and threads must take turns"
    )


def _map_memory(size: int) -> mmap.mmap:
    """Zeroed private memory, page aligned; private, so that a forked child has a copy and not the original."""
    size = (size + mmap.PAGESIZE - 1) // mmap.PAGESIZE * mmap.PAGESIZE
    try:
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANON)
    except (OSError, OverflowError) as error:
        raise error_of(Status.NO_MEMORY, f"{size} bytes could not be had: {error}") from error
    if size >= _HUGE_PAGE_BYTES and hasattr(mmap, "MADV_HUGEPAGE"):
        try:
            memory.madvise(mmap.MADV_HUGEPAGE)  # a large cache is walked at random
        except OSError:
            pass  # plain pages do as well, only slower
    return memory
