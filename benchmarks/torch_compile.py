"""Models inside PyTorch: torch.compile by this compiler and by inductor, beside eager, on the CPU.

    python -m benchmarks.torch_compile [MODEL...] [--threads 1 2] [--rounds 20]

Random weights, f32, batch 1. A process for each model and number of threads makes the three, and
calls them in turn. The time is the processor's of all threads of a call, the median of the rounds:
that of one thread is the latency of a machine that has nothing else to do.
"""

from __future__ import annotations

import argparse
import json
import math
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


def measure(name: str, threads: int, rounds: int) -> dict[str, float]:
    """Milliseconds of the processor for a call, by engine."""
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(threads)
    model, given = MODELS[name]()
    model.eval()
    calls: dict[str, Any] = {"eager": model}
    calls["inductor"] = torch.compile(model, dynamic=False)
    calls["mgx"] = torch.compile(model, backend="mgx", dynamic=False)
    times: dict[str, list[float]] = {engine: [] for engine in ENGINES}
    with torch.no_grad():
        wanted = _first(model(**given))
        for engine in ENGINES:
            for _ in range(3):
                found = _first(calls[engine](**given))
            torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-3)
        for _ in range(rounds):
            for engine in ENGINES:
                started = time.process_time()
                calls[engine](**given)
                times[engine].append(time.process_time() - started)
    return {engine: statistics.median(some) * 1e3 for engine, some in times.items()}


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
    print("| model | threads | mgx, ms | inductor, ms | eager, ms | mgx / inductor |")
    print("|---|---|---|---|---|---|")
    for threads in options.threads:
        ratios = []
        for name in options.models or MODELS:
            command = [sys.executable, "-m", "benchmarks.torch_compile", name, "--here"]
            command += ["--threads", str(threads), "--rounds", str(options.rounds)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            found = json.loads(done.stdout.splitlines()[-1])
            ratios.append(found["mgx"] / found["inductor"])
            shown = " | ".join(f"{found[engine]:.1f}" for engine in ENGINES)
            print(f"| {name} | {threads} | {shown} | {ratios[-1]:.2f} |", flush=True)
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        print(f"| geometric mean | {threads} | | | | {mean:.2f} |", flush=True)


if __name__ == "__main__":
    main()
