"""Models inside PyTorch: torch.compile by this compiler and by inductor, beside eager, on the CPU.

    python -m benchmarks.torch_compile [MODEL...] [--threads 1 2] [--rounds 20]

Random weights, f32, batch 1. A process for each model and number of threads makes the three, and
calls them in turn. The time is the processor's of all threads of a call, the median of the rounds:
that of one thread is the latency of a machine that has nothing else to do. Of several threads it
counts those that wait too; the last column is the ratio of latencies by the clock, each the least
of the rounds, as other work on the machine can only add to it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

ENGINES = ("mgx", "inductor", "eager")
_LENGTH = 128


def _resnet18() -> tuple[Any, dict[str, Any]]:
    import torch
    import transformers

    config = transformers.ResNetConfig(
        embedding_size=64, hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2],
        layer_type="basic",
    )  # fmt: skip
    model = transformers.ResNetForImageClassification(config)
    return model, {"pixel_values": torch.randn(1, 3, 224, 224)}


def _vit() -> tuple[Any, dict[str, Any]]:
    import torch
    import transformers

    model = transformers.ViTForImageClassification(transformers.ViTConfig())
    return model, {"pixel_values": torch.randn(1, 3, 224, 224)}


def _bert() -> tuple[Any, dict[str, Any]]:
    import torch
    import transformers

    model = transformers.BertModel(transformers.BertConfig())
    ids = torch.randint(0, 1000, (1, _LENGTH))
    return model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def _step() -> tuple[Any, dict[str, Any]]:
    """A step of a LLaMA of 8 layers with 128 tokens before it, its cache as arguments."""
    import torch
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=8000, hidden_size=1024, intermediate_size=2816, num_hidden_layers=8,
        num_attention_heads=16, num_key_value_heads=4,
    )  # fmt: skip

    class Step(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = transformers.LlamaForCausalLM(config)

        def forward(self, ids: Any, past: list[Any]) -> Any:
            cache = transformers.DynamicCache(config=config)
            for layer, (keys, values) in enumerate(past):
                cache.update(keys, values, layer)
            made = self.model(ids, past_key_values=cache, use_cache=True)
            layers = made.past_key_values.layers
            return made.logits, [(one.keys, one.values) for one in layers]

    past = [(torch.randn(1, 4, _LENGTH, 64), torch.randn(1, 4, _LENGTH, 64)) for _ in range(8)]
    return Step(), {"ids": torch.randint(0, 1000, (1, 1)), "past": past}


MODELS: dict[str, Callable[[], tuple[Any, dict[str, Any]]]] = {
    "resnet18": _resnet18,
    "vit-b": _vit,
    "bert-base": _bert,
    "decoder step": _step,
}


def measure(name: str, threads: int, rounds: int) -> dict[str, tuple[float, float]]:
    """Milliseconds for a call by engine: of the processor, and by the clock."""
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(threads)
    model, given = MODELS[name]()
    model.eval()
    calls: dict[str, Any] = {"eager": model}
    calls["inductor"] = torch.compile(model, dynamic=False)
    calls["mgx"] = torch.compile(model, backend="mgx", dynamic=False)
    times: dict[str, list[float]] = {engine: [] for engine in ENGINES}
    clock: dict[str, list[float]] = {engine: [] for engine in ENGINES}
    with torch.no_grad():
        wanted = _first(model(**given))
        for engine in ENGINES:
            for _ in range(3):
                found = _first(calls[engine](**given))
            torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-3)
        for _ in range(rounds):
            for engine in ENGINES:
                begun, started = time.perf_counter(), time.process_time()
                calls[engine](**given)
                times[engine].append(time.process_time() - started)
                clock[engine].append(time.perf_counter() - begun)
    return {e: (statistics.median(times[e]) * 1e3, min(clock[e]) * 1e3) for e in ENGINES}


def _first(value: Any) -> Any:
    """The first tensor of a result."""
    while not hasattr(value, "is_contiguous"):
        value = value[0]
    return value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"default: {', '.join(MODELS)}")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    for name in options.models:
        if name not in MODELS:
            parser.error(f"there is no model '{name}'; there are {', '.join(MODELS)}")
    if options.here:
        print(json.dumps(measure(options.models[0], options.threads[0], options.rounds)))
        return
    print(
        "| model | threads | mgx, ms | inductor, ms | eager, ms | mgx / inductor | by the clock |"
    )
    print("|---|---|---|---|---|---|---|")
    for threads in options.threads:
        ratios = []
        for name in options.models or MODELS:
            command = [sys.executable, "-m", "benchmarks.torch_compile", name, "--here"]
            command += ["--threads", str(threads), "--rounds", str(options.rounds)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            found = json.loads(done.stdout.splitlines()[-1])
            pairs = zip(found["mgx"], found["inductor"], strict=True)
            ratios.append([ours / theirs for ours, theirs in pairs])
            shown = [f"{found[engine][0]:.1f}" for engine in ENGINES]
            shown += [f"{ratio:.2f}" for ratio in ratios[-1]]
            print(f"| {name} | {threads} | {' | '.join(shown)} |", flush=True)
        means = [statistics.geometric_mean(some) for some in zip(*ratios, strict=True)]
        shown = [f"{mean:.2f}" for mean in means]
        print(f"| geometric mean | {threads} | | | | {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    main()
