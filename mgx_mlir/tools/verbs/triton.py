"""triton: a model of Triton Inference Server from an artifact: config.pbtxt and model.py.

The folder belongs into a model repository. Triton's Python backend runs it in an environment that
has mgx-mlir, or mgx-mlir-runtime where the artifact has code for the target.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mgx_mlir.artifact.plan import Plan, TensorSpec

_TYPES = {
    "bfloat16": "BF16", "bool": "BOOL", "float16": "FP16", "float32": "FP32", "float64": "FP64",
    "int16": "INT16", "int32": "INT32", "int64": "INT64", "int8": "INT8", "uint16": "UINT16",
    "uint32": "UINT32", "uint64": "UINT64", "uint8": "UINT8",
}  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("artifact", type=Path, metavar="X.mgx")
    add("-o", "--repository", type=Path, default=Path(), metavar="FOLDER",
        help="the model repository; default: this folder")  # fmt: skip
    add("--name", help="the model's name; default: the artifact's")
    add("--target", default="cpu", help="cpu, gpu or a chip; default cpu")
    add("--batch", type=int, default=32, metavar="N", help="the largest batch; default 32")
    add("--delay", type=int, default=1000, metavar="US", help="microseconds that requests wait "
        "for others; default 1000")  # fmt: skip
    add("--instances", type=int, default=1, metavar="N", help="for each device; default 1")


def run(options: argparse.Namespace) -> int:
    import mgx_mlir
    from mgx_mlir.errors import UsageError
    from mgx_mlir.tools.console import note
    from mgx_mlir.tools.files import expect_artifact

    expect_artifact(options.artifact, options.verb)
    artifact = mgx_mlir.load(options.artifact)
    if artifact.parts is not None:
        raise UsageError(f"{options.artifact} is in parts; Triton gets programs that are whole")
    name = options.name or options.artifact.stem
    folder = options.repository / name
    if (folder / "1").exists():
        raise UsageError(f"{folder / '1'} is there already; choose another --name or -o")
    config = configuration(artifact.plan, name, options)
    (folder / "1").mkdir(parents=True)
    source = Path(__file__).parents[1] / "triton_model.py"
    (folder / "1" / "model.py").write_text(source.read_text())
    artifact.save(folder / "1" / "model.mgx")
    (folder / "config.pbtxt").write_text(config)
    note(f"{folder}: config.pbtxt, 1/model.py, 1/model.mgx")
    return 0


def configuration(plan: Plan, name: str, options: argparse.Namespace) -> str:
    """The text of config.pbtxt."""
    batched = options.batch > 0 and _is_batched(plan)
    kind = "KIND_CPU" if options.target.startswith(("cpu", "x86", "aarch")) else "KIND_GPU"
    lines = [
        f'name: "{name}"',
        'backend: "python"',
        f"max_batch_size: {options.batch if batched else 0}",
        *_tensors("input", plan.inputs, batched),
        *_tensors("output", plan.outputs, batched),
        f"instance_group [ {{ kind: {kind} count: {options.instances} }} ]",
        f'parameters {{ key: "target" value {{ string_value: "{options.target}" }} }}',
    ]
    if batched:
        lines.append(f"dynamic_batching {{ max_queue_delay_microseconds: {options.delay} }}")
    return "\n".join(lines) + "\n"


def _is_batched(plan: Plan) -> bool:
    """Whether all first dimensions are one symbol, which nothing else depends on."""
    specs = (*plan.inputs, *plan.outputs)
    firsts = {spec.shape[0] if spec.shape else 0 for spec in specs}
    if len(firsts) != 1 or not (first := firsts.pop()) < 0:
        return False
    symbol = plan.formulas[-1 - first]
    others = {plan.formulas[-1 - n] for spec in specs for n in spec.shape[1:] if n < 0}
    return symbol in {dim.name for dim in plan.dims} and not any(symbol in o for o in others)


def _tensors(what: str, specs: Sequence[TensorSpec], batched: bool) -> list[str]:
    from mgx_mlir.errors import UnsupportedError

    lines = []
    for spec in specs:
        if spec.dtype not in _TYPES:
            raise UnsupportedError(f"{what} '{spec.name}' is {spec.dtype}, which Triton lacks")
        dims = [-1 if size < 0 else size for size in spec.shape[int(batched) :]]
        shape = "" if dims else " reshape { shape: [ ] }"
        lines.append(
            f'{what} [ {{ name: "{spec.name}" data_type: TYPE_{_TYPES[spec.dtype]} '
            f"dims: [ {', '.join(map(str, dims or [1]))} ]{shape} }} ]"
        )
    return lines
