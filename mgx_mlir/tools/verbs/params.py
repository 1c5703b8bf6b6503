"""params: print the inputs and outputs of a model or an artifact."""

from __future__ import annotations

import argparse

from mgx_mlir.tools import options as shared


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_model(parser, "an .onnx model, or a .mgx artifact")
    shared.add_shape_options(parser)


def run(options: argparse.Namespace) -> int:
    if shared.is_artifact(options.model):
        import mgx_mlir
        from mgx_mlir.plan_binding import dim_text, shape_text

        plan = mgx_mlir.load(options.model).plan
        for kind, specs in (("input", plan.inputs), ("output", plan.outputs)):
            for spec in specs:
                between = " x " if plan.dims else "x"
                dims = between.join(shape_text(plan, spec)) or "scalar"
                print(f"{kind:<7} {spec.name}: {spec.dtype} {dims}")
        for dim in plan.dims:
            print(f"size    {dim_text(dim)}")
        return 0
    from mgx_mlir.compiler import import_model
    from mgx_mlir.graph import value_names

    graph = import_model(options.model, shared.compile_options(options))
    with graph.module.context:
        block = graph.main.operation.regions[0].blocks[0]
        values = {
            "input": ("arg_attrs", list(block.arguments)),
            "output": ("res_attrs", list(list(block.operations)[-1].operation.operands)),
        }
        for kind, (attribute, group) in values.items():
            names = value_names(graph.main, attribute, len(group))
            for name, value in zip(names, group, strict=True):
                print(f"{kind:<7} {name}: {value.type}")
    return 0
