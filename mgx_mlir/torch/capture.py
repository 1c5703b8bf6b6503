"""A graph of Dynamo as a module of tensors alone: weights and numbers fixed, sizes by shapes."""

from __future__ import annotations

import enum
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from mgx_mlir.torch import layouts
from mgx_mlir.torch.indices import Indices, Range

# The functions by which Dynamo enters a context, with its class, and leaves it.
_CONTEXTS: dict[Any, Any] = {
    torch.amp.autocast_mode._enter_autocast: torch.amp.autocast_mode.autocast,
    torch.amp.autocast_mode._exit_autocast: None,
}
_CHECKPOINT = torch.ops.higher_order.tag_activation_checkpoint
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

    `host` computes those outputs that are numbers, or views: of arguments, since they have to be
    views of the caller's own tensors, and of `bases`, which are computed and take the place of the
    last arguments. None: there is no such output. `refusal`: why it cannot be kept; '' where it
    can. `ranges`: those of the indices among the arguments, by the last call of `changed`.
    """

    def __init__(self, gm: fx.GraphModule, examples: Sequence[Any]) -> None:
        self.gm = gm = _inlined(gm)
        self._placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
        self._place = {node: n for n, node in enumerate(self._placeholders)}
        self._sources = {n: _size_of(p, self._placeholders) for p, n in self._place.items()}
        pairs = zip(self._placeholders, examples, strict=True)
        self.kinds = [self._kind(n, *pair) for n, pair in enumerate(pairs)]
        self.computed: list[fx.Node] = []
        self.bases: list[int] = []
        self.refusal = ""
        self.ranges: tuple[Range, ...] = ()
        on_host: list[fx.Node] = []
        returned = self._returned()
        shared = self._shared(returned)
        self.results = [self._result(item, on_host, shared) for item in returned]
        bases = [self.computed[n] for n in self.bases]
        self.host = _part(gm, on_host, bases) if on_host else None
        self.orders = [layouts.order_of(_example(node)) for node in self.computed]

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

    def _shared(self, returned: Sequence[Any]) -> dict[fx.Node, fx.Node]:
        """The node that an output is a view of, for those that share memory which is computed."""
        nodes = [n for n in dict.fromkeys(returned) if isinstance(n, fx.Node)]
        own = [n for n in nodes if n not in self._place and not self._is_view(n)]
        memory = {n: one for n in own if (one := layouts.memory_of(_example(n))) is not None}
        counts = Counter(memory.values())
        shared = {n: one for n, one in memory.items() if counts[one] > 1}
        found = {}
        for node, one in shared.items():
            alike = [n for n in self.gm.graph.nodes if layouts.memory_of(_example(n)) == one]
            base = alike[0]
            if layouts.order_of(_example(base)) or not _are_views(node, base, set(alike)):
                self.refusal = f"result '{node.name}' shares memory with another"
            found[node] = base
        return found

    def _result(self, item: Any, on_host: list[fx.Node], shared: dict[fx.Node, fx.Node]) -> Result:
        if not isinstance(item, fx.Node):
            return Result("value", value=item)
        if item in self._place:
            return Result("argument", self._place[item])
        if not isinstance(_example(item), torch.Tensor) or self._is_view(item):
            on_host.append(item)
            return Result("host", len(on_host) - 1)
        base = shared.get(item, item)
        if base not in self.computed:
            self.computed.append(base)
        place = self.computed.index(base)
        if base is item:
            return Result("program", place)
        if place not in self.bases:
            self.bases.append(place)
        on_host.append(item)
        return Result("host", len(on_host) - 1)

    def _is_view(self, node: fx.Node) -> bool:
        """Whether a tensor has the memory of an argument."""
        memory = layouts.memory_of(_example(node))
        return memory is not None and any(
            layouts.memory_of(_example(one)) == memory for one in self._placeholders
        )

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
            if node.target in _CONTEXTS:
                known[node] = _context(graph, node, known)
                continue
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

    def fits(self, number: int, tensor: torch.Tensor) -> bool:
        """Whether a computed result has the type that torch gives it, and as many dimensions."""
        wanted = _example(self.computed[number])
        return bool(wanted.dtype == tensor.dtype and wanted.ndim == tensor.ndim)

    def changed(self, args: Sequence[Any]) -> tuple[int, ...]:
        """The arguments that the graph writes to. Raises what torch does without elements."""
        fixed = {*self.positions(Kind.NUMBER), *self.positions(Kind.SIZE)}
        tensors = [n for n in range(len(args)) if n not in fixed]
        module = self.frozen(args, (), ())
        given = self.positions(Kind.WEIGHT) if self.symbolic else tensors
        with (
            torch.inference_mode(False),
            torch.no_grad(),
            FakeTensorMode(shape_env=ShapeEnv(), static_shapes=True) as mode,
        ):
            fake = {n: mode.from_tensor(fresh(args[n])) for n in tensors}
            mode.allow_non_fake_inputs = True
            before = {n: tensor._version for n, tensor in fake.items()}
            with Indices(fake, given) as indices:
                found = module(*fake.values())
            changed = tuple(n for n, tensor in fake.items() if tensor._version != before[n])
        if any(tensor.requires_grad for tensor in found):
            self.refusal = "it enables gradients, which its results have"
        self.ranges = tuple(indices.ranges)
        return changed


def fresh(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of the same form, whose elements nobody looks at."""
    empty = torch.empty_strided(
        tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device
    )
    return empty.requires_grad_(tensor.requires_grad)


def _example(node: fx.Node) -> Any:
    return node.meta.get("example_value", node.meta.get("val"))


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


def _context(graph: fx.Graph, node: fx.Node, known: dict[fx.Node, Any]) -> Any:
    """The context that a node of Dynamo enters or leaves, as a user's `with` does.

    torch.export only notes calls of Dynamo's own functions: what is in the context, it would
    trace as if it were outside.
    """
    if _CONTEXTS[node.target] is None:
        graph.call_method("__exit__", (known[node.args[0]], None, None, None))
        return None
    context = graph.call_function(_CONTEXTS[node.target], node.args, node.kwargs)
    graph.call_method("__enter__", (context,))
    return context


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


def _are_views(node: fx.Node, base: fx.Node, alike: set[fx.Node]) -> bool:
    """Whether views of `base` alone lead to a node; nodes that share memory are `alike`."""
    if any(_writes(user) for n in alike for user in n.users):
        return False
    reached = [] if node is base else [node]
    for one in reached:
        reached += [n for n in _nearest(one, alike) if n is not base and n not in reached]
    return all(_nearest(one, alike) for one in reached)


def _nearest(node: fx.Node, alike: set[fx.Node]) -> list[fx.Node]:
    """The arguments of a node that share memory with it, also through parts of a tuple."""
    found: list[fx.Node] = []
    for one in node.all_input_nodes:
        found += [one] if one in alike else _nearest(one, alike) if _is_several(one) else []
    return found


def _is_several(node: fx.Node) -> bool:
    return isinstance(_example(node), tuple | list)


def _writes(node: fx.Node) -> bool:
    """Whether a node writes to a tensor, by its name."""
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    if name.endswith("_") and not name.endswith("__"):
        return True
    inplace = name.startswith("i") and hasattr(operator, f"__{name}__")
    return inplace or name == "setitem" or "out" in node.kwargs


def _inlined(gm: fx.GraphModule) -> fx.GraphModule:
    """The graph with those of activation checkpoints in it: without gradients, nothing is kept."""
    if not any(node.target is _CHECKPOINT for node in gm.graph.nodes):
        return gm
    graph = fx.Graph()
    graph.output(_copied(gm, "", graph, {}))
    (output,) = (node for node in gm.graph.nodes if node.op == "output")
    list(graph.nodes)[-1].meta = dict(output.meta)
    return fx.GraphModule(gm, graph)


def _copied(module: fx.GraphModule, path: str, graph: fx.Graph, known: dict[fx.Node, Any]) -> Any:
    """The results of a module, whose nodes are copied; those `known` are the arguments it has."""
    for node in module.graph.nodes:
        if node.op == "output":
            return fx.map_arg(node.args[0], known.__getitem__)
        if node in known or (node.op == "get_attr" and _are_bodies(node.users)):
            continue
        if node.target is _CHECKPOINT:
            body = getattr(module, node.args[0].target)
            inner = [n for n in body.graph.nodes if n.op == "placeholder"]
            given = fx.map_arg(node.args[1:], known.__getitem__)
            inside = dict(zip(inner, given, strict=True))
            known[node] = _copied(body, f"{path}{node.args[0].target}.", graph, inside)
        elif node.target is operator.getitem and isinstance(known[node.args[0]], tuple | list):
            known[node] = known[node.args[0]][node.args[1]]
        else:
            known[node] = graph.node_copy(node, known.__getitem__)
            if node.op in ("get_attr", "call_module"):
                known[node].target = path + node.target
    raise AssertionError("a graph has an output")


def _are_bodies(users: Iterable[fx.Node]) -> bool:
    return all(user.target is _CHECKPOINT for user in users)


def _part(
    gm: fx.GraphModule, outputs: Sequence[fx.Node], given: Sequence[fx.Node]
) -> Callable[..., Any]:
    """The part of a graph that some of its nodes need, with all arguments, then those `given`."""
    graph = fx.Graph()
    needed = set(outputs)
    for node in reversed(gm.graph.nodes):
        if node in needed and node not in given:
            needed.update(node.all_input_nodes)
    known: dict[fx.Node, fx.Node] = {}
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            known[node] = graph.node_copy(node, known.__getitem__)
    known |= {node: graph.placeholder(f"given_{node.name}") for node in given}
    for node in gm.graph.nodes:
        if node in needed and node not in known and node.op != "output":
            known[node] = graph.node_copy(node, known.__getitem__)
    graph.output(tuple(known[node] for node in outputs))
    return fx.GraphModule(gm, graph)
