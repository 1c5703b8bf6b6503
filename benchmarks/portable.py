"""Portable compile, cold finalize and warm load, beside iree-compile for one chip, in one run.

    python -m benchmarks.portable [--models resnet50,bert] [--runs 3] [--json FILE]

Each time is the best of `--runs` fresh processes, alternating, with an empty cache; memory is the
largest resident set. Cold finalizing is `mgx finalize` of the portable artifact for one chip,
its time beside iree-compile's (the same model, weights outside of the program). The warm load is
that of an artifact with its code objects, on the emulated device, in a process that has opened HIP:
from the call of `load` to the moment when the first kernel is about to be launched, every weight
checked and on the device; its processor time, for busy machines; and from the start of the
process. Sizes: the artifact without its weights (plan, kernels, code objects), beside the vmfb.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from benchmarks.compile import CHIP, Cost, iree, mgx, prepare
from mgx_mlir.artifact.contents import size_text
from mgx_mlir.artifact.writer import HEADER

WARM = """
import sys, time
began = time.perf_counter()
import mgx_mlir
from mgx_mlir.loader import hip_device
from mgx_mlir.settings import Settings
settings, chip = Settings(hip="emulated"), mgx_mlir.Target.get(sys.argv[2])
hip_device(chip, settings)
opened, used = time.perf_counter(), time.process_time()
artifact = mgx_mlir.load(sys.argv[1])
program = mgx_mlir.compile(artifact, chip, settings=settings, graph=False, trust_code=True)
print(time.perf_counter() - opened, time.process_time() - used, time.perf_counter() - began)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--models", default="resnet50,bert")
    parser.add_argument("--runs", type=int, default=3, metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures too")
    options = parser.parse_args()
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in options.models.split(","):
            figures[name] = measure(prepare(name, Path(folder)), Path(folder), options.runs)
            report(name, figures[name])
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2, default=asdict) + "\n")
    return 0


def measure(model: Path, folder: Path, runs: int) -> dict[str, Cost | float | None]:
    portable, whole = folder / "portable.mgx", folder / "whole.mgx"
    tasks: dict[str, Callable[[], Cost | None]] = {
        "portable": lambda: mgx("compile", model, "-o", portable),
        "finalize": lambda: mgx("finalize", portable, "--arch", CHIP, "-o", whole),
        "iree": lambda: iree(model, folder, "rocm"),
    }
    found: dict[str, list[Cost]] = {name: [] for name in tasks}
    for _ in range(runs):
        for name, task in tasks.items():
            cost = task()
            if cost is not None:
                found[name].append(cost)
    figures: dict[str, Cost | float | None] = {
        name: min(costs, key=lambda cost: cost.seconds) if costs else None
        for name, costs in found.items()
    }
    loads = [warm(whole) for _ in range(runs)]
    for place, what in enumerate(("warm load", "warm load, processor", "warm start")):
        figures[what] = min(load[place] for load in loads)
    figures["artifact bytes"] = bytes_without_weights(whole)
    vmfb = folder / "iree.vmfb"
    figures["vmfb bytes"] = vmfb.stat().st_size if vmfb.exists() else None
    return figures


def bytes_without_weights(artifact: Path) -> int:
    """Bytes of the header, the manifest, kernels and code objects (docs/artifact.md)."""
    data = artifact.read_bytes()
    size = HEADER.unpack_from(data)[4]
    manifest = json.loads(data[HEADER.size : HEADER.size + size])
    weights = {weight["section"] for weight in manifest["weights"]}
    parts = [s["bytes"] for n, s in enumerate(manifest["sections"]) if n not in weights]
    return HEADER.size + size + sum(parts)


def warm(artifact: Path) -> tuple[float, ...]:
    """Seconds to the first launch: from `load`, the same of a processor, from the first line."""
    environment = os.environ | {"MGX_EMULATED_DEVICES": CHIP, "MGX_CACHE_DIR": "none"}
    command = [sys.executable, "-c", WARM, str(artifact), CHIP]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return tuple(map(float, done.stdout.split()))


def report(name: str, figures: dict[str, Cost | float | None]) -> None:
    print(f"\n{name}")
    for what in ("portable", "finalize", "iree"):
        print(f"  {what:<9} {figures[what] or 'not installed, or it failed'}")
    print(f"  warm load to the first launch {figures['warm load']:.3f} s", end="")
    print(f" ({figures['warm load, processor']:.3f} s of a processor)", end="")
    print(f", with the start of the process {figures['warm start']:.3f} s")
    own, peer = figures["artifact bytes"], figures["vmfb bytes"]
    assert isinstance(own, int)
    beside = f", vmfb {size_text(peer)}" if isinstance(peer, int) else ""
    print(f"  artifact without weights {size_text(own)}{beside}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
