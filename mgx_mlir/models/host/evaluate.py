"""Evaluates one node on the host: by this package's evaluator, or by onnx's reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx.checker
import onnx.defs
import onnx.shape_inference
from onnx import NodeProto, helper, numpy_helper

from mgx_mlir.errors import MgxError, ModelError
from mgx_mlir.models.host.table import Call, HostOperator, Kind, check_size
from mgx_mlir.models.host.values import normal, type_of

if TYPE_CHECKING:
    from onnx.reference import ReferenceEvaluator

# The exceptions that numpy or onnx's reference raises where inputs do not fit.
_FAILURES = (ArithmeticError, AssertionError, AttributeError, ImportError, IndexError, KeyError,
             MemoryError, NotImplementedError, RuntimeError, TypeError, ValueError)  # fmt: skip


class Evaluator:
    """One node, ready to be evaluated any number of times."""

    def __init__(self, node: NodeProto, row: HostOperator, opsets: Mapping[str, int]) -> None:
        self._node = node
        self._row = row
        self._opsets = dict(opsets)
        self._reference: ReferenceEvaluator | None = None

    def run(
        self, inputs: Sequence[Any], draw: Callable[[int | None], np.random.RandomState]
    ) -> list[Any]:
        """The node's results. Raises ModelError where the inputs do not fit.

        `inputs` are those that the node names, in order; absent ones are None.
        """
        try:
            with np.errstate(all="ignore"):
                return [normal(value) for value in self._results(list(inputs), draw)]
        except MgxError as error:
            raise type(error)(f"{self._name}: {error}") from error
        except _FAILURES as error:
            text = " ".join(str(error).split()) or type(error).__name__
            raise ModelError(f"{self._name}: {text}") from error

    @property
    def _name(self) -> str:
        node = self._node
        domain = f"{node.domain}." if node.domain else ""
        return f"{domain}{node.op_type} '{node.name}'"

    def _results(
        self, inputs: list[Any], draw: Callable[[int | None], np.random.RandomState]
    ) -> list[Any]:
        version = self._opsets.get(self._node.domain, 1)
        kind, evaluate = self._row.kind, self._row.evaluate
        # Results of DATA rows are no larger than the inputs; SIZES rows check their own sizes.
        if evaluate is None or kind not in (Kind.DATA, Kind.SIZES):
            self._check_size(inputs)
        if evaluate is not None:
            results = evaluate(Call(self._node, version, inputs, draw))
            if results is not NotImplemented:
                return list(results[: len(self._node.output)])
            self._check_size(inputs)
        if self._reference is None:
            self._reference = self._evaluator()
        given = {n: v for n, v in zip(self._node.input, inputs, strict=True) if n}
        found = iter(self._reference.run(None, given))
        return [next(found) if name else None for name in self._node.output]

    def _evaluator(self) -> ReferenceEvaluator:
        from onnx.reference import ReferenceEvaluator  # takes long to import: where it is used

        values = [
            [onnx.ValueInfoProto(name=name) for name in dict.fromkeys(names) if name]
            for names in (self._node.input, self._node.output)
        ]
        graph = helper.make_graph([self._node], "node", *values)
        opsets = [helper.make_opsetid(d, v) for d, v in self._opsets.items()]
        return ReferenceEvaluator(helper.make_model(graph, opset_imports=opsets, ir_version=10))

    def _check_size(self, inputs: Sequence[Any]) -> None:
        """Raises ModelError where onnx's inference finds a result that is absurdly large."""
        small = {
            name: value
            for name, value in zip(self._node.input, inputs, strict=True)
            if name and isinstance(value, np.ndarray) and value.size <= 64
        }
        version = self._opsets.get(self._node.domain)
        if (not small and self._node.input) or version is None:
            return
        if any(
            n and not isinstance(v, np.ndarray)
            for n, v in zip(self._node.input, inputs, strict=True)
        ):
            return
        try:
            found = onnx.shape_inference.infer_node_outputs(
                onnx.defs.get_schema(self._node.op_type, version, self._node.domain),
                self._node,
                {n: _sized_type(v) for n, v in zip(self._node.input, inputs, strict=True) if n},
                {n: numpy_helper.from_array(np.asarray(v, order="C"), n) for n, v in small.items()},
                opset_imports=[helper.make_opsetid(d, v) for d, v in self._opsets.items()],
            )
        except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError,
                onnx.defs.SchemaError, TypeError, ValueError):  # fmt: skip
            return  # the evaluation then reports the fault
        for name, type_ in found.items():
            dims = [d.dim_value for d in type_.tensor_type.shape.dim if d.HasField("dim_value")]
            check_size(name, dims)


def _sized_type(value: np.ndarray) -> onnx.TypeProto:
    type_ = type_of(value)
    type_.tensor_type.shape.SetInParent()
    for size in value.shape:
        type_.tensor_type.shape.dim.add(dim_value=size)
    return type_
