"""Bytes of the arena of each model of the foundation, beside the least that is possible.

    python -m benchmarks.memory_plan [model ...]

The least is the largest sum of the sizes of tensors that are alive at one time.
"""

from __future__ import annotations

import argparse

import onnx
from mlir import ir

from mgx_mlir.compiler import CompileOptions, Report, import_model, optimize
from mgx_mlir.rewriting.lifetimes import Lifetimes
from mgx_mlir.rewriting.plan_attributes import ARENA_BYTES
from mgx_mlir.rewriting.tensors import lower_bound
from test.onnx_models import MODELS, light, light_names

NAMES = (*MODELS, *light_names())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=NAMES)
    print(f"{'model':>14} {'tensors':>8} {'least':>11} {'arena':>11} {'ratio':>6}")
    for name in parser.parse_args().models:
        count, least, arena = arena_bytes(model(name))
        print(f"{name:>14} {count:8d} {least:11d} {arena:11d} {arena / least:6.3f}")


def model(name: str) -> onnx.ModelProto:
    """A model of the foundation in full size."""
    return MODELS[name]() if name in MODELS else light(name)


def arena_bytes(found: onnx.ModelProto) -> tuple[int, int, int]:
    """The number of tensors in the arena, the least bytes that hold them, and the plan's."""
    options = CompileOptions()
    graph = import_model(found.SerializeToString(), options)
    optimize(graph, options, Report())
    with graph.module.context:
        tensors = Lifetimes.of(graph.main).in_arena()
        arena = ir.IntegerAttr(graph.module.operation.attributes[ARENA_BYTES]).value
    return len(tensors), lower_bound(tensors), arena


if __name__ == "__main__":
    main()
