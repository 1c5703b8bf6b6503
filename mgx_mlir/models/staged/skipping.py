"""Models with operators that nothing here knows: inputs take the place of their results."""

from __future__ import annotations

import logging

import onnx
from onnx import TypeProto

from mgx_mlir.errors import UnsupportedError
from mgx_mlir.importer import structure
from mgx_mlir.importer.loading import Source
from mgx_mlir.models.staged.rows import is_strange

_log = logging.getLogger(__name__)


def without_unknown(source: Source) -> Source:
    """The model without the nodes whose operators are not known, each of which is logged.

    Their results are inputs, of the type that the model states, or else of the node's first
    operand. Raises UnsupportedError where neither is known.
    """
    own = source.copy()
    structure.normalise(own.model)
    own.inputs += skip_unknown(own.model)
    return own


def skip_unknown(model: onnx.ModelProto) -> tuple[str, ...]:
    """Does so in place, for a model whose nodes have names and an order. Returns the new inputs."""
    graph = model.graph
    functions = {(f.domain, f.name) for f in model.functions}
    made: list[str] = []
    for node in [n for n in graph.node if (n.domain, n.op_type) not in functions]:
        if not is_strange(node):
            continue
        types = _types(model)
        results = [name for name in node.output if name]
        for name in results:
            kind = next((types[n] for n in (name, *node.input[:1]) if n in types), None)
            if kind is None:
                raise UnsupportedError(
                    f"{structure.display_name(node)} is not known, and neither is the type of its "
                    f"result '{name}', which it would have as an input; state it as value_info"
                )
            graph.input.append(onnx.ValueInfoProto(name=name, type=kind))
        _log.warning("%s is left out; %s: given as inputs", structure.display_name(node), results)
        graph.node.remove(node)
        made += results
    return tuple(made)


def _types(model: onnx.ModelProto) -> dict[str, TypeProto]:
    """The types of tensors that the model states, or that follow."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    values = [*graph.value_info, *graph.output, *graph.input]
    return {v.name: v.type for v in values if v.type.tensor_type.HasField("shape")}
