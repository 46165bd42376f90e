"""What goes into a cache and comes out of it: enums, options of groups, and results as plain values.

Everything here is a copy: it stays true to the moment it was made, whatever becomes of the cache.
"""
from __future__ import annotations

import ctypes
import enum
from dataclasses import dataclass
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from . import _library
from ._library import BLOCK_NONE, NODE_NONE
from ._text import Extra, enumerator, u32


class GroupKind(enum.IntEnum):
    """How the layers of a group keep KV."""

    FULL = 0
    WINDOW = 1
    STATE = 2


class Policy(enum.IntEnum):
    """What leaves first when a block is needed."""

    DEFAULT = 0
    """SPARE_LRU."""
    LRU = 1
    """vLLM's order exactly: one queue, released blocks at its tail, content or not."""
    SPARE_LRU = 2
    """Blocks that nobody can find first, then the least recently used."""


class Duplicates(enum.IntEnum):
    """What publish does with a block whose content another block holds already."""

    KEEP = 0
    """The lease keeps its own copy: tables only grow."""
    ADOPT = 1
    """The lease's table is changed to the other block, its own is given back."""


class NameKind(enum.IntEnum):
    """How names are made."""

    NONE = 0
    SHA256_CBOR = 1
    """vLLM's sha256_cbor, 32 bytes."""
    XXH3_CBOR = 2
    """vLLM's xxhash_cbor, 16 bytes; fast, not for mutual distrust."""
    SHA256 = 3
    """vLLM's sha256 (its default), 32 bytes."""


class Flags(enum.IntFlag):
    """How a request wants to be treated."""

    NO_READ = 1
    """match finds nothing, yet the blocks are published."""
    NO_STORE = 2
    """The cache is read, nothing is published."""
    UNCOUNTED = 4
    """Left out of the statistics: a preempted request that looks its blocks up again."""


class Why(enum.IntEnum):
    """Why a prompt did not hit further. See Explanation for the numbers that go with each."""

    HIT = 0
    DIVERGES = 1
    EXTRA = 2
    SHORT = 3
    ENDS = 4
    EVICTED = 5
    GROUP = 6
    OTHER_SCOPE = 7
    NEVER = 8


class EventKind(enum.IntEnum):
    """What happened to what can be found."""

    STORED = 0
    REMOVED = 1
    CLEARED = 2


class BlockState(enum.IntEnum):
    """The one state that a block is in."""

    SPARE = 0
    """Free, nothing to find in it."""
    CACHED = 1
    """Free to evict, findable."""
    LEASED = 2
    """Findable and held by one lease."""
    SHARED = 3
    """Held by more than one lease or pin."""
    PRIVATE = 4
    """Held by one lease, not published."""
    DUPLICATE = 5
    """Held, with content that another block stands for."""


@dataclass(frozen=True)
class Group:
    """Layers that keep KV alike; a lease has one block table per group. Made by full, window or state.

    blocks is the size of a pool of its own; 0: the group draws on the blocks of group 0.
    """

    kind: GroupKind
    window_tokens: int = 0
    block_count: int = 0

    @classmethod
    def full(cls, blocks: int = 0) -> Group:
        """Every position is attended to."""
        return cls(GroupKind.FULL, 0, blocks)

    @classmethod
    def window(cls, tokens: int, blocks: int = 0) -> Group:
        """A position attends to itself and the tokens - 1 before it."""
        return cls(GroupKind.WINDOW, tokens, blocks)

    @classmethod
    def state(cls, blocks: int = 0) -> Group:
        """A recurrent state: a block holds the state after its last token."""
        return cls(GroupKind.STATE, 0, blocks)

    def _to_c(self) -> _library.icp_group:
        return _library.icp_group(
            enumerator(self.kind, "a group's kind"),
            u32(self.window_tokens, "a group's window"),
            u32(self.block_count, "a group's blocks"),
        )


class Hit(NamedTuple):
    """What a match found. Compute starts at cached_tokens, the sum of the other two."""

    cached_tokens: int
    block_tokens_hit: int
    tail_tokens_hit: int


class Copy(NamedTuple):
    """Positions [0, positions) of block source are to be copied to block target, in every layer of the group."""

    source: int
    target: int
    positions: int


@dataclass(frozen=True)
class LeaseInfo:
    scope: int
    """The handle of its scope; 0 is the default one."""
    token_count: int
    """Room in the tables."""
    published_tokens: int
    """Findable prefix, whole blocks."""
    block_count: int
    """Entries in each table."""


@dataclass(frozen=True)
class Explanation:
    """How a request would match, and why not further."""

    why: Why
    text: str
    """The explanation as one English sentence."""
    hit: Hit
    """What match would give now."""
    position: int
    """The token where reuse stops, or where the texts part."""
    shared_tokens: int
    """DIVERGES, EXTRA, SHORT: tokens past the last whole cached block that agree."""
    group: int
    """GROUP: which one."""
    text_tokens: int
    """GROUP: tokens that are cached as text."""
    evicted_tokens: int
    """EVICTED: tokens from position on that were all cached once."""
    evicted_ticks_ago: int
    other_tokens: int
    """With other_scopes: whole-block tokens cached under the best other scope."""
    cached: List[int]
    """DIVERGES, SHORT: up to eight tokens from position on in the nearest cached text ..."""
    asked: List[int]
    """... and in the text that was asked for."""


@dataclass(frozen=True)
class Event:
    """A change to what can be found. Which fields mean something depends on kind.

    STORED: the node can be found, in the groups of group_mask. REMOVED: these groups of the node are gone; without
    its last group the node is gone. CLEARED: everything of the scope is gone, or of all scopes where is_all is set.
    """

    kind: EventKind
    is_all: bool
    sequence: int
    """1, 2, 3, ...; a dump repeats the sequence of the last event."""
    tick: int
    scope: int
    """The handle of the scope; 0 is the default one."""
    node: Optional[int]
    parent: Optional[int]
    """None: the block starts the text."""
    position: int
    group_mask: int
    blocks: Tuple[Optional[int], ...]
    """STORED: one per group, None where it has none."""
    tokens: Tuple[int, ...]
    """STORED: the node's own tokens."""
    extras: Tuple[Extra, ...]
    """STORED: with ids as bytes, positions from the start of the text."""
    name: bytes
    """Empty where names are not kept."""
    parent_name: bytes

    @classmethod
    def _from_c(cls, c: _library.icp_event, group_count: int) -> Event:
        text = c.text
        count = text.token_count
        tokens = (ctypes.c_uint32 * count).from_address(text.tokens) if count else ()
        return cls(
            kind=EventKind(c.kind),
            is_all=bool(c.is_all),
            sequence=c.sequence,
            tick=c.tick,
            scope=c.scope,
            node=_number(c.node, NODE_NONE),
            parent=_number(c.parent, NODE_NONE),
            position=c.position,
            group_mask=c.group_mask,
            blocks=tuple(_number(block, BLOCK_NONE) for block in c.blocks[:group_count]) if c.blocks else (),
            tokens=tuple(tokens),
            extras=tuple(
                Extra(extra.position, extra.length, ctypes.string_at(extra.id, extra.id_bytes))
                for extra in text.extras[: text.extra_count]
            )
            if text.extra_count
            else (),
            name=name_bytes(c.name),
            parent_name=name_bytes(c.parent_name),
        )


@dataclass(frozen=True)
class Stats:
    """Counters since open, blocks by state now, and ages in ticks.

    A histogram's bucket 0 counts age 0, bucket i the ages from 2**(i - 1) to 2**i - 1.
    """

    match_count: int
    queried_tokens: int
    hit_tokens: int
    """Whole blocks ..."""
    tail_tokens: int
    """... and on top of these."""
    taken_count: int
    """Blocks handed out by extend and truncate."""
    stored_count: int
    duplicate_count: int
    """Published content that was there already."""
    evicted_count: int
    refused_count: int
    """Blocks not published for want of room in a table."""
    full_count: int
    """Extends answered with Full or Quota."""
    block_count: int
    """The next six add up to it."""
    block_count_spare: int
    block_count_cached: int
    block_count_leased: int
    block_count_shared: int
    block_count_private: int
    block_count_duplicate: int
    block_count_pinned: int
    """Of those held: by a pin."""
    node_count: int
    lease_count: int
    scope_count: int
    pin_count: int
    extra_count: int
    residency: List[int]
    """From published to evicted."""
    idle: List[int]
    """From the last use to evicted."""
    reuse_gap: List[int]
    """From the last use to a hit."""

    @property
    def hit_rate(self) -> float:
        """The share of queried tokens that were cached; 0.0 before the first match."""
        return (self.hit_tokens + self.tail_tokens) / self.queried_tokens if self.queried_tokens else 0.0


@dataclass(frozen=True)
class ScopeStats:
    """The same for one scope; block counts are of all pools together."""

    match_count: int
    queried_tokens: int
    hit_tokens: int
    tail_tokens: int
    stored_count: int
    evicted_count: int
    block_count: int
    """Cached and leased now."""
    block_count_cached: int
    node_count: int
    lease_count: int
    quota_min: int
    quota_max: int


@dataclass(frozen=True)
class BlockInfo:
    state: BlockState
    reference_count: int
    """Leases and pins that hold it."""
    pin_count: int
    node: Optional[int]
    """None: not findable."""
    position: int
    """Of its first token, where it has a node."""
    scope: int
    idle_ticks: int
    """Since the last use."""


def _number(number: int, none: int) -> Optional[int]:
    return None if number == none else number


def name_bytes(name: _library.icp_name) -> bytes:
    return bytes(name.bytes[: name.length])


def fields_of(c: ctypes.Structure) -> Dict[str, Any]:
    """The fields of a C result by name, arrays as lists, without struct_size."""
    values = {name: getattr(c, name) for name, *_ in c._fields_ if name != "struct_size"}
    return {name: value[:] if isinstance(value, ctypes.Array) else value for name, value in values.items()}


def hit_of(c: _library.icp_hit) -> Hit:
    return Hit(c.cached_tokens, c.block_tokens_hit, c.tail_tokens_hit)


def block_info_of(c: _library.icp_block_info) -> BlockInfo:
    fields = fields_of(c)
    fields["state"] = BlockState(c.state)
    fields["node"] = _number(c.node, NODE_NONE)
    return BlockInfo(**fields)


def explanation_of(c: _library.icp_explanation) -> Explanation:
    fields = fields_of(c)
    count = fields.pop("token_count")
    fields.update(
        why=Why(c.why),
        text=_explanation_text(c),
        hit=hit_of(c.hit),
        cached=fields["cached"][:count],
        asked=fields["asked"][:count],
    )
    return Explanation(**fields)


def _explanation_text(c: _library.icp_explanation) -> str:
    size = 512
    while True:
        text = ctypes.create_string_buffer(size)
        length: int = _library.lib.icp_explanation_text(ctypes.byref(c), text, size)
        if length < size:
            return text.value.decode()
        size = length + 1
