"""Trains the built-in model: a Llama-architecture decoder, one file, PyTorch.

  python3 model/train.py --data model/tokens --out $OUT --state build/model-state.pt --minutes 8.6

RoPE turns interleaved pairs (x0,x1), (x2,x3), ...: the convention of GGUF `llama` models, so nothing is
permuted on export.
The learning rate follows the clock (--total-minutes) or, for a repeatable run, the step count (--steps).
Rows start at the start of a document and hold whole documents, packed without masks between them; in chats only the
assistant's words count for the loss. --state keeps everything needed to go on after a stop; --out gets the weights in
fp16 (weights-0.npz, ...: below 15 MiB each), config.json, log.txt and samples.txt.
"""

import argparse
import json
import lzma
import math
import os
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

import tokenizer as bpe

HERE = os.path.dirname(os.path.abspath(__file__))
CONFIG = dict(
    vocab=8192, dim=384, layers=9, heads=6, kv_heads=2, head_dim=64, ffn=1024, context=1024, theta=10000.0, eps=1e-5
)
TINY = dict(CONFIG, dim=64, layers=2, heads=2, kv_heads=1, head_dim=32, ffn=128, context=256)
QUESTIONS = [
    ["What is ripgrep?"],
    ["Which command lists open files?"],
    ["Who are you?"],
    ["How do I find files?"],
    ["What does the package rsync do?"],
    ["What is vim?", "How do I install it?"],
    ["Which command shows free disk space?"],
    ["Tell me about tmux."],
    ["Can you recommend a text editor?"],
    ["What is the capital of France?"],
    ["What does ls -l do?"],
    ["Hello!", "What is bash?", "Thanks!"],
]


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.h, self.kv, self.d = c["heads"], c["kv_heads"], c["head_dim"]
        self.q = nn.Linear(c["dim"], self.h * self.d, bias=False)
        self.k = nn.Linear(c["dim"], self.kv * self.d, bias=False)
        self.v = nn.Linear(c["dim"], self.kv * self.d, bias=False)
        self.o = nn.Linear(self.h * self.d, c["dim"], bias=False)

    def forward(self, x, cos, sin):
        b, t, _ = x.shape
        q = rope(self.q(x).view(b, t, self.h, self.d), cos, sin).transpose(1, 2)
        k = rope(self.k(x).view(b, t, self.kv, self.d), cos, sin).transpose(1, 2)
        v = self.v(x).view(b, t, self.kv, self.d).transpose(1, 2)
        k, v = (z.repeat_interleave(self.h // self.kv, dim=1) for z in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).reshape(b, t, self.h * self.d))


def rope(x, cos, sin):
    a, b = x[..., 0::2], x[..., 1::2]
    cos, sin = cos[:, None], sin[:, None]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2).type_as(x)


class Norm(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(c["dim"])), c["eps"]

    def forward(self, x):
        y = x.float()
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight).type_as(x)


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.attn_norm, self.attn, self.ffn_norm = Norm(c), Attention(c), Norm(c)
        self.gate = nn.Linear(c["dim"], c["ffn"], bias=False)
        self.up = nn.Linear(c["dim"], c["ffn"], bias=False)
        self.down = nn.Linear(c["ffn"], c["dim"], bias=False)

    def forward(self, x, cos, sin):
        x = x + self.attn(self.attn_norm(x), cos, sin)
        y = self.ffn_norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Model(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.embed = nn.Embedding(c["vocab"], c["dim"])  # also the output matrix (tied)
        self.blocks = nn.ModuleList(Block(c) for _ in range(c["layers"]))
        self.norm = Norm(c)
        freq = c["theta"] ** (-torch.arange(0, c["head_dim"], 2).float() / c["head_dim"])
        angle = torch.outer(torch.arange(c["context"]).float(), freq)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                nn.init.normal_(
                    p, std=0.02 / (math.sqrt(2 * c["layers"]) if name.endswith(("o.weight", "down.weight")) else 1)
                )

    def forward(self, ids):
        t = ids.shape[1]
        x = self.embed(ids)
        for b in self.blocks:
            x = b(x, self.cos[:t], self.sin[:t])
        return F.linear(self.norm(x), self.embed.weight)


def loss_of(model, x, y):
    """Mean over the targets that count (y >= 0)."""
    return F.cross_entropy(model(x).float().flatten(0, 1), y.flatten(), ignore_index=-100)


# --- data ----------------------------------------------------------------------------------------------------


def load(folder, tok):
    """(tokens, counts-for-loss) of the training and of the held-out part."""
    with open(f"{folder}/counts.json", encoding="utf-8") as f:
        counts = json.load(f)
    with lzma.open(f"{folder}/tokens.xz") as f:
        ids = np.frombuffer(f.read(), "<u2").astype(np.int64)
    # A turn runs from <|im_start|> to <|im_end|>; it counts where it is the assistant's, after the header's
    # 'assistant\n'.
    head = tok.encode("assistant\n")
    start = np.flatnonzero(ids == tok.special["<|im_start|>"])
    theirs = np.all([ids[np.minimum(start + 1 + i, len(ids) - 1)] == h for i, h in enumerate(head)], axis=0)
    end = np.flatnonzero(ids == tok.special["<|im_end|>"])
    assert len(start) == len(end) and (start < end).all()
    delta = np.zeros(len(ids) + 1, np.int8)
    delta[start] -= 1
    delta[np.where(theirs, start + 1 + len(head), end + 2)] += 1  # end + 2: the newline after the turn does not count
    use = np.cumsum(delta[:-1]) == 0
    n = counts["train_tokens"]
    return (ids[:n], use[:n]), (ids[n:], use[n:])


def rows(ids, use, context, end, rng):
    """Shuffles the documents and packs them into rows of context + 1 tokens; long documents are cut into pieces."""
    stop = np.flatnonzero(ids == end) + 1
    begin, width = np.concatenate(([0], stop[:-1])), context + 1
    n = -(-(stop - begin) // width)  # pieces of each document
    b = np.repeat(begin, n) + width * (np.arange(n.sum()) - np.repeat(np.cumsum(n) - n, n))
    size = np.minimum(b + width, np.repeat(stop, n)) - b
    order = rng.permutation(len(b))
    b, size = b[order], size[order]
    place, rows_made, open_rows = [], 0, []  # open rows: [tokens in it, number]
    for k in size.tolist():
        for r in open_rows:
            if r[0] + k <= width:
                break
        else:
            if len(open_rows) == 8:
                open_rows.remove(max(open_rows))
            r = [0, rows_made]
            open_rows.append(r)
            rows_made += 1
        place.append(r[1] * width + r[0])
        r[0] += k
    first = np.cumsum(size) - size
    inside = np.arange(size.sum()) - np.repeat(first, size)
    src, dst = np.repeat(b, size) + inside, np.repeat(np.array(place), size) + inside
    x, y = np.full(rows_made * width, end, np.int32), np.full(rows_made * width, -100, np.int32)
    x[dst] = ids[src]
    y[dst] = np.where(use[src], ids[src], -100)
    return x.reshape(-1, width)[:, :-1].copy(), y.reshape(-1, width)[:, 1:].copy()


# --- sampling ------------------------------------------------------------------------------------------------


@torch.no_grad()
def answer(model, tok, turns, most=80):
    """Greedy answers to a list of user turns, one after the other."""
    device, out = model.embed.weight.device, []
    ids = []
    for t in turns:
        ids += tok.encode(f"<|im_start|>user\n{t}<|im_end|>\n<|im_start|>assistant\n")
        said = []
        while len(said) < most:
            nxt = int(model(torch.tensor([ids[-model.c["context"] :]], device=device))[0, -1].argmax())
            ids.append(nxt)
            if nxt in (tok.special["<|im_end|>"], tok.special["<|endoftext|>"]):
                break
            said.append(nxt)
        ids += tok.encode("\n")
        out.append((t, tok.decode(said)))
    return out


def save(model, config, out):
    """fp16 weights in files below 15 MiB."""
    os.makedirs(out, exist_ok=True)
    shard, size, n = {}, 0, 0
    items = [(k, v.detach().to(torch.float16).cpu().numpy()) for k, v in model.state_dict().items()]
    for k, v in items:
        if size + v.nbytes > 14 << 20:
            np.savez(f"{out}/weights-{n}.npz", **shard)
            shard, size, n = {}, 0, n + 1
        shard[k], size = v, size + v.nbytes
    np.savez(f"{out}/weights-{n}.npz", **shard)
    with open(f"{out}/config.json", "w", encoding="utf-8") as f:
        json.dump(dict(config, shards=n + 1), f, indent=1)


def load_weights(folder):
    """(config, {name: array}) as save() left them."""
    with open(f"{folder}/config.json", encoding="utf-8") as f:
        config = json.load(f)
    weights = {}
    for i in range(config.pop("shards")):
        with np.load(f"{folder}/weights-{i}.npz") as z:
            weights.update({k: z[k] for k in z.files})
    return config, weights


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--data", default="model/tokens")
    ap.add_argument("--out", default=os.environ.get("OUT", "model/out"))
    ap.add_argument("--state", default="", help="file for the full state: read when it exists, written at the end")
    ap.add_argument("--init", default="", help="start from the weights in this folder (an earlier --out)")
    ap.add_argument(
        "--minutes", type=float, default=8, help="stop training after this long (start-up and compiling count)"
    )
    ap.add_argument(
        "--total-minutes",
        type=float,
        default=0,
        help="length of the learning-rate schedule over all calls (default: --minutes)",
    )
    ap.add_argument("--steps", type=int, default=0, help="schedule by steps instead of by the clock")
    ap.add_argument("--batch", type=int, default=64, help="rows of `context` tokens per step")
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--warmup", type=int, default=300)
    ap.add_argument("--decay", type=float, default=0.1)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--tiny", action="store_true", help="a tiny model, to test the pipeline on a CPU")
    ap.add_argument("--no-compile", action="store_true")
    a = ap.parse_args()
    born = time.time()
    total = 60 * (a.total_minutes or a.minutes)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    os.makedirs(a.out, exist_ok=True)
    log = open(f"{a.out}/log.txt", "a", encoding="utf-8")

    def say(text):
        print(text, flush=True)
        log.write(text + "\n")
        log.flush()

    torch.manual_seed(a.seed)
    torch.set_float32_matmul_precision("high")
    tok = bpe.Tokenizer.load(f"{HERE}/tokenizer.json")
    config = dict(TINY if a.tiny else CONFIG, vocab=tok.size)
    train, held = load(a.data, tok)
    end = tok.special["<|endoftext|>"]
    model = Model(config).to(device)
    wide = [p for p in model.parameters() if p.dim() == 2]
    thin = [p for p in model.parameters() if p.dim() < 2]
    opt = torch.optim.AdamW(
        [{"params": wide, "weight_decay": a.decay}, {"params": thin, "weight_decay": 0.0}],
        lr=a.lr,
        betas=(0.9, 0.95),
        fused=device == "cuda",
    )
    step, epoch, at, spent, seen = 0, 0, 0, 0.0, 0
    if a.state and os.path.exists(a.state):
        s = torch.load(a.state, map_location=device, weights_only=True)
        model.load_state_dict(s["model"])
        opt.load_state_dict(s["opt"])
        step, epoch, at, spent, seen = (s[k] for k in ("step", "epoch", "at", "spent", "seen"))
        say(f"resumed at step {step}, {spent / 60:.1f} minutes done")
    elif a.init:
        model.load_state_dict({k: torch.from_numpy(v).float() for k, v in load_weights(a.init)[1].items()})
    n_params = sum(p.numel() for p in model.parameters())
    say(
        f"{device}, torch {torch.__version__}, {n_params} parameters, {len(train[0])} training "
        f"tokens ({train[1].mean():.0%} count), {len(held[0])} held out"
    )

    cast = torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda")

    def held_out():
        x, y = rows(*held, config["context"], end, np.random.default_rng(0))
        losses = []
        for i in range(0, len(x), 16):
            with torch.no_grad(), cast:
                xb, yb = (torch.from_numpy(z[i : i + 16]).long().to(device) for z in (x, y))
                losses.append((loss_of(model, xb, yb).item(), int((yb >= 0).sum())))
        return sum(v * n for v, n in losses) / sum(n for _, n in losses)

    def epoch_rows():
        x, y = rows(*train, config["context"], end, np.random.default_rng([a.seed, epoch]))
        return torch.from_numpy(x).to(device), torch.from_numpy(y).to(device)

    x, y = epoch_rows()
    run = loss_of
    if not a.no_compile and device == "cuda":
        try:
            run = torch.compile(loss_of)
            with cast:
                run(model, x[: a.batch].long(), y[: a.batch].long()).backward()
            opt.zero_grad(set_to_none=True)
            say(f"compiled after {time.time() - born:.0f} s")
        except Exception as e:  # train without
            say(f"no torch.compile: {type(e).__name__}: {str(e)[:300]}")
            run = loss_of
    last, last_seen, done, running = time.time(), seen, False, []
    while not done:
        if at + a.batch > len(x):
            epoch, at = epoch + 1, 0
            x, y = epoch_rows()
        clock = spent + time.time() - born
        part = step / a.steps if a.steps else clock / total
        done = part >= 1 or time.time() - born > 60 * a.minutes
        if done:
            break
        lr = a.lr * min(1, (step + 1) / a.warmup) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * min(1, part))))
        for g in opt.param_groups:
            g["lr"] = lr
        with cast:
            loss = run(model, x[at : at + a.batch].long(), y[at : at + a.batch].long())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        step, at, seen = step + 1, at + a.batch, seen + a.batch * config["context"]
        running.append(loss.detach())
        if step % 100 == 0 or step in (1, 10):
            mean = torch.stack(running).mean().item()  # waits for the device
            now = time.time()
            text = (
                f"step {step} epoch {epoch} loss {mean:.3f} lr {lr:.2e} "
                f"{(seen - last_seen) / (now - last) / 1e3:.0f}k tokens/s "
                f"{seen / 1e6:.0f}M tokens {(spent + now - born) / 60:.1f} min"
            )
            say(text + (f" held-out {held_out():.3f}" if step % 1000 == 0 else ""))
            if step % 2000 == 0:
                save(model, config, a.out)  # in case the call is cut off
            last, last_seen, running = time.time(), seen, []
    spent += time.time() - born
    say(f"stopped at step {step}, {seen / 1e6:.1f}M tokens, {spent / 60:.1f} minutes; held-out loss {held_out():.4f}")
    save(model, config, a.out)
    if a.state:
        os.makedirs(os.path.dirname(a.state) or ".", exist_ok=True)
        torch.save(
            {
                "model": model.state_dict(),
                "opt": opt.state_dict(),
                "step": step,
                "epoch": epoch,
                "at": at,
                "spent": spent,
                "seen": seen,
            },
            a.state,
        )
    model.eval()
    with open(f"{a.out}/samples.txt", "w", encoding="utf-8") as f, cast:
        for turns in QUESTIONS:
            for q, said in answer(model, tok, turns):
                print(f"> {q}\n{said}\n", flush=True)
                f.write(f"> {q}\n{said}\n\n")


if __name__ == "__main__":
    main()
