"""Launches for one inference at batch 1, and what the graph passes cost.

    python -m benchmarks.launches [--models resnet50,bert] [--passes] [--json FILE]

Launches are those that HIP is given on gfx942, copies too; steps are the kernels and copies of
the plan, of which some take several launches: sums that are split, operands that are packed.
Seconds are those of the pipelines of the default mode, import not among them, in one process on
one core; `--passes` says which passes they went to. Memory is what that process takes at most for
reading the model's file and compiling it, beside the size of the file; what a process of ours
takes for nothing at all, MLIR and the interpreter, is not counted.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.cpu_nets import forest
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.kernel import compiler
from mgx_mlir.compiler import CompileOptions, Report, import_model, optimize
from mgx_mlir.pipelines.planning import build_plan
from mgx_mlir.rewriting.graph import kernels
from test.onnx_models import MODELS, bert, light

CHIP = "gfx942"  # whose launches are counted


def deep(nodes: int = 5000, width: int = 64) -> onnx.ModelProto:
    """A graph of many nodes: layers of a product, a bias, a softmax, a transpose, a residual."""
    generator = np.random.default_rng(0)
    weights, made, x = [], [], "x"
    for i in range(nodes // 5):
        for name, dims in (("w", (width, width)), ("b", (width,))):
            array = generator.uniform(-0.1, 0.1, dims).astype(np.float32)
            weights.append(numpy_helper.from_array(array, f"{name}{i}"))
        made += [
            helper.make_node("MatMul", [x, f"w{i}"], [f"m{i}"]),
            helper.make_node("Add", [f"m{i}", f"b{i}"], [f"a{i}"]),
            helper.make_node("Softmax", [f"a{i}"], [f"s{i}"]),
            helper.make_node("Transpose", [f"s{i}"], [f"t{i}"], perm=[1, 0]),
            helper.make_node("Add", [f"t{i}", x], [f"c{i}"]),
        ]
        x = f"c{i}"
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [width, width]) for name in ("x", x)
    ]
    graph = helper.make_graph(made, "deep", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


MODEL_MAKERS: dict[str, Callable[[], onnx.ModelProto]] = {
    "squeezenet": partial(light, "squeezenet", seed=0),
    "resnet50": partial(light, "resnet50", seed=0),
    "shufflenet": partial(light, "shufflenet", seed=0),
    "densenet121": partial(light, "densenet121", seed=0),
    "inception_v2": partial(light, "inception_v2", seed=0),
    "bert": bert,
    "bert_base": partial(bert, layers=12, width=768),
    "gpt2": MODELS["gpt2"],
    "vit": MODELS["vit"],
    "lstm": MODELS["lstm"],
    "forest": partial(forest, 1),
    "deep_5000": deep,
}


@dataclass(frozen=True)
class Row:
    """A model's launches, the seconds of each pass, and megabytes: of the file, of memory."""

    model: str
    launches: int
    steps: int
    kernels: int
    seconds: float
    passes: dict[str, float]
    file: float
    memory: float


def main() -> int:
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(asdict(measure(sys.argv[2], Path(sys.argv[3])))))
        return 0
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", default=",".join(MODEL_MAKERS))
    parser.add_argument("--passes", action="store_true", help="seconds of each pass too")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures too")
    options = parser.parse_args()
    rows = []
    print("| model | launches | steps | distinct kernels | graph passes | file | memory |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name in options.models.split(","):
        rows.append(measured(name))
        row = rows[-1]
        print(
            f"| {row.model} | {row.launches} | {row.steps} | {row.kernels} | {row.seconds:.2f} s "
            f"| {row.file:.0f} MB | {row.memory:.0f} MB |",
            flush=True,
        )
    if options.passes:
        for row in rows:
            slowest = sorted(row.passes.items(), key=lambda item: -item[1])
            print(f"\n{row.model}")
            print("\n".join(f"    {seconds:6.3f} s  {name}" for name, seconds in slowest))
    if options.json:
        figures = [asdict(row) for row in rows]
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0


def measured(name: str) -> Row:
    """`measure` in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        onnx.save(MODEL_MAKERS[name](), file)
        command = [sys.executable, "-m", "benchmarks.launches", "--measure", name, str(file)]
        return Row(**json.loads(subprocess.check_output(command)))


def measure(name: str, file: Path) -> Row:
    """Runs the default pipelines on a model and counts what they leave."""
    options = CompileOptions()
    optimize(import_model(deep(5), options), options, Report())  # loads what is loaded once
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts from here
    before = _megabytes("VmRSS")
    graph = import_model(file, options)
    report = Report()
    optimize(graph, options, report)
    with graph.module.context:
        plan = build_plan(graph)
    passes: Counter[str] = Counter()
    for step, seconds in report.passes.entries:
        passes[step] += seconds
    found = {step.kernel for step in plan.steps if step.kernel >= 0}
    seconds = sum(seconds for _, seconds in report.stages)
    memory = _megabytes("VmHWM") - before
    size = file.stat().st_size / (1 << 20)
    target = Target.get(CHIP)
    launches = plan.launches([compiler(kernel)(target) for kernel in kernels(graph.module)])
    return Row(name, launches, plan.step_count, len(found), seconds, dict(passes), size, memory)


def _megabytes(key: str) -> float:
    """A figure of this process's memory, as Linux counts it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    kilobytes = next(line.split()[1] for line in lines if line.startswith(key + ":"))
    return int(kilobytes) / 1024


if __name__ == "__main__":
    raise SystemExit(main())
