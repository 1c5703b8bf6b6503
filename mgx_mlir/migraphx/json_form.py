"""A program as JSON, whole: its ops with their attributes and types, and its weights."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from mlir import ir

from mgx_mlir.artifact.weights import Weight, WeightStore
from mgx_mlir.dialects import context, mgx
from mgx_mlir.dialects.types import DTYPES
from mgx_mlir.errors import ArtifactError, ModelError
from mgx_mlir.rewriting.graph import (
    Graph,
    kernels,
    main_function,
    node_name,
    set_value_names,
    value_names,
)
from mgx_mlir.rewriting.queries import ops_inside

FORMAT = "mgx-mlir program"
_VERSION = 1
_DTYPES = {dtype.name: dtype for dtype in DTYPES.values()}
# Attributes of @main that the program's inputs and outputs say.
_SIGNATURE = ("sym_name", "function_type", "arg_attrs", "res_attrs")


def to_json(graph: Graph) -> str:
    """The program as JSON, which `from_json` reads; one with kernels is for reading alone."""
    main = main_function(graph.module)
    block = main.regions[0].blocks[0]
    names = value_names(main, "arg_attrs", len(block.arguments))
    prefix = "%"
    while any(name.startswith(prefix) for name in names):
        prefix += "%"
    known: dict[ir.Value, str] = dict(zip(block.arguments, names, strict=True))
    ops = [_record(op, known, prefix) for op in block.operations]
    record: dict[str, Any] = {
        "format": FORMAT,
        "version": _VERSION,
        "name": graph.name,
        "inputs": {name: str(v.type) for name, v in zip(names, block.arguments, strict=True)},
        "outputs": value_names(main, "res_attrs", len(ops[-1]["operands"])),
        "attributes": {n: str(main.attributes[n]) for n in main.attributes if n not in _SIGNATURE},
        "ops": ops,
        "weights": [_weight_record(key, graph.weights[key]) for key in _keys(graph)],
    }
    found = [_record(kernel, {}, prefix) for kernel in kernels(graph.module)]
    return json.dumps(record | ({"kernels": found} if found else {}), indent=2) + "\n"


def _keys(graph: Graph) -> list[str]:
    """The keys of the weights that the program reads, in its order."""
    found = ops_inside(graph.module.operation, mgx.LiteralOp)
    return list(dict.fromkeys(op.key.value for op in found))


def _record(op: ir.OpView, known: dict[ir.Value, str], prefix: str) -> dict[str, Any]:
    operands = [known[value] for value in op.operands]
    for value in op.results:
        known[value] = f"{prefix}{len(known)}"
    record: dict[str, Any] = {
        "op": op.operation.name,
        "node": node_name(op),
        "operands": operands,
        "results": {known[value]: str(value.type) for value in op.results},
        "attributes": {name: str(op.attributes[name]) for name in op.attributes},
    }
    bodies = [_body(block, known, prefix) for region in op.regions for block in region.blocks]
    return record | ({"regions": bodies} if bodies else {})


def _body(block: ir.Block, known: dict[ir.Value, str], prefix: str) -> dict[str, Any]:
    inputs = {}
    for value in block.arguments:
        known[value] = f"{prefix}{len(known)}"
        inputs[known[value]] = str(value.type)
    return {"inputs": inputs, "ops": [_record(op, known, prefix) for op in block.operations]}


def _weight_record(key: str, weight: Weight) -> dict[str, Any]:
    data = base64.b64encode(b"".join(weight.chunks())).decode()
    return {"key": key, "dtype": weight.dtype.name, "shape": list(weight.shape), "data": data}


def from_json(data: bytes) -> Graph:
    """The program of JSON that `to_json` gave. Raises ArtifactError where it is none."""
    try:
        record = json.loads(data)
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            raise ArtifactError(
                "the JSON holds no program of mgx-mlir; `mgx read --json` and "
                "mgx_mlir.migraphx.save write such, and files of MIGraphX cannot be read"
            )
        if record.get("version") != _VERSION:
            raise ArtifactError(f"a program in JSON of version {record.get('version')!r}")
        if record.get("kernels"):
            raise ArtifactError(
                "the JSON shows a compiled program; -o without a form writes one that runs"
            )
        weights = WeightStore()
        for row in record["weights"]:
            weights.add(_weight(row))
        with context(), ir.Location.unknown():
            module = ir.Module.parse("\n".join(_text(record)))
            return _checked(Graph(module, weights, str(record["name"])), record)
    except (
        ir.MLIRError,
        ModelError,
        AttributeError,
        IndexError,
        KeyError,
        TypeError,
        ValueError,
        RecursionError,
    ) as error:
        said = f"{type(error).__name__} {error}" if isinstance(error, KeyError) else str(error)
        raise ArtifactError(f"the program in JSON is damaged: {said}") from error


def _checked(graph: Graph, record: Mapping[str, Any]) -> Graph:
    """The graph with the names of its inputs and outputs, whose weights are there."""
    main = main_function(graph.module)
    set_value_names(main, "arg_attrs", list(map(str, record["inputs"])))
    set_value_names(main, "res_attrs", list(map(str, record["outputs"])))
    if not graph.module.operation.verify():
        raise ValueError("its names of inputs and outputs are not as many as these")
    for op in ops_inside(graph.module.operation, mgx.LiteralOp):
        if op.key.value not in graph.weights:
            raise ValueError(f"there is no weight '{op.key.value}'")
    return graph


def _text(record: Mapping[str, Any]) -> Iterator[str]:
    """The module as generic MLIR text, a line for each op."""
    inputs = {str(name): str(kind) for name, kind in record["inputs"].items()}
    known = {name: f"%i{place}" for place, name in enumerate(inputs)}
    arguments = ", ".join(f"{known[name]}: {kind}" for name, kind in inputs.items())
    yield '"func.func"() ({'
    yield f"^bb0({arguments}):"
    types = dict(inputs)
    for op in record["ops"]:
        yield from _op_text(op, known, types)
    returned = ", ".join(types[name] for name in record["ops"][-1]["operands"])
    kept = "".join(f", {_attribute(item)}" for item in record["attributes"].items())
    signature = f"({', '.join(inputs.values())}) -> ({returned})"
    yield f'}}) {{sym_name = "main", function_type = {signature}{kept}}} : () -> ()'


def _op_text(op: Mapping[str, Any], known: dict[str, str], types: dict[str, str]) -> Iterator[str]:
    operands = [str(name) for name in op["operands"]]
    for name in operands:
        if name not in known:
            raise ValueError(f"{op['op']} reads '{name}', which is not made before")
    regions = op.get("regions", [])
    opening = ", ".join(known[name] for name in operands)
    results = {str(name): str(kind) for name, kind in op["results"].items()}
    taken = ", ".join(types[name] for name in operands)
    inner = []
    for place, region in enumerate(regions):
        inner.append("}, {" if place else "({")
        inner += _region_text(region, dict(known), dict(types))
    inner += ["})"] if regions else []
    _define(results, known, types)
    made = ", ".join(known[name] for name in results)
    yield f"{made and f'{made} = '}{_quoted(op['op'])}({opening})"
    yield from inner
    attributes = ", ".join(map(_attribute, op["attributes"].items()))
    node = f" loc({_quoted(op['node'])})" if op.get("node") else ""
    yield f"{{{attributes}}} : ({taken}) -> ({', '.join(results.values())}){node}"


def _region_text(
    region: Mapping[str, Any], known: dict[str, str], types: dict[str, str]
) -> Iterator[str]:
    inputs = {str(name): str(kind) for name, kind in region["inputs"].items()}
    _define(inputs, known, types)
    yield f"^bb0({', '.join(f'{known[name]}: {kind}' for name, kind in inputs.items())}):"
    for op in region["ops"]:
        yield from _op_text(op, known, types)


def _define(made: Mapping[str, str], known: dict[str, str], types: dict[str, str]) -> None:
    for name, kind in made.items():
        if name in known:
            raise ValueError(f"'{name}' is made twice")
        known[name] = f"%v{len(known)}"
        types[name] = kind


def _attribute(item: tuple[str, str]) -> str:
    name, text = item
    return f"{_quoted(name)} = {text}"


def _quoted(text: str) -> str:
    """A string of MLIR."""
    plain = (c if 32 <= c < 127 and c not in b'"\\' else None for c in str(text).encode())
    escaped = zip(plain, str(text).encode(), strict=True)
    return '"' + "".join(f"\\{byte:02X}" if c is None else chr(c) for c, byte in escaped) + '"'


def _weight(row: Mapping[str, Any]) -> Weight:
    dtype = _DTYPES[row["dtype"]]
    shape: Sequence[int] = [int(n) for n in row["shape"]]
    try:
        data = np.frombuffer(base64.b64decode(row["data"], validate=True), np.uint8)
    except binascii.Error as error:
        raise ValueError(f"weight '{row['key']}': {error}") from error
    size = int(np.prod(shape, dtype=object)) * dtype.itemsize
    if min(shape, default=0) < 0 or data.size != size:
        raise ValueError(f"weight '{row['key']}' has {data.size} bytes where {size} belong")
    return Weight(str(row["key"]), dtype, tuple(shape), data=data.view(dtype).reshape(shape))
