#!/usr/bin/env python3
"""Writes GGUF models of the exact shapes of real ones with random weights, for benchmarks: same work, no download.

  python3 tests/make_model.py llama-3.2-1b OUT.gguf [--seed N] [--layers N]

Shapes: see SHAPES. Matrices are F16, vectors F32; llama.cpp's llama-quantize makes the other types from that. The
vocabulary has the right size and is valid, but says nothing: 256 bytes, two merges, filler, and the special tokens at
the end. Text that comes out of such a model is noise. Needs NumPy.
"""

import argparse
import math
import struct

import numpy as np

SHAPES = {
    "llama-3.2-1b": dict(
        arch="llama", layers=16, width=2048, heads=32, kv_heads=8, head=64, hidden=8192, vocabulary=128256,
        context=131072, base=500000.0, epsilon=1e-5, pre="llama-bpe", rope_factors=True,
    ),
    "qwen2.5-0.5b": dict(
        arch="qwen2", layers=24, width=896, heads=14, kv_heads=2, head=64, hidden=4864, vocabulary=151936,
        context=32768, base=1000000.0, epsilon=1e-6, pre="qwen2", biases=True,
    ),
    "qwen3-0.6b": dict(
        arch="qwen3", layers=28, width=1024, heads=16, kv_heads=8, head=128, hidden=3072, vocabulary=151936,
        context=40960, base=1000000.0, epsilon=1e-6, pre="qwen2", head_norms=True,
    ),
    "gemma3-1b": dict(
        arch="gemma3", layers=26, width=1152, heads=4, kv_heads=1, head=256, hidden=6912, vocabulary=262144,
        context=32768, base=1000000.0, epsilon=1e-6, pre="gpt-2", head_norms=True, post_norms=True, window=512,
    ),
}  # fmt: skip
ALIGNMENT, F32, F16 = 32, 0, 1
NORMAL, CONTROL = 1, 3


def text(value):
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def uint32(value):
    return struct.pack("<II", 4, value)


def float32(value):
    return struct.pack("<If", 6, value)


def string(value):
    return struct.pack("<I", 8) + text(value)


def array(item_type, packed_items, count):
    return struct.pack("<IIQ", 9, item_type, count) + packed_items


def byte_characters():
    """The 256 characters that stand for bytes in byte-level vocabularies: printable ones for themselves."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spare = iter(range(256, 512))
    return [chr(b if b in plain else next(spare)) for b in range(256)]


def metadata(name, shape):
    arch, vocabulary = shape["arch"], shape["vocabulary"]
    special = ["<|begin_of_text|>", "<|end_of_text|>", "<|im_start|>", "<|im_end|>"]
    tokens = byte_characters() + ["th", "the"]
    tokens += [f"filler{i}" for i in range(vocabulary - len(tokens) - len(special))] + special
    types = [NORMAL] * (vocabulary - len(special)) + [CONTROL] * len(special)
    pairs = {
        "general.architecture": string(arch),
        "general.name": string(name + " shape, random weights"),
        "general.file_type": uint32(1),
        f"{arch}.block_count": uint32(shape["layers"]),
        f"{arch}.context_length": uint32(shape["context"]),
        f"{arch}.embedding_length": uint32(shape["width"]),
        f"{arch}.feed_forward_length": uint32(shape["hidden"]),
        f"{arch}.attention.head_count": uint32(shape["heads"]),
        f"{arch}.attention.head_count_kv": uint32(shape["kv_heads"]),
        f"{arch}.attention.key_length": uint32(shape["head"]),
        f"{arch}.attention.value_length": uint32(shape["head"]),
        f"{arch}.attention.layer_norm_rms_epsilon": float32(shape["epsilon"]),
        f"{arch}.rope.dimension_count": uint32(shape["head"]),
        f"{arch}.rope.freq_base": float32(shape["base"]),
        "tokenizer.ggml.model": string("gpt2"),
        "tokenizer.ggml.pre": string(shape["pre"]),
        "tokenizer.ggml.tokens": array(8, b"".join(map(text, tokens)), vocabulary),
        "tokenizer.ggml.token_type": array(5, np.array(types, "<i4").tobytes(), vocabulary),
        "tokenizer.ggml.merges": array(8, text("t h") + text("th e"), 2),
        "tokenizer.ggml.bos_token_id": uint32(vocabulary - 4),
        "tokenizer.ggml.eos_token_id": uint32(vocabulary - 1),
    }
    if shape.get("window"):
        pairs[f"{arch}.attention.sliding_window"] = uint32(shape["window"])
    return pairs


def tensors(shape):
    """Name, extents (contiguous one first) and spread of each tensor, in file order; spread None: around 1."""
    width, hidden, head = shape["width"], shape["hidden"], shape["head"]
    query, kv = shape["heads"] * head, shape["kv_heads"] * head
    yield "token_embd.weight", (width, shape["vocabulary"]), 1 / math.sqrt(width)
    for i in range(shape["layers"]):
        matrices = {
            "attn_q": (width, query),
            "attn_k": (width, kv),
            "attn_v": (width, kv),
            "attn_output": (query, width),
            "ffn_gate": (width, hidden),
            "ffn_up": (width, hidden),
            "ffn_down": (hidden, width),
        }
        norms = {"attn_norm": width, "ffn_norm": width}
        if shape.get("head_norms"):
            norms |= {"attn_q_norm": head, "attn_k_norm": head}
        if shape.get("post_norms"):
            norms |= {"post_attention_norm": width, "post_ffw_norm": width}
        for name, count in norms.items():
            yield f"blk.{i}.{name}.weight", (count,), None
        for name, extents in matrices.items():
            yield f"blk.{i}.{name}.weight", extents, 1 / math.sqrt(extents[0])
        if shape.get("biases"):
            for name in ("attn_q", "attn_k", "attn_v"):
                yield f"blk.{i}.{name}.bias", (matrices[name][1],), 0.1
    yield "output_norm.weight", (width,), None
    if shape.get("rope_factors"):
        yield "rope_freqs.weight", (head // 2,), "rope"


def llama3_factors(shape, factor=32.0, low=1.0, high=4.0, context=8192):
    """What Llama 3 divides its frequencies by: long waves by factor, short ones by nothing, a ramp between."""
    waves = 2 * math.pi * shape["base"] ** (np.arange(0, shape["head"], 2) / shape["head"])
    ramp = np.clip((context / waves - low) / (high - low), 0, 1)
    return (1 / ((1 - ramp) / factor + ramp)).astype("<f4")


def data(shape, extents, spread, random):
    if spread == "rope":
        yield llama3_factors(shape)
    elif spread is None:
        yield (1 + 0.1 * random.standard_normal(extents[0], np.float32)).astype("<f4")
    elif len(extents) == 1:
        yield (spread * random.standard_normal(extents[0], np.float32)).astype("<f4")
    else:
        for start in range(0, extents[1], 4096):  # rows at a time: a table of 262144 rows is not made at once
            rows = min(4096, extents[1] - start)
            yield (np.float32(spread) * random.standard_normal((rows, extents[0]), np.float32)).astype("<f2")


def write(path, name, shape, seed):
    pairs = metadata(name, shape)
    table, offset = [], 0
    for tensor, extents, _ in tensors(shape):
        kind = F16 if len(extents) == 2 else F32
        table.append(text(tensor) + struct.pack(f"<I{len(extents)}QIQ", len(extents), *extents, kind, offset))
        offset += -(-math.prod(extents) * (2 if kind == F16 else 4) // ALIGNMENT) * ALIGNMENT
    header = b"GGUF" + struct.pack("<IQQ", 3, len(table), len(pairs))
    header += b"".join(text(key) + value for key, value in pairs.items()) + b"".join(table)
    random = np.random.default_rng(seed)
    with open(path, "wb") as file:
        file.write(header)
        for _, extents, spread in tensors(shape):
            file.write(bytes(-file.tell() % ALIGNMENT))
            for piece in data(shape, extents, spread, random):
                file.write(piece.tobytes())
        file.write(bytes(-file.tell() % ALIGNMENT))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("out")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--layers", type=int, help="fewer layers than the real one has")
    arguments = parser.parse_args()
    shape = dict(SHAPES[arguments.shape])
    if arguments.layers:
        shape["layers"] = arguments.layers
    write(arguments.out, arguments.shape, shape, arguments.seed)


if __name__ == "__main__":
    main()
