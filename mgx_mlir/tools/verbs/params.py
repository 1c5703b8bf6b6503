"""params: print the inputs and outputs of a model or an artifact."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from mgx_mlir.artifact.writer import is_artifact
from mgx_mlir.text import name_text
from mgx_mlir.tools import options as shared

if TYPE_CHECKING:
    from mgx_mlir.compiler import CompileOptions
    from mgx_mlir.importer.loading import Source


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_model(parser, "an .onnx model, or a .mgx artifact")
    shared.add_shape_options(parser)
    shared.add_change_options(parser)
    shared.add_json(parser)


def run(options: argparse.Namespace) -> int:
    found = _found(options)
    if options.json:
        print(json.dumps(found, indent=2))
        return 0
    for kind in ("input", "output"):
        for tensor in found[f"{kind}s"]:
            print(f"{kind:<7} {name_text(tensor['name'])}: {tensor['type']}")
    for size in found["sizes"]:
        print(f"size    {size}")
    return 0


def _found(options: argparse.Namespace) -> dict[str, Any]:
    """The tensors, and the open sizes with their bounds."""
    if is_artifact(options.model):
        return _of_artifact(options)
    from mgx_mlir.tools.editing import is_program

    return _of_program(options) if is_program(options) else _of_model(options)


def _of_program(options: argparse.Namespace) -> dict[str, Any]:
    from mgx_mlir.artifact.plan_binding import dim_text
    from mgx_mlir.dialects import mgx
    from mgx_mlir.dialects.types import dims_of
    from mgx_mlir.rewriting.graph import value_names
    from mgx_mlir.rewriting.queries import yielded
    from mgx_mlir.sizes.arithmetic import Symbol
    from mgx_mlir.tools.editing import graph_of

    graph = graph_of(options)
    with graph.module.context:
        main = graph.main
        block = main.regions[0].blocks[0]

        def records(attribute: str, values: list[Any]) -> list[dict[str, Any]]:
            found = []
            for name, value in zip(value_names(main, attribute, len(values)), values, strict=True):
                dtype = mgx.numpy_dtype(value.type).name
                dims = dims_of(value.type)
                shape = [d.name if isinstance(d, mgx.DimAttr) else d for d in dims]
                text = "x".join("?" if d is None else str(d) for d in shape) or "scalar"
                found.append(
                    {"name": name, "type": f"{dtype} {text}", "dtype": dtype, "shape": shape}
                )
            return found

        sizes = {dim.symbol: Symbol(dim.symbol, dim.low, dim.high) for dim in graph.open_dims()}
        return {
            "inputs": records("arg_attrs", list(block.arguments)),
            "outputs": records("res_attrs", list(yielded(block))),
            "sizes": list(map(dim_text, sizes.values())),
        }


def _of_artifact(options: argparse.Namespace) -> dict[str, Any]:
    import mgx_mlir
    from mgx_mlir.artifact.plan import TensorSpec
    from mgx_mlir.artifact.plan_binding import dim_text, shape_text

    artifact = mgx_mlir.load(options.model)
    if artifact.parts is not None:
        from mgx_mlir.models.staged.stored import read_source

        return _of_source(*read_source(artifact))
    plan = artifact.plan

    def record(spec: TensorSpec) -> dict[str, Any]:
        shape = shape_text(plan, spec)
        dims = (" x " if plan.dims else "x").join(shape) or "scalar"
        return {"name": spec.name, "type": f"{spec.dtype} {dims}", "dtype": spec.dtype,
                "shape": [int(size) if size.isdecimal() else size for size in shape]}  # fmt: skip

    return {
        "inputs": list(map(record, plan.inputs)),
        "outputs": list(map(record, plan.outputs)),
        "sizes": list(map(dim_text, plan.dims)),
    }


def _of_model(options: argparse.Namespace) -> dict[str, Any]:
    from mgx_mlir.importer import loading
    from mgx_mlir.tools.editing import model_of

    return _of_source(loading.load(model_of(options)), shared.compile_options(options))


def _of_source(source: Source, given: CompileOptions) -> dict[str, Any]:
    import onnx

    from mgx_mlir.artifact.plan_binding import dim_text
    from mgx_mlir.errors import OpenError
    from mgx_mlir.importer import prepare
    from mgx_mlir.models.host.values import type_text
    from mgx_mlir.sizes.arithmetic import Symbol
    from mgx_mlir.sizes.range import Range

    found: dict[str, onnx.TypeProto] = {}
    ranges: dict[str, Range] = {}
    try:
        ranges = prepare.prepare(source, given.input_dims, given.dim_params, given.default_dim)
        found = prepare.infer(source.model)
    except OpenError:  # an input without a shape: only the declared type is known
        pass

    def record(value: onnx.ValueInfoProto, type_: onnx.TypeProto) -> dict[str, Any]:
        record: dict[str, Any] = {"name": value.name, "type": type_text(type_)}
        if type_.WhichOneof("value") == "tensor_type":
            shape = type_.tensor_type.shape.dim if type_.tensor_type.HasField("shape") else None
            record["dtype"] = record["type"].partition(" ")[0]
            record["shape"] = (
                None
                if shape is None
                else [
                    d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in shape
                ]
            )
        return record

    graph = source.model.graph
    return {
        "inputs": [record(v, v.type) for v in graph.input if v.name in source.inputs],
        "outputs": [record(v, found.get(v.name, v.type)) for v in graph.output],
        "sizes": [
            dim_text(Symbol(name, size.low, size.high, size.optimals))
            for name, size in ranges.items()
        ],
    }
