"""Damages models and tries them: onnx's own cases, each operator in several forms, and nets.

    python -m test.fuzz.mutants [--seed 0] [--count 20000] [--run 10]

Every mutant is imported, one of `--run` compiled and run too. Prints each finding; the exit code
says whether there is one. The damage follows from the seed and the number.
"""

from __future__ import annotations

import argparse
import collections
import random
import sys

import onnx

from test.fuzz.hostile.attempt import Attempts
from test.importer.fuzz import corpus, mutate


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--run", type=int, default=10)
    options = parser.parse_args()
    counts: collections.Counter[str] = collections.Counter()
    models = corpus()
    with Attempts() as attempts:
        for number in range(options.count):
            rng = random.Random(options.seed * 1_000_003 + number)
            model, done = mutant(models, rng)
            ways = ["import"] if number % options.run else ["compile", "run"]
            result = attempts.on(model.SerializeToString(), *ways)
            for said in result.said:
                counts[said.partition(":")[0].partition("\n")[0]] += 1
            if result.finding:
                counts["findings"] += 1
                print(f"{options.seed} {number} {model.graph.name}: {done}", flush=True)
                print(f"    {result.finding}", flush=True)
    for what, count in sorted(counts.items()):
        print(f"{count:8} {what}")
    return 1 if counts["findings"] else 0


def mutant(models: list[onnx.ModelProto], rng: random.Random) -> tuple[onnx.ModelProto, str]:
    """A damaged model, and what was done to it."""
    model = onnx.ModelProto()
    model.CopyFrom(rng.choice(models))
    done = [mutate(model, rng) for _ in range(rng.choice((1, 1, 2, 4)))]
    return model, "; ".join(done)


if __name__ == "__main__":
    sys.exit(main())
