"""params: print the inputs and outputs of a model or an artifact."""

from __future__ import annotations

import argparse

from mgx_mlir.text import name_text
from mgx_mlir.tools import options as shared
from mgx_mlir.tools.files import is_artifact


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_model(parser, "an .onnx model, or a .mgx artifact")
    shared.add_shape_options(parser)


def run(options: argparse.Namespace) -> int:
    if is_artifact(options.model):
        import mgx_mlir
        from mgx_mlir.artifact.plan_binding import dim_text, shape_text

        plan = mgx_mlir.load(options.model).plan
        for kind, specs in (("input", plan.inputs), ("output", plan.outputs)):
            for spec in specs:
                between = " x " if plan.dims else "x"
                dims = between.join(shape_text(plan, spec)) or "scalar"
                print(f"{kind:<7} {name_text(spec.name)}: {spec.dtype} {dims}")
        for dim in plan.dims:
            print(f"size    {dim_text(dim)}")
        return 0
    from mgx_mlir.errors import OpenError
    from mgx_mlir.importer import loading, prepare
    from mgx_mlir.tools.programs import type_text

    source = loading.load(options.model)
    given = shared.compile_options(options)
    found = {}
    try:
        prepare.prepare(source, given.input_dims, given.dim_params, given.default_dim)
        found = prepare.infer(source.model)
    except OpenError:  # an input without a shape: only the declared type is known
        pass
    graph = source.model.graph
    for value in graph.input:
        if value.name in source.inputs:
            print(f"input   {name_text(value.name)}: {type_text(value.type)}")
    for value in graph.output:
        print(f"output  {name_text(value.name)}: {type_text(found.get(value.name, value.type))}")
    return 0
