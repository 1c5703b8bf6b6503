"""Model-local functions: their calls are replaced by their bodies.

onnx's inliner does that for functions without attributes. Before that, each function is copied
for each set of attributes that it is called with, defaults of the definition included; and all
functions and the model are brought to one opset.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import onnx
import onnx.checker
import onnx.defs
import onnx.inliner
import onnx.shape_inference
import onnx.version_converter
from onnx import AttributeProto, FunctionProto, ModelProto, NodeProto

from mgx_mlir.errors import ModelError, UnsupportedError
from mgx_mlir.importer import structure
from mgx_mlir.importer.node import substitute

Key: TypeAlias = tuple[str, str, str]  # domain, name, overload

_FAILURES = (
    onnx.checker.ValidationError,
    onnx.shape_inference.InferenceError,
    onnx.version_converter.ConvertError,
    IndexError,
    RuntimeError,
    ValueError,
)


def inline(model: ModelProto) -> ModelProto:
    """The model without functions.

    `budget.check_calls` has looked at it. Raises ModelError where a function is called wrongly,
    UnsupportedError where one is of an opset that does not convert to the model's.
    """
    model = _in_one_opset(model)
    functions = {key_of(f): f for f in model.functions}
    _Binder(model, functions).bind()
    try:
        return onnx.inliner.inline_local_functions(model, convert_version=True)
    except _FAILURES as error:
        older = {show(k): v for k, f in functions.items() if (v := _imports(f).get("", 0))}
        version = _imports(model)[""]
        listed = ", ".join(f"{name} {v}" for name, v in older.items() if v != version)
        if listed:
            raise UnsupportedError(
                f"functions of other opsets than {version} do not convert to it ({listed}): "
                f"{_words(error)}"
            ) from error
        raise ModelError(f"its functions cannot be inlined: {_words(error)}") from error


def key_of(function: FunctionProto) -> Key:
    """The name that a call states: domain, name and overload."""
    return _domain(function.domain), function.name, function.overload


def called(node: NodeProto) -> Key:
    """The function that a node calls, if there is one of that name."""
    return _domain(node.domain), node.op_type, node.overload


def show(key: Key) -> str:
    """A function's name as messages show it."""
    domain, name, overload = key
    return f"function '{domain}::{name}'" + (f" (overload '{overload}')" if overload else "")


def all_nodes(nodes: Iterable[NodeProto]) -> Iterable[NodeProto]:
    """The nodes, and those of the graphs inside of them."""
    for node in nodes:
        yield node
        for graph in structure.subgraphs(node):
            yield from all_nodes(graph.node)


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


# Attributes ----------------------------------------------------------------------------------


class _Binder:
    """Copies functions for the attributes of their calls.

        F<alpha = 0.3>(x) { y = LeakyRelu<alpha = @alpha>(x) }    G() { F(a)  F<alpha = 2.0>(b) }
        F/0(x) { y = LeakyRelu<alpha = 0.3>(x) }  F/1 ...         G() { F/0(a)  F/1(b) }

    An attribute that is a graph stays one: it reads names of the caller.
    """

    def __init__(self, model: ModelProto, functions: Mapping[Key, FunctionProto]) -> None:
        self._model = model
        self._functions = functions
        self._made: dict[tuple[Key, bytes], FunctionProto] = {}

    def bind(self) -> None:
        """Makes the model's calls those of copies."""
        for node in all_nodes(self._model.graph.node):
            self._bind(node)
        del self._model.functions[:]
        self._model.functions.extend(self._made.values())

    def _bind(self, node: NodeProto) -> None:
        function = self._functions.get(called(node))
        if function is None:
            return
        for what, have, most in (("inputs", node.input, function.input),
                                 ("outputs", node.output, function.output)):  # fmt: skip
            if len(have) > len(most):
                raise ModelError(
                    f"{structure.display_name(node)} has {len(have)} {what}; "
                    f"{show(called(node))} has {len(most)}"
                )
        given = {a.name: a for a in function.attribute_proto} | {a.name: a for a in node.attribute}
        kept = [
            a for a in given.values() if a.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS)
        ]
        for attribute in kept:
            del given[attribute.name]
        copy = self._copy(called(node), given)
        node.op_type, node.overload = copy.name, ""
        del node.attribute[:]
        node.attribute.extend(kept)

    def _copy(self, key: Key, given: Mapping[str, AttributeProto]) -> FunctionProto:
        """The function with these attributes and no others."""
        stated = b"".join(a.SerializeToString(deterministic=True) for _, a in sorted(given.items()))
        if (key, stated) in self._made:
            return self._made[key, stated]
        function = self._functions[key]
        copy = FunctionProto()
        copy.CopyFrom(function)
        copy.name, copy.overload = f"{function.name}/{len(self._made)}", ""
        self._made[key, stated] = copy
        del copy.attribute[:], copy.attribute_proto[:], copy.node[:]
        copy.node.extend(substitute(node, given) for node in function.node)
        for node in all_nodes(copy.node):
            self._bind(node)
        _separate_outputs(copy)
        return copy


def _separate_outputs(function: FunctionProto) -> None:
    """Gives each output a node of its own where it is an input or another output too."""
    taken = {name for node in all_nodes(function.node) for name in (*node.input, *node.output)}
    taken |= {*function.input, *function.output}
    seen = set(function.input)
    for index, name in enumerate(function.output):
        if name in seen:
            fresh = next(f for n in range(len(taken) + 1) if (f := f"{name}/{n}") not in taken)
            function.node.add(op_type="Identity", input=[name], output=[fresh])
            function.output[index] = fresh
            taken.add(fresh)
        seen.add(name)


# Opsets --------------------------------------------------------------------------------------


def _in_one_opset(model: ModelProto) -> ModelProto:
    """The model and its functions in the newest opset among them, and with all their domains."""
    imported = _imports(model)
    for function in model.functions:
        for domain, version in _imports(function).items():
            if domain not in imported:
                imported[domain] = version
                model.opset_import.add(domain=domain, version=version)
    newest = max([imported[""], *(_imports(f).get("", 0) for f in model.functions)])
    known = onnx.defs.onnx_opset_version()
    if newest > known:
        raise UnsupportedError(f"a function has opset {newest}; opsets up to {known} are known")
    if _differ(all_nodes(model.graph.node), "", imported[""], newest):
        model = _raised(model, newest)
    for entry in model.opset_import:
        if _domain(entry.domain) == "":
            entry.version = newest
    imported[""] = newest
    for function in model.functions:
        _state_opsets(function, imported)
    return model


def _imports(proto: ModelProto | FunctionProto) -> dict[str, int]:
    return {_domain(entry.domain): entry.version for entry in proto.opset_import}


def _differ(nodes: Iterable[NodeProto], domain: str, old: int, new: int) -> bool:
    """Whether some node means another operator's definition in the new opset."""
    if old == new:
        return False
    return any(
        _defined(node.op_type, domain, old) != _defined(node.op_type, domain, new)
        for node in nodes
        if _domain(node.domain) == domain
    )


def _defined(name: str, domain: str, version: int) -> int:
    try:
        return int(onnx.defs.get_schema(name, version, domain).since_version)
    except onnx.defs.SchemaError:
        return 0


def _raised(model: ModelProto, version: int) -> ModelProto:
    functions = list(model.functions)
    plain = ModelProto()
    plain.CopyFrom(model)
    del plain.functions[:]
    try:
        raised = onnx.version_converter.convert_version(plain, version)
    except _FAILURES as error:
        old = _imports(model)[""]
        raise UnsupportedError(
            f"a function has opset {version}, the model {old}, which does not convert to "
            f"{version}: {_words(error)}"
        ) from error
    present = _imports(raised)
    for domain, number in _imports(model).items():
        if domain not in present:
            raised.opset_import.add(domain=domain, version=number)
    raised.functions.extend(functions)
    return raised


def _state_opsets(function: FunctionProto, imported: Mapping[str, int]) -> None:
    """States the model's opsets where the function means the same in them.

    It keeps an older opset of ONNX's own domain otherwise, which the inliner converts.
    Raises UnsupportedError where another domain's differs.
    """
    stated, own = dict(imported), _imports(function)
    nodes = list(all_nodes(function.node))
    for domain, version in own.items():
        if not _differ(nodes, domain, version, imported[domain]):
            continue
        if domain:
            raise UnsupportedError(
                f"{show(key_of(function))} has opset {version} of '{domain}', and the model "
                f"{imported[domain]}; export them with one"
            )
        stated[""] = version
    del function.opset_import[:]
    for domain, version in stated.items():
        function.opset_import.add(domain=domain, version=version)


def _words(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:3])
