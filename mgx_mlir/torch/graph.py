"""A graph of Dynamo that runs: by a program of this compiler, else eagerly, saying why once.

Nothing compiles before the first call: inside of Dynamo's trace, torch's exporter would take the
trace's symbols for its own.
"""

from __future__ import annotations

import logging
import operator
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import fx
from torch._dynamo.convert_frame import compile_lock

from mgx_mlir import loader
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.compiler import CompileOptions, compile_to_bytecode, options_for
from mgx_mlir.errors import MgxError, OpenError, UsageError
from mgx_mlir.importer import loading, torch_programs
from mgx_mlir.runtime.program import Program
from mgx_mlir.torch import layouts, store
from mgx_mlir.torch.arrays import host_array, host_tensor
from mgx_mlir.torch.capture import Capture, Kind, fresh
from mgx_mlir.torch.options import Options

_log = logging.getLogger("mgx_mlir.torch")

# Programs for weights and numbers of their own that one graph has at most.
_MOST_PROGRAMS = 16


@dataclass
class Story:
    """What became of a graph: `reason` says why it runs eagerly; '' where a program runs it.

    `others`: why the last call did that the program does not take, such as of other sizes.
    """

    nodes: int
    state: str = "not called yet"
    reason: str = ""
    kernels: int = 0
    programs: int = 0
    cached: int = 0
    seconds: float = 0.0
    lines: Mapping[str, str] = field(default_factory=dict)
    others: str = ""

    def __str__(self) -> str:
        if self.reason:
            return f"{self.nodes} nodes: eager: {self.reason}"
        if not self.programs:
            return f"{self.nodes} nodes: {self.state}"
        kept = f", {self.cached} from the cache" if self.cached else ""
        many = f"{self.programs} programs" if self.programs > 1 else "a program"
        return (
            f"{self.nodes} nodes: {many} of {self.kernels} kernels for {self.state}{kept}, "
            f"{self.seconds:.1f} s"
        )


class RefusedError(Exception):
    """Why a graph runs eagerly."""


class CompiledGraph:
    """What the backend gives Dynamo for a graph. Any number of threads may call it."""

    def __init__(self, gm: fx.GraphModule, examples: Sequence[Any], options: Options) -> None:
        self._gm = gm
        self._capture = Capture(gm, examples)
        self._tensors = self._capture.positions(Kind.TENSOR)
        self._options = options
        self._runs: list[_Run] = []
        self._lock = threading.Lock()
        self.story = Story(sum(n.op.startswith("call_") for n in gm.graph.nodes))

    def __call__(self, *args: Any) -> Any:
        if self.story.reason or any(not args[n].numel() for n in self._tensors):
            # Without elements torch may raise where a program has nothing to say.
            return self._gm(*args)
        run = next((one for one in self._runs if one.fits(args)), None)
        if run is None:
            run = self._made(args)
            if run is None:
                return self._gm(*args)
        try:
            return run(args)
        except UsageError as error:
            # Sizes that were taken for given, or for equal, when the graph was compiled.
            if not self.story.others:
                self.story.others = str(error)
                _log.warning("some calls of a graph run eagerly: %s", error)
        return self._gm(*args)

    def _made(self, args: Sequence[Any]) -> _Run | None:
        with self._lock:
            run = next((one for one in self._runs if one.fits(args)), None)
            if run is not None or self.story.reason:
                return run
            started = time.perf_counter()
            try:
                if len(self._runs) == _MOST_PROGRAMS:
                    raise RefusedError(
                        f"it had other weights or numbers in each of {_MOST_PROGRAMS} calls"
                    )
                # No other thread traces meanwhile.
                with compile_lock:
                    run = self._compiled(args)
            except (MgxError, RefusedError) as error:
                self._refuse(str(error))
                return None
            self.story.seconds += time.perf_counter() - started
            self._runs.append(run)
            return run

    def _refuse(self, reason: str) -> None:
        lines = [line for name, line in self.story.lines.items() if f"'{name}'" in reason]
        reason = " ".join([reason, *(f"({line})" for line in lines[:1])])
        self.story.reason = reason
        _log.warning("a graph of %d nodes runs eagerly: %s", self.story.nodes, reason)

    def _compiled(self, args: Sequence[Any]) -> _Run:
        capture = self._capture
        if not capture.computed:
            raise RefusedError("it computes no tensor")
        _refuse_training(args)
        _refuse_complex(args)
        try:
            changed = capture.changed(args)
        except Exception as error:  # of torch, of many kinds
            raise RefusedError(f"torch cannot trace it: {torch_programs.reason(error)}") from error
        if capture.refusal:
            raise RefusedError(capture.refusal)
        if changed and capture.host is not None:
            raise RefusedError("it writes to a tensor, and gives a view of one")
        weights = tuple(n for n in capture.positions(Kind.WEIGHT) if n not in changed)
        run = _Run(capture, args, weights, changed)
        target = loader.target_of(self._target(run.tensors), self._options.settings(1))
        run.program, artifact, cached = self._program(run, args, target)
        run.check_types()
        self.story.kernels = len(artifact.kernels)
        self.story.programs += 1
        self.story.cached += cached
        sizes = "any sizes" if capture.symbolic else "given sizes"
        self.story.state = f"{target.name}, {sizes}"
        return run

    def _target(self, tensors: Sequence[torch.Tensor]) -> str:
        """The target of the options, or that of the device that all tensors lie on."""
        devices = sorted({tensor.device.type for tensor in tensors})
        if devices == ["cuda"] and torch.version.hip:
            return self._options.target or "gpu"
        if devices not in ([], ["cpu"]):
            raise RefusedError(
                f"its tensors lie on {', '.join(devices)}; it takes cpu, or ROCm's cuda"
            )
        return self._options.target or "cpu"

    def _program(
        self, run: _Run, args: Sequence[Any], target: Any
    ) -> tuple[Program, Artifact, bool]:
        """The program of a graph, its artifact, and whether that was in the cache."""
        capture, options = self._capture, self._options
        settings = options.settings(torch.get_num_threads())
        module = capture.frozen(args, run.weights, run.changed)
        arrays = {name: array for name, array in run.arrays(module).items() if array.size}
        forms = [(str(t.dtype), _form(t, capture.open_dims(n) if n in run.open else []))
                 for n, t in zip(run.inputs, run.tensors, strict=True)]  # fmt: skip
        folder = options.folder(settings)
        key = store.key_of(module, forms, arrays, options, target) if folder else ""
        artifact = store.load(folder, key, arrays) if folder and key else None
        cached = artifact is not None
        if artifact is None:
            chosen = options_for(options.compile_options(capture.symbolic), target)
            artifact = self._compiled_to_bytecode(self._source(module, run), run, chosen)
            artifact = loader.finalize(artifact, target, settings=settings)
            if folder and key:
                store.save(folder, key, artifact, arrays)
        program = loader.compile(artifact, target, settings=settings, device=run.device)
        return program, artifact, cached

    def _compiled_to_bytecode(
        self, source: loading.Source, run: _Run, options: CompileOptions
    ) -> Artifact:
        """The artifact. Where some sizes have to be equal, those that are so in this call are."""
        try:
            return compile_to_bytecode(source, options)
        except OpenError:
            equal = run.equal_sizes(source)
            if not equal:
                raise
            torch_programs.rename_dims(source.model, equal)
            return compile_to_bytecode(source, options)

    def _source(self, module: fx.GraphModule, run: _Run) -> loading.Source:
        capture = self._capture
        sizes = tuple(
            dict.fromkeys(capture.open_dims(n), torch.export.Dim.AUTO) if n in run.open else None
            for n in run.inputs
        )
        examples = tuple(fresh(tensor).detach() for tensor in run.tensors)
        with torch.inference_mode(False), torch.no_grad(), torch_programs.quiet():
            try:
                exported = torch.export.export(module, examples, dynamic_shapes=sizes, strict=False)
            except Exception as error:  # of torch, of many kinds
                said = torch_programs.reason(error)
                raise RefusedError(f"torch.export refuses it: {said}") from error
            _refuse_random(exported)
            program = torch_programs.to_onnx(exported)
        self.story.lines = torch_programs.lines_of(program.model)
        torch_programs.name_apart(program.model)
        source = loading.load(program)
        source.ranges = {}  # Dynamo's own guards say which sizes come here
        torch_programs.rename_dims(source.model, run.names_of_sizes(source))
        return source


class _Run:
    """A program of a graph, for these weights and numbers."""

    program: Program

    def __init__(
        self, capture: Capture, args: Sequence[Any], weights: tuple[int, ...],
        changed: tuple[int, ...],
    ) -> None:  # fmt: skip
        self._capture = capture
        self.weights, self.changed = weights, changed
        self._numbers = capture.positions(Kind.NUMBER)
        self._given = [(n, _plain(args[n])) for n in self._numbers]
        self._frozen = [args[n] for n in weights]
        self._ranges = capture.ranges
        self._watch = layouts.Watch(self._frozen)
        self.open = frozenset(capture.positions(Kind.TENSOR))
        fixed = {*weights, *self._numbers, *capture.positions(Kind.SIZE)}
        self.inputs = tuple(n for n in range(len(args)) if n not in fixed)
        self.tensors = [args[n] for n in self.inputs]
        on_device = [t for t in (*self.tensors, *self._frozen) if t.device.type == "cuda"]
        self.device = on_device[0].device.index if on_device else None

    def names_of_sizes(self, source: loading.Source) -> dict[str, str]:
        """Dynamo's formulas for the symbols of a model's inputs: what it found to be equal is."""
        shapes = {v.name: v.type.tensor_type.shape.dim for v in source.model.graph.input}
        found: dict[str, str] = {}
        for name, n in zip(source.inputs, self.inputs, strict=True):
            for axis in self._capture.open_dims(n) if n in self.open else ():
                found[shapes[name][axis].dim_param] = self._capture.formula(n, axis)
        return found

    def equal_sizes(self, source: loading.Source) -> dict[str, str]:
        """The symbols of a model's inputs whose sizes are those of others, at the same places.

        So have the caches of all layers one length, also where Dynamo does not look.
        """
        shapes = {v.name: v.type.tensor_type.shape.dim for v in source.model.graph.input}
        places: dict[tuple[int, int, int], str] = {}
        found: dict[str, str] = {}
        for name, tensor in zip(source.inputs, self.tensors, strict=True):
            for axis, (dim, size) in enumerate(zip(shapes[name], tensor.shape, strict=True)):
                if dim.dim_param.isidentifier():
                    first = places.setdefault((tensor.ndim, axis, size), dim.dim_param)
                    found |= {dim.dim_param: first} if first != dim.dim_param else {}
        return found

    def fits(self, args: Sequence[Any]) -> bool:
        """Whether the arguments have the weights and numbers that the program is for."""
        if not all(map(operator.is_, [args[n] for n in self.weights], self._frozen)):
            return False
        if not self._watch.holds():
            return False
        return all(_plain(args[n]) == value for n, value in self._given)

    def arrays(self, module: fx.GraphModule) -> dict[str, np.ndarray]:
        """The memory of the weights, and of other tensors of the module, by name."""
        tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        return {name: host_array(tensor.detach().cpu()) for name, tensor in tensors.items()}

    def check_types(self) -> None:
        """Raises RefusedError where torch's exporter gives a result another type."""
        for n in range(len(self._capture.computed)):
            spec = self.program.outputs[n]
            found = host_tensor(np.empty([0] * len(spec.shape), spec.dtype))
            if not self._capture.fits(n, found):
                raise RefusedError(
                    f"torch exports node '{self._capture.computed[n].name}' as "
                    f"{found.dtype}, of {found.ndim} dimensions, which it is not"
                )

    def _expect_apart(self, args: Sequence[Any]) -> None:
        """Raises UsageError where arguments share memory that the graph writes to."""
        tensors = [(n, arg) for n, arg in enumerate(args) if isinstance(arg, torch.Tensor)]
        for n in self.changed:
            if any(other != n and layouts.overlap(args[n], tensor) for other, tensor in tensors):
                raise UsageError("the graph writes to an argument that shares memory with another")

    def __call__(self, args: Sequence[Any]) -> tuple[Any, ...]:
        self._expect_apart(args)
        for one in self._ranges:
            if not one.holds(args[one.argument]):
                raise UsageError(f"an index is not from {one.least} to {one.end - 1}")
        tensors = [args[n] for n in self.inputs]
        specs = self.program.inputs
        if self.device is None:
            given = {s.name: host_array(t) for s, t in zip(specs, tensors, strict=True)}
            found = [host_tensor(a) for a in self.program.run(given).values()]
        else:
            given = {s.name: t.detach() for s, t in zip(specs, tensors, strict=True)}
            found = _on_device(self.program, given, self.device)
        count = len(self._capture.computed)
        for n, value in zip(self.changed, found[count:], strict=True):
            args[n].copy_(value)
        capture = self._capture
        found = [
            layouts.in_order(t, order) for t, order in zip(found, capture.orders, strict=False)
        ]
        bases = [found[n] for n in capture.bases]
        on_host = capture.host(*args, *bases) if capture.host is not None else ()
        kinds = {"program": found, "host": on_host, "argument": args}
        return tuple(
            result.value if result.kind == "value" else kinds[result.kind][result.index]
            for result in capture.results
        )


def _on_device(program: Any, given: Mapping[str, Any], device: int) -> list[torch.Tensor]:
    """The outputs on the device, in the order of torch's current stream there."""
    stream = torch.cuda.current_stream(device).cuda_stream
    found = program.run(given, stream=stream, results="device")
    return [torch.from_dlpack(value) for value in found.values()]


def _plain(value: Any) -> str:
    """A number of Python as text: 0.0 is not -0.0, nor 1 True, and a NaN is one."""
    return repr(value.item() if isinstance(value, torch.Tensor) else value)


def _form(tensor: torch.Tensor, sizes: Sequence[int]) -> list[int | str]:
    return ["?" if axis in sizes else size for axis, size in enumerate(tensor.shape)]


def _refuse_training(args: Sequence[Any]) -> None:
    needed = torch.is_grad_enabled() and any(
        isinstance(arg, torch.Tensor) and arg.requires_grad for arg in args
    )
    if needed:
        raise RefusedError(
            "gradients may be wanted; call it under torch.no_grad() or inference_mode()"
        )


def _refuse_complex(args: Sequence[Any]) -> None:
    if any(isinstance(arg, torch.Tensor) and arg.is_complex() for arg in args):
        raise RefusedError("an argument has complex numbers")


def _refuse_random(exported: Any) -> None:
    for node in exported.graph.nodes:
        tags = getattr(node.target, "tags", ())
        if torch.Tag.nondeterministic_seeded in tags and _draws(node):
            raise RefusedError(
                f"node '{node.name}' draws random numbers, which torch's seed decides"
            )


def _draws(node: fx.Node) -> bool:
    """Whether a node that may draw random numbers does: no share of it may be dropped."""
    named = {argument.name: argument.default_value for argument in node.target._schema.arguments}
    named |= dict(zip(named, node.args, strict=False)) | node.kwargs
    if named.get("train", named.get("training")) is False:
        return False
    shares = [named[name] for name in ("dropout", "dropout_p", "p") if name in named]
    return not shares or any(share != 0 for share in shares)
