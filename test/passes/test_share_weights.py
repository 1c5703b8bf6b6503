"""Equal weights are one; those that differ in a number, a shape or a type are not."""

from __future__ import annotations

import numpy as np

from mgx_mlir.artifact.weights import Weight, WeightStore
from mgx_mlir.passes.share_weights import ShareWeights
from test.passes.graphs import parse, run

SIZE = 5000  # more than what tells most of them apart


def keys_after(**arrays: np.ndarray) -> list[str]:
    """The names that the literals of a program of these weights have."""
    weights = WeightStore()
    types = {}
    for key, array in arrays.items():
        weights.add(Weight(key, array.dtype, array.shape, data=array))
        element = {"float32": "f32", "int32": "i32"}[str(array.dtype)]
        types[key] = f"tensor<{'x'.join(map(str, array.shape))}x{element}>"
    body = "\n".join(f'%{key} = mgx.literal "{key}" : {type_}' for key, type_ in types.items())
    values = ", ".join(f"%{key}" for key in types)
    results = ", ".join(types.values())
    graph = parse(
        f"func.func @main() -> ({results}) {{\n{body}\nreturn {values} : {results}\n}}", weights
    )
    run(graph, [ShareWeights()])
    found = []
    with graph.module.context:
        returned = list(graph.main.operation.regions[0].blocks[0].operations)[-1]
        for value in returned.operation.operands:
            found.append(value.owner.attributes["key"].value)
    return found


def test_equal_weights_are_one() -> None:
    a = np.arange(SIZE, dtype=np.float32)
    assert keys_after(a=a, b=a.copy(), c=a + 1, d=a.copy()) == ["a", "a", "c", "a"]


def test_weights_that_differ_stay() -> None:
    a = np.arange(SIZE, dtype=np.float32)
    last = a.copy()
    last[-1] = 0
    negative = np.zeros(4, np.float32)
    assert keys_after(
        a=a, b=last, c=a.reshape(50, 100), d=a.view(np.int32), e=negative, f=-negative
    ) == ["a", "b", "c", "d", "e", "f"]
