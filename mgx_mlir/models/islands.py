"""The parts of a model that compile, each to one artifact, for hosts that run the other nodes.

`staged` partitions for this project's own host; here any node may stay outside, and the parts are
those of the model as the host has it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import onnx
from onnx import GraphProto, NodeProto, TensorProto, TypeProto

from mgx_mlir.artifact.record import Artifact
from mgx_mlir.compiler import CompileOptions, compile_to_bytecode, options_for
from mgx_mlir.errors import Unsupported, UnsupportedError
from mgx_mlir.importer import functions, prepare, registry, structure
from mgx_mlir.importer.loading import Source
from mgx_mlir.importer.prepare import MADE_UP
from mgx_mlir.models.host.values import is_compiled_type
from mgx_mlir.models.specialize import ANY_SIZES
from mgx_mlir.models.staged.open_types import data_decided, is_open
from mgx_mlir.models.staged.partition import Step, known_values, partition, source_of
from mgx_mlir.models.staged.stored import name_apart

_log = logging.getLogger(__name__)

# An island beside nodes of the host is worth its call, and a GPU's its copies, where it has an
# operator that computes more than it reads, or so many nodes.
LEAST_NODES = 8
_HEAVY = ("Attention", "Conv", "Einsum", "GRU", "Gemm", "LSTM", "Loop", "MatMul", "RNN", "Scan")


def _numbers(names: str) -> frozenset[int]:
    return frozenset(map(TensorProto.DataType.Value, names.split()))


# Elements of tensors that onnxruntime passes one after another to an EPContext node, by its
# definition, and to nodes that a provider claims: elements of fewer than 8 bits are packed.
CONTEXT_TYPES = _numbers(
    "BFLOAT16 BOOL DOUBLE FLOAT FLOAT16 INT16 INT32 INT64 INT8 UINT16 UINT32 UINT64 UINT8"
)
CLAIMED_TYPES = CONTEXT_TYPES | _numbers(
    "FLOAT8E4M3FN FLOAT8E4M3FNUZ FLOAT8E5M2 FLOAT8E5M2FNUZ FLOAT8E8M0"
)

# The domain that onnxruntime's execution provider writes for nodes whose values or attributes it
# cannot: sequences, strings, optional values.
OPAQUE = "mgx.opaque"


@dataclass(frozen=True)
class Island:
    """Nodes that compile together: their places in the model, and the artifact's signature."""

    nodes: tuple[int, ...]
    artifact: Artifact
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Islands:
    """A model, its parts that compile, and its other nodes with the reason.

    `types` are those of the values between them.
    """

    source: Source
    islands: tuple[Island, ...]
    outside: tuple[Unsupported, ...]
    types: Mapping[str, TypeProto]

    def __str__(self) -> str:
        count = sum(len(island.nodes) for island in self.islands)
        total, parts = count + len(self.outside), len(self.islands)
        several = "" if parts == 1 else "s"
        lines = [f"{count} of {total} nodes compile, in {parts} part{several}"]
        return "\n".join([*lines, *(f"  outside: {entry}" for entry in self.outside)])


def find_islands(
    source: Source, options: CompileOptions, kind: str = "gpu", *, whole_nodes: bool = False,
    passed: Collection[int] = CONTEXT_TYPES,
) -> Islands:  # fmt: skip
    """Compiles what compiles, as few parts as possible, for any sizes where inputs leave them open.

    `kind` is 'cpu' where the parts are for CPUs alone. `whole_nodes`: the host claims the nodes of
    the parts, each for one part, and gives a part what its nodes read, no more. Raises ModelError.
    """
    source = source.copy()
    if source.model.functions:
        source.model = functions.inline(source.model)
    structure.normalise(source.model)
    name_apart(source.model.graph, set())
    declared = {v.name: v.type for v in source.model.graph.value_info}
    prepared = source.copy()
    shapeless = [
        v.type.tensor_type
        for v in prepared.model.graph.input
        if v.type.HasField("tensor_type") and not _has_shape(v.type)
    ]
    for tensor in shapeless:  # for as long as it takes: what reads them stays outside
        tensor.shape.SetInParent()
    prepare.prepare(prepared, options.input_dims, options.dim_params, options.default_dim)
    for tensor in shapeless:
        tensor.ClearField("shape")
    name_apart(prepared.model.graph, set())
    inferred = prepare.infer(prepared.model)
    types = {
        **declared,
        **{n: t for n, t in inferred.items() if _has_shape(t) or n not in declared},
    }
    given = replace(options_for(options, "cpu" if kind == "cpu" else "gfx942"),
                    input_dims={}, dim_params={}, default_dim=None, io={})  # fmt: skip
    return _Finder(source, prepared, types, given, whole_nodes, passed).find()


@dataclass
class _Finder:
    """`source` is the model as the host has it, `prepared` as the compiler reads it."""

    source: Source
    prepared: Source
    types: Mapping[str, TypeProto]
    options: CompileOptions
    whole_nodes: bool
    passed: Collection[int]
    outside: dict[int, Unsupported] = field(default_factory=dict)
    tried: dict[tuple[tuple[int, ...], tuple[str, ...]], Artifact | UnsupportedError] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        self.graph: GraphProto = self.prepared.model.graph
        self.results = {v.name for v in self.graph.output}
        if self.whole_nodes:  # a host that claims nodes leaves none out that nothing needs
            read = {n for node in self.graph.node for n in structure.uses_of(node)} | self.results
            unread = [n for node in self.graph.node for n in node.output if n and n not in read]
            self.graph.output.extend(onnx.ValueInfoProto(name=n) for n in unread)
        self.known = known_values(self.prepared)
        self.named = {n.name: i for i, node in enumerate(self.graph.node) for n in _within(node)}
        self._place = {
            name: i for i, node in enumerate(self.source.model.graph.node) for name in node.output
        }

    def find(self) -> Islands:
        """The islands, once no node has to leave one."""
        for index, node in enumerate(self.graph.node):
            if reason := self._reason(node):
                self._leave(index, reason)
        while (found := self._attempt()) is None:
            pass
        covered = {node for island in found for node in island.nodes}
        nodes = self.source.model.graph.node
        entries = {self.graph.node[i].name: entry for i, entry in self.outside.items()}
        outside = [
            entries.get(node.name) or _entry(node, "nothing needs it")
            for i, node in enumerate(nodes)
            if i not in covered and not (node.op_type == "Constant" and not node.domain)
        ]
        return Islands(self.source, tuple(found), tuple(outside), self.types)

    def _reason(self, node: NodeProto) -> str:
        """Why a node cannot compile whatever is around it; '' for none."""
        if node.output and node.output[0] in self.known:
            return ""
        if node.domain == OPAQUE:
            return "it has values that are no tensors of numbers"
        if registry.find(node.domain, node.op_type) is None:
            return "this operator is not known"
        names = [n for n in (*sorted(structure.uses_of(node)), *node.output) if n]
        for name in names:
            if name in self.types and not is_compiled_type(self.types[name]):
                return f"'{name}' is no tensor of numbers"
        inputs = {v.name for v in self.graph.input}
        made = [n for n in names if n not in self._place and n not in self.known.keys() | inputs]
        if made or any(n and n not in self._place for n in node.output):
            return "it is written otherwise before it compiles"
        return ""

    def _leave(self, index: int, reason: str) -> None:
        self.outside.setdefault(index, _entry(self.graph.node[index], reason))

    def _attempt(self) -> list[Island] | None:
        """The islands of the nodes that are not outside; None where more have to be."""
        before = len(self.outside)
        steps = partition(self.graph, self.known, self.outside, ())
        claimed: set[int] = set()
        found = []
        for step in steps:
            if step.on_host:
                continue
            # Nodes that compute sizes may be copies of an earlier island's, or of the host's.
            nodes = tuple(i for i in step.nodes if i not in claimed and i not in self.outside)
            claimed |= {*nodes}
            outputs = self._outputs(step, nodes, steps)
            if not outputs:
                continue
            made = self._compiled(step.nodes, outputs)
            if isinstance(made, UnsupportedError):
                self._blame(step.nodes, made)
                continue
            inputs = tuple(spec.name for spec in made.plan.inputs)
            missing = {*inputs} - self._read(nodes)
            if self.whole_nodes and missing:
                reason = f"it needs the sizes of '{min(missing)}', which its nodes do not read"
                self._leave_all(nodes, reason)
            elif not self._is_worth(nodes):
                self._leave_all(nodes, "it is not worth a call")
            else:
                places = sorted(
                    {self._place[n] for i in nodes for n in self.graph.node[i].output if n}
                )
                found.append(Island(tuple(places), made, inputs, outputs))
        return found if len(self.outside) == before else None

    def _leave_all(self, nodes: Iterable[int], reason: str) -> None:
        for index in nodes:
            self._leave(index, reason)

    def _blame(self, nodes: Sequence[int], error: UnsupportedError) -> None:
        """Moves the nodes that an error names outside, all where it names none of them."""
        reasons = {entry.node: entry.reason for entry in error.entries}
        names = {n for name in error.nodes for n in (name, *name.split("+"))}
        blamed = {self.named[n] for n in names if n in self.named} & {*nodes}
        for index in sorted(blamed or nodes):
            node = self.graph.node[index]
            own = [reasons[n.name] for n in _within(node) if n.name in reasons]
            self._leave(index, own[0] if own else str(error))

    def _outputs(self, step: Step, claimed: Collection[int], steps: list[Step]) -> tuple[str, ...]:
        """The results of an island's nodes that others read.

        A host that claims nodes reckons with all others, and with no copies of them.
        """
        read = set(self.results)
        if self.whole_nodes:
            read |= self._read(i for i in range(len(self.graph.node)) if i not in claimed)
        for other in steps if not self.whole_nodes else ():
            if other is not step:
                inner = {n for i in other.nodes for n in self.graph.node[i].output}
                read |= self._read(other.nodes) - inner
        made = [n for i in claimed for n in self.graph.node[i].output if n]
        return tuple(n for n in dict.fromkeys(made) if n in read)

    def _read(self, nodes: Iterable[int]) -> set[str]:
        return {n for i in nodes for n in structure.uses_of(self.graph.node[i])}

    def _is_worth(self, nodes: Collection[int]) -> bool:
        if not self.outside or len(nodes) >= LEAST_NODES:
            return True
        inner = [n for i in nodes for n in _within(self.graph.node[i])]
        return any(word in node.op_type for node in inner for word in _HEAVY)

    def _compiled(
        self, nodes: tuple[int, ...], outputs: tuple[str, ...]
    ) -> Artifact | UnsupportedError:
        key = nodes, outputs
        if key not in self.tried:
            try:
                self.tried[key] = self._compile(nodes, outputs)
            except UnsupportedError as error:
                self.tried[key] = error
        return self.tried[key]

    def _compile(self, nodes: tuple[int, ...], outputs: tuple[str, ...]) -> Artifact:
        made = {n for i in nodes for n in self.graph.node[i].output}
        read = [n for i in nodes for n in sorted(structure.uses_of(self.graph.node[i]))]
        inputs = [n for n in dict.fromkeys(read) if n not in made and n not in self.known]
        # The order of the model's own inputs, where it has one.
        order = {v.name: i for i, v in enumerate(self.graph.input)}
        inputs.sort(key=lambda name: order.get(name, len(order)))
        for name in (*inputs, *outputs):
            self._check_boundary(nodes, name)
        source = source_of(
            self.prepared,
            [self.graph.node[i] for i in nodes],
            {n: self.types[n] for n in inputs},
            [onnx.ValueInfoProto(name=n) for n in outputs],
            self.known,
            self.source.name,
        )
        options = self.options
        if is_open(source):
            options = replace(options, mode=ANY_SIZES, dim_params=data_decided(source))
        artifact = compile_to_bytecode(source, options)
        self._check_assumed(nodes, source, artifact)
        return artifact

    def _check_assumed(self, nodes: Sequence[int], source: Source, artifact: Artifact) -> None:
        """Raises UnsupportedError where the program takes sizes of other nodes' results for equal.

        Compiled broadcasting assumes so of sizes that are not known; a run may have a 1 there.
        """
        shapes = {v.name: v.type.tensor_type.shape.dim for v in source.model.graph.input}
        names: dict[int, str] = {}
        for spec in artifact.plan.inputs:
            for axis, dim in enumerate(spec.shape):
                own = shapes[spec.name][axis].dim_param
                first = names.setdefault(dim, own) if dim < 0 else own
                if own != first and MADE_UP in (own[: len(MADE_UP)], first[: len(MADE_UP)]):
                    reason = f"dimension {axis} of '{spec.name}' may be 1 in a run, or another size"
                    read = [self.graph.node[i] for i in nodes]
                    read = [n for n in read if spec.name in structure.uses_of(n)]
                    raise UnsupportedError(reason, entries=tuple(_entry(n, reason) for n in read))

    def _check_boundary(self, nodes: Sequence[int], name: str) -> None:
        """Raises UnsupportedError for a tensor that the host has in another form, or of no rank."""
        type_ = self.types.get(name, TypeProto())
        touching = [
            self.graph.node[i]
            for i in nodes
            if name in structure.uses_of(self.graph.node[i]) or name in self.graph.node[i].output
        ]
        is_result = any(name in n.output for n in touching)
        if is_result and not type_.tensor_type.elem_type:
            return  # the compiler finds its type
        reason = ""
        if not _has_shape(type_) and not is_result:
            reason = f"the rank of '{name}' is not known before a run"
        elif type_.tensor_type.elem_type not in self.passed:
            kind = TensorProto.DataType.Name(type_.tensor_type.elem_type).lower()
            reason = f"'{name}' has elements of {kind}, which hosts pack or do not pass on"
        if reason:
            raise UnsupportedError(reason, entries=tuple(_entry(n, reason) for n in touching))


def _within(node: NodeProto) -> Iterable[NodeProto]:
    yield node
    for graph in structure.subgraphs(node):
        yield from structure.all_nodes(graph)


def _entry(node: NodeProto, reason: str) -> Unsupported:
    operator = node.op_type if node.domain == OPAQUE else structure.operator_name(node)
    return Unsupported(node.name, operator, reason)


def _has_shape(type_: TypeProto) -> bool:
    return bool(type_.HasField("tensor_type") and type_.tensor_type.HasField("shape"))
