"""A graph of Dynamo as a module of tensors alone: weights and numbers fixed, sizes by shapes."""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.multiprocessing.reductions import StorageWeakRef

_SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)


class Kind(enum.Enum):
    """What an argument of a graph is."""

    WEIGHT = "weight"  # a parameter or a buffer of a module
    NUMBER = "number"  # a number of Python, for which the graph is compiled
    SIZE = "size"  # the size of a dimension of a tensor
    TENSOR = "tensor"


@dataclass(frozen=True)
class Result:
    """An output of a graph: one that the program computes, the host's, an argument, or a value.

    `index`: among the program's outputs, the host's outputs, or the arguments.
    """

    kind: str
    index: int = 0
    value: Any = None


class Capture:
    """A graph of Dynamo, read once. `results` are its outputs.

    `host` computes those outputs that are numbers, or views of arguments: they have to be views of
    the caller's own tensors. None: there is no such output.
    """

    def __init__(self, gm: fx.GraphModule, examples: Sequence[Any]) -> None:
        self.gm = gm
        self._placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
        self._place = {node: n for n, node in enumerate(self._placeholders)}
        self._sources = {n: _size_of(p, self._placeholders) for p, n in self._place.items()}
        pairs = zip(self._placeholders, examples, strict=True)
        self.kinds = [self._kind(n, *pair) for n, pair in enumerate(pairs)]
        self.computed: list[fx.Node] = []
        on_host: list[fx.Node] = []
        self.results = [self._result(item, on_host) for item in self._returned()]
        self.host = _part(gm, on_host) if on_host else None

    def positions(self, kind: Kind) -> tuple[int, ...]:
        """The arguments of a kind, by number."""
        return tuple(n for n, one in enumerate(self.kinds) if one is kind)

    @property
    def symbolic(self) -> bool:
        """Whether a size of a tensor is not given."""
        return any(self.open_dims(n) for n in self.positions(Kind.TENSOR))

    def open_dims(self, position: int) -> list[int]:
        """The dimensions of a tensor whose sizes are not given."""
        shape = _example(self._placeholders[position]).shape
        return [axis for axis, size in enumerate(shape) if isinstance(size, torch.SymInt)]

    def formula(self, position: int, axis: int) -> str:
        """The size of a tensor's dimension, by Dynamo's symbols."""
        size = _example(self._placeholders[position]).shape[axis]
        return str(size.node.expr)

    def _kind(self, number: int, node: fx.Node, example: Any) -> Kind:
        value = _example(node)
        if isinstance(value, torch.SymInt):
            return Kind.SIZE if self._sources[number] else Kind.NUMBER
        taken = getattr(node.meta.get("grapharg"), "is_tensor", True)
        if not isinstance(value, torch.Tensor) or not taken:
            return Kind.NUMBER
        marks = node.meta.get("tensor_dict") or {}
        fixed = isinstance(example, torch.nn.Parameter) or "_dynamo_static_input_type" in marks
        return Kind.WEIGHT if fixed else Kind.TENSOR

    def _returned(self) -> Sequence[Any]:
        (output,) = (n for n in self.gm.graph.nodes if n.op == "output")
        given = output.args[0]
        return given if isinstance(given, tuple | list) else (given,)

    def _result(self, item: Any, on_host: list[fx.Node]) -> Result:
        if not isinstance(item, fx.Node):
            return Result("value", value=item)
        if item in self._place:
            return Result("argument", self._place[item])
        if not isinstance(_example(item), torch.Tensor) or self._is_view(item):
            on_host.append(item)
            return Result("host", len(on_host) - 1)
        if item not in self.computed:
            self.computed.append(item)
        return Result("program", self.computed.index(item))

    def _is_view(self, node: fx.Node) -> bool:
        """Whether a tensor has the memory of an argument."""
        given = [_example(one) for one in self._placeholders]
        memory = {StorageWeakRef(t.untyped_storage()) for t in given if _has_memory(t)}
        value = _example(node)
        return _has_memory(value) and StorageWeakRef(value.untyped_storage()) in memory

    def frozen(self, args: Sequence[Any], weights: Sequence[int], changed: Sequence[int]) -> Any:
        """A GraphModule from the other tensors to what the program computes.

        `weights` are the arguments that become its own tensors. Those `changed` by the graph come
        out behind the other results.
        """
        graph = fx.Graph()
        attributes: dict[str, Any] = {}
        known: dict[fx.Node, Any] = {}
        for n, node in enumerate(self._placeholders):
            if self.kinds[n] is Kind.NUMBER:
                known[node] = _number(args[n])
            elif n not in weights and self.kinds[n] is not Kind.SIZE:
                known[node] = graph.placeholder(node.name)
        for n in weights:
            name = self._placeholders[n].name
            attributes[name] = args[n]
            known[self._placeholders[n]] = graph.get_attr(name)
        for n in self.positions(Kind.SIZE):
            tensor, axis = self._sources[n] or (None, 0)
            size = (known[tensor], axis)
            known[self._placeholders[n]] = graph.call_function(torch.ops.aten.sym_size.int, size)
        for node in self.gm.graph.nodes:
            if node.op in ("placeholder", "output"):
                continue
            if node.op in ("get_attr", "call_module"):
                attributes[node.target] = operator.attrgetter(node.target)(self.gm)
            if _is_item_of_number(node, known):
                known[node] = known[node.args[0]]
                continue
            if _is_number_minus_integers(node):
                # torch's exporter promotes the tensor's type, and then finds no such operator.
                number, tensor = node.args
                negative = graph.call_function(operator.neg, (known[tensor],))
                known[node] = graph.call_function(operator.add, (negative, number))
                continue
            known[node] = graph.node_copy(node, known.__getitem__)
        results = [*self.computed, *(self._placeholders[n] for n in changed)]
        graph.output(tuple(known[node] for node in results))
        return fx.GraphModule(attributes, graph)

    def changed(self, args: Sequence[Any]) -> tuple[int, ...]:
        """The arguments that the graph writes to. Raises what torch does without elements."""
        fixed = {*self.positions(Kind.NUMBER), *self.positions(Kind.SIZE)}
        tensors = [n for n in range(len(args)) if n not in fixed]
        module = self.frozen(args, (), ())
        with torch.inference_mode(False), torch.no_grad(), FakeTensorMode() as mode:
            fake = [mode.from_tensor(fresh(args[n])) for n in tensors]
            mode.allow_non_fake_inputs = True
            before = [tensor._version for tensor in fake]
            module(*fake)
            after = [tensor._version for tensor in fake]
        return tuple(n for n, a, b in zip(tensors, before, after, strict=True) if a != b)


def fresh(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of the same form, whose elements nobody looks at."""
    empty = torch.empty_strided(
        tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device
    )
    return empty.requires_grad_(tensor.requires_grad)


def _example(node: fx.Node) -> Any:
    return node.meta.get("example_value", node.meta.get("val"))


def _has_memory(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.layout is torch.strided


def _size_of(node: fx.Node, others: Sequence[fx.Node]) -> tuple[fx.Node, int] | None:
    """The tensor and the dimension of it whose size an argument is."""
    value = _example(node)
    if not isinstance(value, torch.SymInt):
        return None
    for other in others:
        tensor = _example(other)
        for axis, size in enumerate(tensor.shape if isinstance(tensor, torch.Tensor) else ()):
            if isinstance(size, torch.SymInt) and size.node.expr == value.node.expr:
                return other, axis
    return None


def _number(value: Any) -> Any:
    """A number of Python, which Dynamo may have put into a tensor."""
    return value.item() if isinstance(value, torch.Tensor) else value


def _is_item_of_number(node: fx.Node, known: dict[fx.Node, Any]) -> bool:
    return (
        node.op == "call_method"
        and node.target == "item"
        and not isinstance(known.get(node.args[0]), fx.Node)
    )


def _is_number_minus_integers(node: fx.Node) -> bool:
    """Whether a node is a float less a tensor of integers, such as `1.0 - mask`."""
    if node.target is not operator.sub or not isinstance(node.args[0], float):
        return False
    tensor = _example(node.args[1]) if isinstance(node.args[1], fx.Node) else None
    return isinstance(tensor, torch.Tensor) and tensor.dtype in _SIGNED


def _part(gm: fx.GraphModule, outputs: Sequence[fx.Node]) -> Callable[..., Any]:
    """The part of a graph that some of its nodes need, with all arguments."""
    graph = fx.Graph()
    known: dict[fx.Node, fx.Node] = {}
    needed = set(outputs)
    for node in reversed(gm.graph.nodes):
        if node in needed:
            needed.update(node.all_input_nodes)
    for node in gm.graph.nodes:
        if node.op == "placeholder" or (node in needed and node.op != "output"):
            known[node] = graph.node_copy(node, known.__getitem__)
    graph.output(tuple(known[node] for node in outputs))
    return fx.GraphModule(gm, graph)
