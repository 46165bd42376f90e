"""Byte-level BPE as GPT-2 does it (GGUF: tokenizer.ggml.model=gpt2, tokenizer.ggml.pre=gpt-2).

Ids: 0..255 are the bytes, then one token per merge in the order learned, then the special tokens.
"""

import collections
import heapq
import json
import re
import sys
import unicodedata

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def byte_chars():
    """GPT-2's printable character for each byte."""
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    chars, extra = {b: chr(b) for b in keep}, 256
    for b in range(256):
        if b not in chars:
            chars[b], extra = chr(extra), extra + 1
    return chars


def char_class(kind):
    """The ranges of all characters whose Unicode category starts with kind, for use inside [...]."""
    out, start = [], None
    for c in range(sys.maxunicode + 2):
        inside = c <= sys.maxunicode and unicodedata.category(chr(c))[0] == kind
        if inside and start is None:
            start = c
        elif not inside and start is not None:
            out.append(f"\\U{start:08x}-\\U{c - 1:08x}")
            start = None
    return "".join(out)


L, N = char_class("L"), char_class("N")  # re has no \p{L} and \p{N}
SPLIT = re.compile(rf"'s|'t|'re|'ve|'m|'ll|'d| ?[{L}]+| ?[{N}]+| ?[^\s{L}{N}]+|\s+(?!\S)|\s+")
SPECIAL_SPLIT = re.compile("(" + "|".join(map(re.escape, SPECIAL)) + ")")


def train(text_counts, vocab_size):
    """Learns merges from {pre-token: count}. Ties go to the smaller pair, so the result is fixed."""
    words = [(list(w.encode()), n) for w, n in sorted(text_counts.items())]
    pairs, where = collections.Counter(), collections.defaultdict(set)
    for i, (ids, n) in enumerate(words):
        for p in zip(ids, ids[1:]):
            pairs[p] += n
            where[p].add(i)
    heap = [(-n, p) for p, n in pairs.items()]
    heapq.heapify(heap)
    merges = []
    while len(merges) < vocab_size - 256 - len(SPECIAL) and heap:
        n, best = heapq.heappop(heap)
        if -n != pairs[best]:  # stale: its count has changed since
            if pairs[best] > 0:
                heapq.heappush(heap, (-pairs[best], best))
            continue
        new, changed = 256 + len(merges), set()
        merges.append(best)
        for i in where.pop(best):
            ids, n = words[i]
            for p in zip(ids, ids[1:]):
                pairs[p] -= n
            out, k = [], 0
            while k < len(ids):
                if k + 1 < len(ids) and (ids[k], ids[k + 1]) == best:
                    out.append(new)
                    k += 2
                else:
                    out.append(ids[k])
                    k += 1
            ids[:] = out
            for p in zip(out, out[1:]):
                pairs[p] += n
                where[p].add(i)
                if new in p:
                    changed.add(p)
        for p in changed:
            heapq.heappush(heap, (-pairs[p], p))
    return merges


class Tokenizer:
    def __init__(self, merges):
        self.merges = [tuple(m) for m in merges]
        self.rank = {m: i for i, m in enumerate(self.merges)}
        self.bytes = [bytes([b]) for b in range(256)]
        for a, b in self.merges:
            self.bytes.append(self.bytes[a] + self.bytes[b])
        self.special = {s: len(self.bytes) + i for i, s in enumerate(SPECIAL)}
        self.size = len(self.bytes) + len(SPECIAL)
        self.cache = {}

    @classmethod
    def load(cls, path):
        with open(path, encoding="utf-8") as f:
            return cls(json.load(f)["merges"])

    def save(self, path):
        with open(path, "w", encoding="utf-8") as f:
            json.dump({"merges": self.merges}, f, separators=(",", ":"))
            f.write("\n")

    def word(self, w):
        ids = list(w.encode())
        while len(ids) > 1:
            rank, k = min((self.rank.get(p, 1 << 30), k) for k, p in enumerate(zip(ids, ids[1:])))
            if rank == 1 << 30:
                break
            ids[k : k + 2] = [256 + rank]
        return ids

    def encode(self, text):
        """Ids of text; the special tokens' own spelling becomes the special tokens."""
        out = []
        for part in SPECIAL_SPLIT.split(text):
            if part in self.special:
                out.append(self.special[part])
                continue
            for w in SPLIT.findall(part):
                ids = self.cache.get(w)
                if ids is None:
                    ids = self.cache[w] = self.word(w)
                out += ids
        return out

    def decode(self, ids):
        out = b"".join(self.bytes[i] if i < len(self.bytes) else SPECIAL[i - len(self.bytes)].encode() for i in ids)
        return out.decode("utf-8", "replace")

    def gguf_tables(self):
        """tokens, merges and token types (1 normal, 3 control) as GGUF stores them."""
        chars = byte_chars()
        spelled = ["".join(chars[b] for b in t) for t in self.bytes]
        merges = [f"{spelled[a]} {spelled[b]}" for a, b in self.merges]
        return spelled + SPECIAL, merges, [1] * len(spelled) + [3] * len(SPECIAL)
