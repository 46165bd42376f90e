"""Reads GGUF files: metadata as Python values, tensors as float64 arrays, every weight type decoded here.

Written from the description of the format, for the tests: it shares nothing with the reader in src/.
"""

import struct

import numpy as np

FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
# type: name, values of a block, its bytes
TYPES = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210), 30: ("BF16", 1, 2),
}  # fmt: skip


def half(raw):
    """Bytes [..., 2] as numbers [..., 1]."""
    return raw.copy().view("<f2").astype(np.float64)


def nibbles(raw):
    """Bytes [n, b] as [n, 2, b]: the low halves, then the high ones."""
    return np.stack([raw & 15, raw >> 4], 1)


def decode_q4_0(b):
    return half(b[:, :2]) * (nibbles(b[:, 2:]).reshape(-1, 32).astype(int) - 8)


def decode_q4_1(b):
    return half(b[:, :2]) * nibbles(b[:, 4:]).reshape(-1, 32) + half(b[:, 2:4])


def fifth_bits(raw):
    return np.unpackbits(raw, axis=1, bitorder="little").astype(int) << 4


def decode_q5_0(b):
    q = nibbles(b[:, 6:]).reshape(-1, 32) | fifth_bits(b[:, 2:6])
    return half(b[:, :2]) * (q - 16)


def decode_q5_1(b):
    q = nibbles(b[:, 8:]).reshape(-1, 32) | fifth_bits(b[:, 4:8])
    return half(b[:, :2]) * q + half(b[:, 2:4])


def decode_q8_0(b):
    return half(b[:, :2]) * b[:, 2:].view(np.int8)


def scales_and_minima(raw):
    """Twelve bytes hold eight scales and eight minima of six bits."""
    first, second, third = (raw[:, i : i + 4].astype(int) for i in (0, 4, 8))
    scales = np.concatenate([first & 63, third & 15 | first >> 6 << 4], 1)
    minima = np.concatenate([second & 63, third >> 4 | second >> 6 << 4], 1)
    return scales[:, :, None], minima[:, :, None]


def decode_k(b, low_at, high):
    """Runs of 32 under a scale and a minimum; bytes of low halves serve two runs that follow each other."""
    scales, minima = scales_and_minima(b[:, 4:16])
    q = nibbles(b[:, low_at:].reshape(-1, 32)).reshape(-1, 8, 32) | high
    return (half(b[:, :2])[:, :, None] * scales * q - half(b[:, 2:4])[:, :, None] * minima).reshape(-1, 256)


def decode_q4_k(b):
    return decode_k(b, 16, 0)


def decode_q5_k(b):
    high = b[:, None, 16:48] >> np.arange(8, dtype=np.uint8)[None, :, None] & 1
    return decode_k(b, 48, high.astype(int) << 4)


def decode_q6_k(b):
    low = nibbles(b[:, :128].reshape(-1, 64)).reshape(-1, 2, 4, 32).astype(int)
    high = b[:, 128:192].reshape(-1, 2, 1, 32) >> np.arange(0, 8, 2, dtype=np.uint8)[:, None] & 3
    q = (low | high.astype(int) << 4) - 32
    scales = b[:, 192:208].view(np.int8).astype(int)
    return half(b[:, 208:210]) * (q.reshape(-1, 16, 16) * scales[:, :, None]).reshape(-1, 256)


def decode_bf16(b):
    return (b.copy().view("<u2").astype(np.uint32) << 16).view("<f4").astype(np.float64)


DECODERS = {
    "F32": lambda b: b.copy().view("<f4").astype(np.float64), "F16": half, "BF16": decode_bf16,
    "Q4_0": decode_q4_0, "Q4_1": decode_q4_1, "Q5_0": decode_q5_0, "Q5_1": decode_q5_1, "Q8_0": decode_q8_0,
    "Q4_K": decode_q4_k, "Q5_K": decode_q5_k, "Q6_K": decode_q6_k,
}  # fmt: skip


class Gguf:
    """pairs: key to value; tensors: name to array, the contiguous dimension last; types: name to "Q4_K"."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.raw = file.read()
        self.at = 4
        version, tensor_count, pair_count = self.take("I"), self.take("Q"), self.take("Q")
        if self.raw[:4] != b"GGUF" or version != 3:
            raise ValueError(f"{path}: not a GGUF file of version 3")
        self.pairs = {self.text(): self.value(self.take("I")) for _ in range(pair_count)}
        entries = [self.entry() for _ in range(tensor_count)]
        start = -(-self.at // 32) * 32
        self.tensors = {name: self.decode(shape, kind, start + offset) for name, shape, kind, offset in entries}
        self.types = {name: TYPES[kind][0] for name, _, kind, _ in entries}

    def take(self, kind):
        (value,) = struct.unpack_from("<" + kind, self.raw, self.at)
        self.at += struct.calcsize("<" + kind)
        return value

    def text(self):
        count = self.take("Q")
        self.at += count
        return self.raw[self.at - count : self.at].decode()

    def value(self, kind):
        if kind == STRING:
            return self.text()
        if kind == ARRAY:
            item, count = self.take("I"), self.take("Q")
            return [self.value(item) for _ in range(count)]
        return self.take(FORMATS[kind])

    def entry(self):
        name = self.text()
        shape = [self.take("Q") for _ in range(self.take("I"))]
        return name, shape[::-1], self.take("I"), self.take("Q")

    def decode(self, shape, kind, at):
        name, values, size = TYPES[kind]
        count = int(np.prod(shape)) // values
        blocks = np.frombuffer(self.raw, np.uint8, count * size, at).reshape(count, size)
        return DECODERS[name](blocks).reshape(shape)
