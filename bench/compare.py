#!/usr/bin/env python3
"""compare.py - incipit beside llama.cpp: the same files, threads and lengths, one after the other in one run.

usage: bench/compare.py --peer llama-bench [--peer other/llama-bench ...] [options] MODEL.gguf ...

For each model, prefill and decode rates of incipit (build/release/incipit bench) and of each llama-bench that is
given, round by round so that a change of the machine's mood meets all of them; the best round counts. Prints a Markdown
table of tokens/s, and the ratio to the fastest peer. Needs nothing but Python's standard library.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile


def numbers(text):
    return [int(part) for part in text.split(",") if part]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", metavar="MODEL.gguf")
    parser.add_argument("--peer", action="append", default=[], help="a llama-bench to compare with, repeatable")
    parser.add_argument("--incipit", default="build/release/incipit")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--prefill", type=numbers, default=[512, 2048], help="prompt lengths [512,2048]")
    parser.add_argument("--decode", type=numbers, default=[0, 2048], help="contexts to decode at [0,2048]")
    parser.add_argument("--rounds", type=int, default=2, help="[2]")
    parser.add_argument("--json", help="write the figures to this file")
    return parser.parse_args()


def run(command):
    print("+", " ".join(command), file=sys.stderr, flush=True)
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


def measure_incipit(args, model):
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        run([args.incipit, "bench", "-m", model, "--threads", str(args.threads), "--repeat", "1",
             "--only", "bandwidth,prefill,decode", "--prefill", ",".join(map(str, args.prefill)),
             "--decode", ",".join(map(str, args.decode)), "--json", file.name])
        report = json.load(file)
    rates = {("prefill", item["tokens"]): item["tokens_per_s"] for item in report["prefill"]}
    rates.update({("decode", item["context"]): item["tokens_per_s"] for item in report["decode"]})
    rates.update({("share", item["context"]): item.get("bandwidth_share", 0) for item in report["decode"]})
    return rates


def measure_peer(args, model, program):
    common = [program, "-m", model, "-t", str(args.threads), "-r", "1", "-o", "json"]
    rates = {}
    for test in json.loads(run(common + ["-p", ",".join(map(str, args.prefill)), "-n", "0"])):
        rates["prefill", test["n_prompt"]] = test["avg_ts"]
    for test in json.loads(run(common + ["-p", "0", "-n", "32", "-d", ",".join(map(str, args.decode))])):
        rates["decode", test["n_depth"]] = test["avg_ts"]
    return rates


def best_of(rounds):
    return {key: max(round_[key] for round_ in rounds) for key in rounds[0]}


def main():
    args = arguments()
    keys = [("prefill", length) for length in args.prefill] + [("decode", context) for context in args.decode]
    peers = [f"peer {number + 1}" for number in range(len(args.peer))]
    heads = [f"{kind} {number}" for kind, number in keys]
    print(f"| model | | {' | '.join(heads)} |\n|---|---|{'---|' * len(heads)}", flush=True)
    figures = {}
    for model in args.models:
        rounds = []
        for _ in range(args.rounds):
            result = {"incipit": measure_incipit(args, model)}
            for name, program in zip(peers, args.peer):
                result[name] = measure_peer(args, model, program)
            rounds.append(result)
        best = {name: best_of([round_[name] for round_ in rounds]) for name in rounds[0]}
        figures[model] = {name: {f"{kind} {number}": rate for (kind, number), rate in rates.items()}
                          for name, rates in best.items()}
        label = os.path.basename(model)
        for name, rates in best.items():
            print(f"| {label} | {name} | {' | '.join(f'{rates[key]:.1f}' for key in keys)} |", flush=True)
        if peers:
            ratios = [best["incipit"][key] / max(best[name][key] for name in peers) for key in keys]
            print(f"| {label} | ratio | {' | '.join(f'**{ratio:.2f} ×**' for ratio in ratios)} |", flush=True)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(figures, file, indent=1)


if __name__ == "__main__":
    main()
