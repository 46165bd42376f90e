"""A transformer's forward pass in NumPy, written down plainly in double precision: what the engine is held against.

One sequence from its first token, all positions at once, attention as a full matrix with a mask. Nothing is shared
with the engine but the file. Two things that the engine does to save time and memory can be switched on:

  is_rounding   inputs of a product with a quantised matrix are rounded to 8 bits, a scale for each block of the type
  kv            "f16" or "q8_0": how keys and values are kept ("f32": as they are)
"""

import math

import numpy as np

HALVES = ("qwen2", "qwen3", "gemma3")  # which values of a head are turned together: i and i + n/2; else 2i and 2i + 1


def norm(x, weight, epsilon):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * weight


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def silu(x):
    return x / (1 + np.exp(-x))


def gelu(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def cap(x, most):
    return most * np.tanh(x / most) if most else x


def round_to_bytes(x, group):
    """x with each group of values of a row at one of 255 levels, as 32-bit arithmetic has it."""
    out = np.empty_like(x)
    for start in range(0, x.shape[-1], group):
        part = x[..., start : start + group].astype(np.float32)
        most = np.abs(part).max(-1, keepdims=True)
        inverse = np.divide(np.float32(127), most, out=np.zeros_like(most), where=most > 0)
        out[..., start : start + group] = np.round(part * inverse).astype(np.float64) * (most / np.float32(127))
    return out


def round_kv(x, kind):
    if kind == "f16":
        return x.astype(np.float32).astype(np.float16).astype(np.float64)
    if kind == "q8_0":  # a half as the scale of 32 values of a head
        runs = x.reshape(*x.shape[:-1], -1, 32)
        scale = (np.abs(runs).max(-1, keepdims=True) / 127).astype(np.float16).astype(np.float64)
        levels = np.round(np.divide(runs, scale, out=np.zeros_like(runs), where=scale > 0))
        return (np.clip(levels, -127, 127) * scale).reshape(x.shape)
    return x


class Model:
    def __init__(self, gguf, adapter=None, is_rounding=False, kv="f32"):
        self.gguf, self.adapter, self.is_rounding, self.kv = gguf, adapter, is_rounding, kv
        self.arch = gguf.pairs["general.architecture"]
        self.heads = self.key("attention.head_count")
        self.kv_heads = self.key("attention.head_count_kv", self.heads)
        self.width = self.key("embedding_length")
        self.head = self.key("attention.key_length", self.width // self.heads)
        self.epsilon = self.key("attention.layer_norm_rms_epsilon")

    def key(self, name, default=None):
        return self.gguf.pairs.get(f"{self.arch}.{name}", default)

    def tensor(self, name):
        return self.gguf.tensors.get(name)

    def norm(self, x, name):
        weight = self.tensor(name)
        return x if weight is None else norm(x, weight, self.epsilon)

    def linear(self, x, name):
        """x times a matrix, with its bias and what the adapter adds."""
        source = name if name + ".weight" in self.gguf.tensors else "token_embd"
        weight_type = self.gguf.types[source + ".weight"]
        is_quantised = weight_type.startswith("Q")
        group = 256 if weight_type.endswith("_K") else 32  # as in src/backend/matrix.h
        rounded = round_to_bytes(x, group) if self.is_rounding and is_quantised else x
        out = rounded @ self.tensor(source + ".weight").T
        bias = self.tensor(name + ".bias")
        out = out if bias is None else out + bias
        a = self.adapter and self.adapter.tensors.get(name + ".weight.lora_a")
        if a is not None:
            scale = self.adapter.pairs["adapter.lora.alpha"] / a.shape[0]
            out = out + scale * (x @ a.T) @ self.adapter.tensors[name + ".weight.lora_b"].T
        return out

    def is_windowed(self, layer):
        if self.arch != "gemma3" or not self.key("attention.sliding_window"):
            return False
        period = self.key("attention.sliding_window_pattern", 6)
        return layer % period != period - 1

    def turn(self, x, layer):
        """x: [positions, heads, head]. A pair (a, b) is a complex number, turned by an angle."""
        count = self.head // 2
        is_windowed = self.is_windowed(layer)
        base = self.key("rope.freq_base_swa", 1e4) if is_windowed else self.key("rope.freq_base", 1e4)
        frequencies = base ** (-np.arange(count) / count)
        if not is_windowed:
            frequencies = frequencies / self.key("rope.scaling.factor", 1)
        factors = self.tensor("rope_freqs.weight")
        if factors is not None:
            frequencies = frequencies / factors
        phase = np.exp(1j * np.arange(len(x))[:, None] * frequencies)[:, None, :]
        if self.arch in HALVES:
            turned = (x[..., :count] + 1j * x[..., count:]) * phase
            return np.concatenate([turned.real, turned.imag], -1)
        turned = (x[..., 0::2] + 1j * x[..., 1::2]) * phase
        return np.stack([turned.real, turned.imag], -1).reshape(x.shape)

    def attend(self, x, layer):
        block = f"blk.{layer}."
        q, k, v = (
            self.linear(x, block + name).reshape(len(x), -1, self.head) for name in ("attn_q", "attn_k", "attn_v")
        )
        q = self.turn(self.norm(q, block + "attn_q_norm.weight"), layer)
        k = round_kv(self.turn(self.norm(k, block + "attn_k_norm.weight"), layer), self.kv)
        v = round_kv(v, self.kv)
        k, v = (np.repeat(t, self.heads // self.kv_heads, 1) for t in (k, v))
        scores = np.einsum("ihd,jhd->hij", q, k) / math.sqrt(self.head)
        scores = cap(scores, self.key("attn_logit_softcapping"))
        back = np.arange(len(x))[:, None] - np.arange(len(x))[None, :]
        seen = back >= 0
        if self.is_windowed(layer):
            seen &= back < self.key("attention.sliding_window")
        scores = np.where(seen, scores, -np.inf)
        mixed = np.einsum("hij,jhd->ihd", softmax(scores), v).reshape(len(x), -1)
        return self.linear(mixed, block + "attn_output")

    def feed_forward(self, x, layer):
        block = f"blk.{layer}."
        gate = gelu if self.arch == "gemma3" else silu
        return self.linear(
            gate(self.linear(x, block + "ffn_gate")) * self.linear(x, block + "ffn_up"), block + "ffn_down"
        )

    def forward(self, tokens):
        """What each layer gives, what the last norm gives, and the logits."""
        x = self.tensor("token_embd.weight")[tokens]
        if self.arch == "gemma3":
            x = x * math.sqrt(self.width)
        shown = []
        for layer in range(self.key("block_count")):
            block = f"blk.{layer}."
            added = self.attend(self.norm(x, block + "attn_norm.weight"), layer)
            x = x + self.norm(added, block + "post_attention_norm.weight")
            added = self.feed_forward(self.norm(x, block + "ffn_norm.weight"), layer)
            x = x + self.norm(added, block + "post_ffw_norm.weight")
            shown.append(x)
        shown.append(self.norm(x, "output_norm.weight"))
        return shown, cap(self.linear(shown[-1], "output"), self.key("final_logit_softcapping"))
