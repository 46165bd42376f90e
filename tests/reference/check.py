"""Holds what the engine computed against the reference, layer by layer.

  python3 tests/reference/check.py FOLDER...

A folder is a case that tests/test_reference.c wrote: model.gguf, adapter.gguf or none, and engine.bin. The error of a
row is the length of the difference over the length of the reference's row, in each layer, behind the last norm, and of
the logits.

TOLERANCE, and why:
  FLOAT     float weights and keys and values as floats: all that differs is that the engine computes in 32 bits. Every
            row of every layer.
  EXACT     quantised weights, or keys and values in fewer bits, and the reference does the same roundings: inputs of
            products to 8 bits, keys and values as they are kept. A value that lies on the edge between two levels falls
            to the other side now and then, because of a difference of 1e-7; such a row, and all rows that look back at
            it, are off by a level. So the best tenth of the rows must agree nearly as floats do: they are those
            before the first such value. Halves have many levels and small steps between them: EXACT_HALVES.
  LEVEL     the worst row of these: as if every product had rounded to other levels.
  PLAIN     the reference rounds nothing, so this is what 8 bits cost: errors of 1/254 of the largest of 256 values,
            which is about four times the typical one, in each of the products on the way.
"""

import pathlib
import struct
import sys

import numpy as np

import forward
import gguf

FLOAT, EXACT, EXACT_HALVES, LEVEL, PLAIN = 1e-5, 1e-5, 4e-4, 8e-2, 8e-2
KV = ("f16", "f32", "q8_0")


def read(path):
    raw = path.read_bytes()
    count, layers, width, vocabulary, kv = struct.unpack_from("<5I", raw)
    tokens = np.frombuffer(raw, "<u4", count, 20)
    values = np.frombuffer(raw, "<f4", -1, 20 + 4 * count)
    split = (layers + 1) * count * width
    return tokens, values[:split].reshape(layers + 1, count, width), values[split:].reshape(count, vocabulary), KV[kv]


def errors(model, tokens, layers, logits):
    """Of each stage, the errors of its rows, the smallest first."""
    shown, wanted = model.forward(tokens)
    pairs = [*zip(layers, shown, strict=True), (logits, wanted)]
    return [np.sort(np.linalg.norm(got - right, axis=-1) / np.linalg.norm(right, axis=-1)) for got, right in pairs]


def check(folder):
    model = gguf.Gguf(folder / "model.gguf")
    adapter = gguf.Gguf(folder / "adapter.gguf") if (folder / "adapter.gguf").exists() else None
    tokens, layers, logits, kv = read(folder / "engine.bin")
    is_rounded = kv != "f32" or any(name.startswith("Q") for name in model.types.values())
    exact = errors(forward.Model(model, adapter, True, kv), tokens, layers, logits)
    worst = max(rows[-1] for rows in exact)
    best = max(rows[len(rows) // 10] for rows in exact)
    plain = max(rows[-1] for rows in errors(forward.Model(model, adapter), tokens, layers, logits))
    if is_rounded:
        is_good = best <= (EXACT_HALVES if kv == "f16" else EXACT) and worst <= LEVEL and plain <= PLAIN
    else:
        is_good = worst <= FLOAT and plain <= FLOAT  # NaN is not
    print(
        f"{'ok' if is_good else 'WRONG':5} {folder.name:30} best {best:.1e}, worst {worst:.1e}, plain {plain:.1e}"
    )
    return is_good


def main():
    results = [check(pathlib.Path(folder)) for folder in sys.argv[1:]]
    if not results:
        sys.exit("no folders")
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
