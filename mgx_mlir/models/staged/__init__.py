"""Models that one static program cannot express.

    model = Model("model.onnx", target="cpu")
    outputs = model.run({"text": np.array(["a", "b"], object), "x": array})

A model whose values are tensors and whose sizes follow from those of its inputs is compiled
as a whole, for each combination of sizes. A model with more in it (strings, sequences, sizes
that the data decide, random numbers) is partitioned: islands of tensor computation compile,
and the host runs the nodes between them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import onnx

from mgx_mlir import loader
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.artifact.target import Target
from mgx_mlir.compiler import CompileOptions, OptionKeywords, with_keywords
from mgx_mlir.errors import Edge, UnsupportedError, UsageError
from mgx_mlir.importer import Unsupported, io_types, loading, prepare, symbols
from mgx_mlir.models.host.values import is_tensor
from mgx_mlir.models.specialize import SpecializedModel, Values
from mgx_mlir.models.staged.compilation import Compilation, StoredPrograms
from mgx_mlir.models.staged.context import Context
from mgx_mlir.models.staged.graph import StagedGraph
from mgx_mlir.models.staged.profile import step_times
from mgx_mlir.models.staged.stored import prepared, read_source
from mgx_mlir.models.staged.values import Form, check_type, conformed, form_of, taken
from mgx_mlir.runtime.runnable import Progress, check_in_parts, check_mapping, check_names, written
from mgx_mlir.runtime.step_time import StepTime
from mgx_mlir.settings import Settings
from mgx_mlir.text import name_text

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from mgx_mlir.runtime.program import Program

_log = logging.getLogger(__name__)

__all__ = ["Model"]

# The runs of a model that go on together, of those that `run_async` starts.
_THREADS = 4
# Forms of inputs whose check is remembered.
_MOST_FORMS = 4096


class Model:
    """An ONNX model that runs with inputs of any sizes. Any number of threads may run it.

    `model`, `target`, `device` and `graph` are those of `mgx_mlir.compile`; an artifact is one in
    parts. `options` holds for every program; sizes that it gives must be those of the inputs.
    `seed` is that of random operators without one of their own.

    A model of tensors whose inputs have open sizes is compiled once for any, where that is
    possible, and later for sizes that come often, in the background: `any_after`, `warm` and
    `sizes` are `any_after`, `warm` and `limit` of SpecializedModel.
    """

    @Edge("reading the model")
    def __init__(
        self,
        model: loading.AnySource | Artifact,
        target: str | Target = "cpu",
        options: CompileOptions | None = None,
        *,
        settings: Settings | None = None,
        device: int | None = None,
        graph: bool = True,
        seed: int = 0,
        any_after: int | None = 0,
        warm: int | None = 3,
        sizes: int = 16,
        **keywords: Unpack[OptionKeywords],
    ) -> None:
        """Reads the model; it compiles when sizes are known. Raises ModelError, UsageError.

        Fields of CompileOptions may be given as keywords.
        """
        names = ("target", "settings", "device", "graph", "seed", "any_after", "warm", "sizes")
        options = with_keywords(options, keywords, *names)
        stored = None
        arguments: dict[str, Any] = {"settings": settings, "device": device, "graph": graph}
        model = loader.opened(model)
        if isinstance(model, Artifact):
            if options is not None:
                raise loader.no_options(model)
            if model.parts is None:
                raise UsageError(f"{model.name} is no artifact in parts; mgx_mlir.compile runs it")
            target, artifact = loader.ready(model, target, settings=settings, device=device)
            model, options = read_source(artifact)
            stored = StoredPrograms(artifact, target, arguments)
        options = options or CompileOptions()
        source = prepare.fix_inputs(loading.load(model), options.input_values)
        self._source = io_types.change_types(source, options.io)
        self._options = replace(options, input_values={}, io={})
        self._seed = seed
        self._policy: dict[str, Any] = {"any_after": any_after, "warm": warm}
        self._compilation = Compilation(target, self._options, arguments, stored, **self._policy)
        limits: dict[str, Any] = {**self._policy, "limit": sizes}
        if not self._is_open():
            limits["any_after"] = None
        self._whole = SpecializedModel(self._source, target, self._options, **arguments, **limits)
        self._staged: StagedGraph | None = self.staged() if stored is not None else None
        self._variants: dict[frozenset[str], Model] = {}
        # Forms of inputs that are as the model declares them.
        self._declared: set[Form] = set()
        self._made: Any = (self._source if stored is None else artifact, target)
        self._limit = sizes

    def __reduce__(self) -> tuple[Any, ...]:
        """The model with its weights, or its artifact; programs are compiled where it is read."""
        named = {**self._compilation.arguments, **self._policy}
        settings = named.pop("settings")
        named |= {"seed": self._seed, "sizes": self._limit}
        named["options"] = None if self._compilation.stored else self._options
        model, target = self._made
        return loader.pickled(Model, model, target, named, settings)

    def __copy__(self) -> Model:
        """Itself: any number of threads may run it."""
        return self

    def __deepcopy__(self, memo: object) -> Model:
        return self

    def _is_open(self) -> bool:
        """Whether an input has a size that neither the model nor the options give."""
        tensors = [t.tensor_type for t in self.input_types.values() if t.HasField("tensor_type")]
        return any(not d.HasField("dim_value") for t in tensors for d in t.shape.dim)

    @property
    def compiled(self) -> int:
        """How many programs were compiled so far, for the model or for its parts."""
        return self._whole.compiled + (self._staged.compiled if self._staged is not None else 0)

    def wait(self) -> None:
        """Returns when no program is being compiled in the background."""
        self._whole.wait()
        if self._staged is not None:
            self._staged.wait()

    def __repr__(self) -> str:
        names = [", ".join(map(name_text, some)) for some in (self.inputs, self.outputs)]
        return f"Model({name_text(self._source.name)}: {' -> '.join(names)})"

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs."""
        return self._source.inputs

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs."""
        return tuple(value.name for value in self._source.model.graph.output)

    @property
    def output_types(self) -> dict[str, onnx.TypeProto]:
        """The type that the model declares for each output."""
        return {value.name: value.type for value in self._source.model.graph.output}

    @cached_property
    def input_types(self) -> dict[str, onnx.TypeProto]:
        """The type that the model declares for each input, with the sizes that options give."""
        options = self._options
        shapes = onnx.ModelProto()
        shapes.graph.input.extend(
            v for v in self._source.model.graph.input if v.name in self.inputs
        )
        given = {n: sizes for n, sizes in options.input_dims.items() if n in self.inputs}
        with suppress(UnsupportedError):  # an input without a shape
            symbols.bind(shapes, self.inputs, given, options.dim_params, options.default_dim)
        return {v.name: v.type for v in shapes.graph.input}

    def program(self, inputs: Mapping[str, Any]) -> Program | None:
        """The one program that runs inputs of these sizes; None for a model in parts."""
        values = self._taken(inputs)
        if self._compilation.stored or not all(is_tensor(value) for value in values.values()):
            return None
        try:
            return self._whole.program(values, Values.NONE)
        except UnsupportedError:
            return None

    @property
    def host_nodes(self) -> list[Unsupported]:
        """The nodes that the host runs, with the reason; known after the first run."""
        return self._staged.host_nodes if self._staged is not None else []

    @Edge("running the model")
    def run(
        self,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Any] | None = None,
        *,
        stream: Any = None,
        results: str = "numpy",
        seed: int | None = None,
    ) -> dict[str, Any]:
        """The outputs by name: arrays (strings: of objects), lists, dicts, or None.

        `outputs`, `stream` and `results` are those of `Program.run`; a model in parts, which the
        host runs a part of, has neither streams nor results on a device.
        Inputs and outputs have the forms that onnx's `numpy_helper` gives their types. `seed`
        replaces the model's. Raises what `mgx_mlir.compile` and `Program.run` raise, and
        ModelError where a node of the host gets a value that it cannot use.
        """
        form = form_of(inputs)
        values: Mapping[str, Any] = inputs
        if form is None or form not in self._declared:
            values = self._taken(inputs)
            replaced = frozenset(values) & frozenset(self._source.defaults)
            if replaced:
                return self._replacing(replaced).run(
                    values, outputs, stream=stream, results=results, seed=seed
                )
            self._check(values)
            as_given = all(value is inputs[name] for name, value in values.items())
            if form is not None and as_given and len(self._declared) < _MOST_FORMS:
                self._declared.add(form)
        if self._staged is None and all(map(is_tensor, values.values())):
            try:
                program = self._whole.program(values, Values.NONE)
            except UnsupportedError as error:
                self._staged = self.staged(values, error)
            else:
                return program.run(values, outputs, stream=stream, results=results)
        if self._staged is None:
            self._staged = self.staged(values)
        values = {n: conformed(values[n], declared) for n, declared in self.input_types.items()}
        check_in_parts(stream, results)
        found = self._staged.run(values, Context(self._seed if seed is None else seed))
        return written(dict(zip(self.outputs, found, strict=True)), outputs or {})

    def run_async(
        self,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Any] | None = None,
        *,
        stream: Any = None,
        results: str = "numpy",
        seed: int | None = None,
    ) -> Future[dict[str, Any]]:
        """As `run`, in another thread: gives a handle at once, with `result()` and `done()`.

        Inputs must not be changed before. Runs of one model go on together, at most `_THREADS`.
        `result()` raises what `run` raises.
        """
        return self._threads.submit(
            self.run, inputs, outputs, stream=stream, results=results, seed=seed
        )

    @Edge("timing the model")
    def profile(
        self,
        inputs: Mapping[str, Any],
        runs: int = 1,
        progress: Progress = lambda done, total: None,
    ) -> list[StepTime]:
        """As `Program.profile`. A model in parts has the steps of its programs, each with kernel
        numbers of its own, and the nodes that the host runs, as steps without a kernel.
        """
        program = self.program(inputs)
        if program is not None:
            return program.profile(inputs, runs, progress)
        values = self._taken(inputs)
        self._check(values)
        if self._staged is None:
            self._staged = self.staged(values)
        values = {n: conformed(values[n], declared) for n, declared in self.input_types.items()}
        return step_times(self._staged, values, Context(self._seed), runs, progress)

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(_THREADS, thread_name_prefix="mgx-model")

    def _replacing(self, names: frozenset[str]) -> Model:
        """The model that takes these inputs, which have values of their own, from the caller."""
        if names not in self._variants:
            source = self._source.without(names)
            compilation = self._compilation
            self._variants[names] = Model(
                source,
                compilation.target,
                self._options,
                seed=self._seed,
                **compilation.arguments,
                **self._policy,
            )
        return self._variants[names]

    @Edge("parting the model")
    def staged(
        self, values: Mapping[str, Any] | None = None, refused: UnsupportedError | None = None
    ) -> StagedGraph:
        """The model in parts. `values` are some or all inputs, of the declared types.

        Raises `refused`, else UnsupportedError, where there are nodes that nothing runs.
        """
        values = values or {}
        _log.info("%s runs in parts: %s", self._source.name, refused or "it has more than tensors")
        try:
            source = prepared(self._source, self._options, values, refused)
            return StagedGraph(source, prepare.infer(source.model), self._compilation)
        except UnsupportedError as error:
            raise refused or error from error

    def _taken(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The values of inputs as arrays, lists and maps. Raises UsageError."""
        check_mapping(self.inputs, inputs)
        types = self.input_types
        return {name: taken(name, value, types.get(name)) for name, value in inputs.items()}

    def _check(self, values: Mapping[str, Any]) -> None:
        """Raises UsageError where inputs are missing, unknown or not of their types."""
        check_names(self.inputs, values, of="model")
        for name, declared in self.input_types.items():
            check_type(name, values[name], declared)
