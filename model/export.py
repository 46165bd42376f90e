"""Checkpoint -> GGUF v3, arch llama, Q8_0 (norms F32), tied embeddings (no output.weight).

  python3 model/export.py --weights model/out --out build/incipit-debian.gguf [--check]

--check reads the file back with a small NumPy reader, runs a NumPy forward pass on the Q8_0 weights and compares its
logits with PyTorch's on the same dequantised weights (must agree) and on the fp16 weights (what Q8_0 costs).
"""

import argparse
import os
import struct

import numpy as np

import tokenizer as bpe

HERE = os.path.dirname(os.path.abspath(__file__))
ALIGN, F32, Q8_0 = 32, 0, 8
TEMPLATE = (
    "{% for message in messages %}"
    "{{'<|im_start|>' + message['role'] + '\\n' + message['content'] | trim + '<|im_end|>' + '\\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
NAMES = {
    "attn.q": "attn_q",
    "attn.k": "attn_k",
    "attn.v": "attn_v",
    "attn.o": "attn_output",
    "attn_norm": "attn_norm",
    "ffn_norm": "ffn_norm",
    "gate": "ffn_gate",
    "up": "ffn_up",
    "down": "ffn_down",
}


def gguf_name(name):
    if name == "embed.weight":
        return "token_embd.weight"
    if name == "norm.weight":
        return "output_norm.weight"
    _, i, rest = name.split(".", 2)
    return f"blk.{i}.{NAMES[rest.removesuffix('.weight')]}.weight"


def quantise(x):
    """Q8_0: blocks of 32, one fp16 scale and 32 int8 each."""
    blocks = x.astype(np.float32).reshape(-1, 32)
    d = np.abs(blocks).max(1, keepdims=True) / 127
    inverse = np.divide(1, d, out=np.zeros_like(d), where=d > 0)
    scaled = blocks * inverse
    q = np.trunc(scaled + np.copysign(0.5, scaled)).astype(np.int8)  # halves away from zero, as ggml rounds
    return np.concatenate([d.astype("<f2").view(np.uint8).reshape(-1, 2), q.view(np.uint8)], axis=1).tobytes()


def dequantise(raw, shape):
    rec = np.frombuffer(raw, np.dtype([("d", "<f2"), ("q", "i1", 32)]))
    return (rec["d"].astype(np.float32)[:, None] * rec["q"]).reshape(shape)


# --- writing -------------------------------------------------------------------------------------------------


def string(s):
    b = s.encode()
    return struct.pack("<Q", len(b)) + b


def value(v):
    """A metadata value with its type: bool, int (u32), float (f32), str, or a list of str or int (i32)."""
    if isinstance(v, bool):
        return struct.pack("<I?", 7, v)
    if isinstance(v, int):
        return struct.pack("<II", 4, v)
    if isinstance(v, float):
        return struct.pack("<If", 6, v)
    if isinstance(v, str):
        return struct.pack("<I", 8) + string(v)
    if isinstance(v[0], str):
        return struct.pack("<IIQ", 9, 8, len(v)) + b"".join(map(string, v))
    return struct.pack("<IIQ", 9, 5, len(v)) + np.array(v, "<i4").tobytes()


def metadata(c, tok):
    tokens, merges, types = tok.gguf_tables()
    end, im_end = tok.special["<|endoftext|>"], tok.special["<|im_end|>"]
    return {
        "general.architecture": "llama",
        "general.type": "model",
        "general.name": "Incipit Debian",
        "general.size_label": "17M",
        "general.description": "A small model trained from scratch on Debian package "
        "descriptions and manual pages; ships with Incipit. Often wrong.",
        "general.license": "other",
        "general.license.name": "the licences of the Debian packages whose descriptions and "
        "manual pages it was trained on",
        "general.file_type": 7,
        "general.quantization_version": 2,
        "general.alignment": ALIGN,
        "llama.context_length": c["context"],
        "llama.embedding_length": c["dim"],
        "llama.block_count": c["layers"],
        "llama.feed_forward_length": c["ffn"],
        "llama.attention.head_count": c["heads"],
        "llama.attention.head_count_kv": c["kv_heads"],
        "llama.attention.key_length": c["head_dim"],
        "llama.attention.value_length": c["head_dim"],
        "llama.attention.layer_norm_rms_epsilon": float(c["eps"]),
        "llama.rope.freq_base": float(c["theta"]),
        "llama.rope.dimension_count": c["head_dim"],
        "llama.vocab_size": c["vocab"],
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": end,
        "tokenizer.ggml.eos_token_id": im_end,
        "tokenizer.ggml.eot_token_id": im_end,
        "tokenizer.ggml.padding_token_id": end,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.ggml.add_space_prefix": False,
        "tokenizer.chat_template": TEMPLATE,
    }


def write(path, config, weights, tok):
    meta = metadata(config, tok)
    tensors = [(gguf_name(k), v) for k, v in weights.items()]
    head = (
        b"GGUF"
        + struct.pack("<IQQ", 3, len(tensors), len(meta))
        + b"".join(string(k) + value(v) for k, v in meta.items())
    )
    data, info, offset = [], b"", 0
    for name, v in tensors:
        kind = Q8_0 if v.ndim == 2 else F32
        raw = quantise(v) if kind == Q8_0 else v.astype("<f4").tobytes()
        info += string(name) + struct.pack(f"<I{v.ndim}Q", v.ndim, *v.shape[::-1]) + struct.pack("<IQ", kind, offset)
        raw += b"\0" * (-len(raw) % ALIGN)
        data.append(raw)
        offset += len(raw)
    head += info
    with open(path, "wb") as f:
        f.write(head + b"\0" * (-len(head) % ALIGN) + b"".join(data))
    return os.path.getsize(path)


# --- checking ------------------------------------------------------------------------------------------------


def read(path):
    """(metadata, {name: float32 array}) of a file written above."""
    with open(path, "rb") as f:
        buf = f.read()
    at = 4

    def take(fmt):
        nonlocal at
        out = struct.unpack_from("<" + fmt, buf, at)
        at += struct.calcsize("<" + fmt)
        return out[0]

    def text():
        nonlocal at
        n = take("Q")
        at += n
        return buf[at - n : at].decode()

    def one(kind):
        return text() if kind == 8 else take({4: "I", 5: "i", 6: "f", 7: "?"}[kind])

    assert buf[:4] == b"GGUF" and take("I") == 3
    n_tensors, n_meta = take("Q"), take("Q")
    meta = {}
    for _ in range(n_meta):
        key, kind = text(), take("I")
        if kind == 9:
            inner, n = take("I"), take("Q")
            meta[key] = [one(inner) for _ in range(n)]
        else:
            meta[key] = one(kind)
    info = []
    for _ in range(n_tensors):
        name = text()
        shape = [take("Q") for _ in range(take("I"))][::-1]
        info.append((name, shape, take("I"), take("Q")))
    start = -(-at // ALIGN) * ALIGN
    out = {}
    for name, shape, kind, offset in info:
        n = int(np.prod(shape))
        raw = buf[start + offset : start + offset + (n // 32 * 34 if kind == Q8_0 else 4 * n)]
        out[name] = dequantise(raw, shape) if kind == Q8_0 else np.frombuffer(raw, "<f4").reshape(shape)
    return meta, out


def forward(meta, w, ids):
    """Logits [len(ids), vocabulary] in NumPy, from nothing but the file."""
    h, kv = meta["llama.attention.head_count"], meta["llama.attention.head_count_kv"]
    d, eps = meta["llama.rope.dimension_count"], meta["llama.attention.layer_norm_rms_epsilon"]
    t = len(ids)
    angle = np.outer(np.arange(t), meta["llama.rope.freq_base"] ** (-np.arange(0, d, 2) / d))[:, None]
    cos, sin = np.cos(angle), np.sin(angle)

    def norm(x, g):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * g

    def rope(x):
        a, b = x[..., 0::2], x[..., 1::2]
        return np.stack((a * cos - b * sin, a * sin + b * cos), -1).reshape(x.shape)

    x = w["token_embd.weight"][ids].astype(np.float64)
    for i in range(meta["llama.block_count"]):

        def get(n):
            return w[f"blk.{i}.{n}.weight"].astype(np.float64)

        y = norm(x, get("attn_norm"))
        q = rope((y @ get("attn_q").T).reshape(t, h, d))
        k = rope((y @ get("attn_k").T).reshape(t, kv, d)).repeat(h // kv, 1)
        v = (y @ get("attn_v").T).reshape(t, kv, d).repeat(h // kv, 1)
        s = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(d)
        s = np.where(np.tril(np.ones((t, t), bool)), s, -np.inf)
        p = np.exp(s - s.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        x = x + np.einsum("hqk,khd->qhd", p, v).reshape(t, h * d) @ get("attn_output").T
        y = norm(x, get("ffn_norm"))
        g = y @ get("ffn_gate").T
        x = x + (g / (1 + np.exp(-g)) * (y @ get("ffn_up").T)) @ get("ffn_down").T
    return norm(x, w["output_norm.weight"]) @ w["token_embd.weight"].T.astype(np.float64)


def check(path, config, weights, tok):
    import torch
    import train

    meta, w = read(path)
    prompt = "<|im_start|>user\nWhich command lists open files?<|im_end|>\n<|im_start|>assistant\n"
    ids = tok.encode(prompt)
    ours = forward(meta, w, np.array(ids))

    def torch_logits(state):
        model = train.Model(config)
        model.load_state_dict({k: torch.from_numpy(np.array(v, np.float32)) for k, v in state.items()})
        with torch.no_grad():
            return model(torch.tensor([ids]))[0].numpy()

    same = np.abs(ours - torch_logits({k: w[gguf_name(k)] for k in weights})).max()
    full = torch_logits(weights)
    print(
        f"check: {len(ids)} tokens; NumPy on the GGUF against PyTorch on the same weights: "
        f"largest difference {same:.2e}; "
        f"against the fp16 weights: {np.abs(ours - full).max():.3f} of logits up to {np.abs(full).max():.1f}; "
        f"same best token at {(ours.argmax(1) == full.argmax(1)).mean():.0%}"
    )
    assert same < 1e-3
    said = []
    for _ in range(60):
        said.append(int(forward(meta, w, np.array(ids + said))[-1].argmax()))
        if said[-1] == meta["tokenizer.ggml.eos_token_id"]:
            break
    print(f"check: the GGUF answers: {tok.decode(said)!r}")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--weights", default="model/out")
    ap.add_argument("--out", default="build/incipit-debian.gguf")
    ap.add_argument("--check", action="store_true")
    a = ap.parse_args()
    import train

    config, weights = train.load_weights(a.weights)
    tok = bpe.Tokenizer.load(f"{HERE}/tokenizer.json")
    assert tok.size == config["vocab"]
    size = write(a.out, config, weights, tok)
    print(f"{a.out}: {size} bytes ({size / 1e6:.2f} MB), {sum(v.size for v in weights.values())} parameters")
    if a.check:
        check(a.out, config, weights, tok)


if __name__ == "__main__":
    main()
