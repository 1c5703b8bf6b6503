"""Changes of an imported program that the command line asks for: passes, weights as inputs."""

from __future__ import annotations

import argparse
import re

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.dialects.constants import constant_array
from mgx_mlir.pipelines.phases import PIPELINES
from mgx_mlir.pipelines.registry import parse_pipeline
from mgx_mlir.pipelines.runner import run_pipeline
from mgx_mlir.rewriting.graph import (
    Graph,
    main_function,
    node_name,
    set_signature,
    set_value_names,
    value_names,
)
from mgx_mlir.rewriting.pass_base import CLEANUP, PassContext


def change(graph: Graph, options: argparse.Namespace) -> None:
    """Changes the program in place as the options say. Raises UsageError for unknown passes."""
    for text in options.apply_pass:
        steps = PIPELINES[text].passes if text in PIPELINES else parse_pipeline(text)
        run_pipeline(graph.module, steps, PassContext(weights=graph.weights, cleanup=CLEANUP))
    if options.replace_literals:
        replace_literals(graph)


def replace_literals(graph: Graph) -> None:
    """Makes inputs of the weights and the constants of several numbers, after the inputs.

    They have the names of their weights, or of their nodes.
    """
    main = main_function(graph.module)
    block = main.regions[0].blocks[0]
    names = value_names(main, "arg_attrs", len(block.arguments))
    with graph.module.context, ir.Location.unknown():
        for found in list(block.operations):
            if not isinstance(found, mgx.LiteralOp | mgx.ConstantOp):
                continue
            if isinstance(found, mgx.ConstantOp) and _is_number(constant_array(found)):
                continue
            kind = found.results[0].type
            wanted = found.key.value if isinstance(found, mgx.LiteralOp) else node_name(found)
            names.append(_unused(re.sub(r"[^\w./:-]", "_", wanted) or "literal", names))
            found.results[0].replace_all_uses_with(block.add_argument(kind, found.location))
            found.operation.erase()
        set_signature(main)
        set_value_names(main, "arg_attrs", names)


def _is_number(array: np.ndarray) -> bool:
    """Whether the elements are one number, repeated or not."""
    return array.size == 0 or bool((array == array.flat[0]).all())


def _unused(name: str, names: list[str]) -> str:
    found, number = name, 0
    while found in names:
        number += 1
        found = f"{name}_{number}"
    return found
