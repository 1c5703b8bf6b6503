"""Programs for models whose sizes are known only when they run.

A compiled program is static. `SpecializedModel` takes a model whose inputs have symbolic
dimensions, or inputs that shapes depend on (the `shape` of a Reshape, the `axes` of a
reduction, the condition of an If), and compiles a program for each combination of sizes and
of such values that it meets:

    model = SpecializedModel("model.onnx")
    outputs = model.run({"x": array, "shape": np.array([2, -1])})

Values are built in only where the model does not compile without them: small vectors and
scalars of integers and booleans and, where these do not suffice, of floats. Only the values
that matter are built in. The programs of the last `limit` combinations are kept.

In mode full-dynamic, or after `any_after` combinations, one program serves all other sizes, where
the model has one. Sizes that it has run `warm` times get a program of their own, in the background.
Names of dimensions are no proof: sizes that contradict some have a program for any sizes that takes
these names for nothing.
"""

from __future__ import annotations

import enum
import logging
import threading
from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import lru_cache
from typing import Any

import numpy as np

from mgx_mlir.artifact.plan_binding import beyond_limits
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.artifact.target import Target
from mgx_mlir.compiler import CompileOptions, compile_to_bytecode, options_for
from mgx_mlir.errors import CompilerError, Edge, ModelError, UnsupportedError, UsageError
from mgx_mlir.importer import loading, symbols
from mgx_mlir.loader import compile, finalize, pickled, target_of
from mgx_mlir.models.background import Background
from mgx_mlir.models.handing import Handed, Places
from mgx_mlir.runtime.arrays import host_array
from mgx_mlir.runtime.program import Program
from mgx_mlir.runtime.sized import SizedProgram
from mgx_mlir.settings import Settings
from mgx_mlir.sizes.range import APART, Given, Range
from mgx_mlir.suggest import listed

_log = logging.getLogger(__name__)

# Values of more elements are data, not sizes.
MAX_VALUE_ELEMENTS = 64
# The mode whose programs are for all sizes.
ANY_SIZES = "full-dynamic"

# Programs for any sizes that differ by the branches that sizes choose.
_MOST_BRANCHES = 4

# Combinations of sizes whose runs are counted.
_MOST_COUNTED = 4096

Arrays = Mapping[str, np.ndarray]

# All models share it: beside requests runs one compile at a time.
_BACKGROUND = Background(("mgx_mlir.models.specialize", "mgx_mlir.passes.*"))


class Values(enum.IntEnum):
    """Which inputs' values may be built into a program that does not compile without them."""

    NONE = 0
    COUNTS = 1  # integers and booleans
    NUMBERS = 2  # floats too


class SpecializedModel:
    """A model, and the programs compiled from it. Any number of threads may run it.

    `model`, `target`, `device` and `graph` are those of `mgx_mlir.compile`. `options` holds
    for every program; sizes that it gives must be those of the inputs. `any_after`: how many
    combinations of sizes are compiled before one program serves all others; None: it never does.
    `warm`: after how many runs of its sizes by that program a combination is compiled in the
    background; None: none is. `limit`: for how many combinations, those of the last runs, programs
    are kept. `ranges`: the sizes that symbols may have in the program for any.
    """

    def __init__(
        self,
        model: loading.AnySource,
        target: str | Target = "cpu",
        options: CompileOptions | None = None,
        *,
        settings: Settings | None = None,
        device: int | None = None,
        graph: bool = True,
        limit: int = 16,
        any_after: int | None = None,
        warm: int | None = None,
        ranges: Mapping[str, Range] | None = None,
    ) -> None:
        self._model = loading.load(model)
        self._target = target
        self._options = options or CompileOptions()
        self._named = {"options": options, "device": device, "graph": graph, "limit": limit,
                       "any_after": any_after, "warm": warm, "ranges": ranges}  # fmt: skip
        self._given_settings = settings
        self._settings = settings or Settings.from_environment()
        self._device = device
        self._graph = graph
        self._limit = limit
        full = self._options.mode == ANY_SIZES
        self._any_after = 0 if full else any_after
        self._warm = warm
        self._ranges = ranges or {}
        # The programs for any sizes, by the names that the sizes contradict; of several, each is
        # for sizes that choose other branches.
        self._any: dict[frozenset[str], list[Program]] = {}
        self._by_branches: set[frozenset[str]] = set()
        self._warned: set[str] = set()
        self._contradicted = lru_cache(64)(self._names_contradicted)
        self._background = _BACKGROUND
        # Runs of the program for any sizes, and that program, by the key of their inputs.
        self._runs: Counter[Any] = Counter()
        self._served: dict[Any, Program] = {}
        self._compiled = 0
        self._programs: OrderedDict[Any, Program] = OrderedDict()
        # Names of the inputs whose values are built in; it only grows.
        self._fixed: tuple[str, ...] = ()
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        """The model with its weights; programs are compiled where it is read."""
        return pickled(
            SpecializedModel, self._model, self._target, self._named, self._given_settings
        )

    def __copy__(self) -> SpecializedModel:
        """Itself: any number of threads may run it."""
        return self

    def __deepcopy__(self, memo: object) -> SpecializedModel:
        return self

    @property
    def compiled(self) -> int:
        """How many programs were compiled so far: those for given sizes, and the one for any."""
        return self._compiled + sum(map(len, self._any.values()))

    def wait(self) -> None:
        """Returns when no program is being compiled in the background."""
        self._background.wait()

    @property
    def fixed(self) -> tuple[str, ...]:
        """The inputs whose values programs were compiled for, so far."""
        return self._fixed

    @Edge("running the model")
    def run(self, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """The outputs by name, as `Program.run` gives them; the first run compiles.

        Raises what `mgx_mlir.compile` and `Program.run` raise.
        """
        arrays = {name: host_array(value, f"input '{name}'") for name, value in inputs.items()}
        program = self.program(arrays)
        names = {spec.name for spec in program.inputs}
        return program.run({n: a for n, a in arrays.items() if n in names})

    def program(self, inputs: Arrays, values: Values = Values.NUMBERS) -> Program:
        """The program for inputs of these sizes and, where it depends on them, values."""
        with self._lock:
            key = self._key(inputs)
            if key not in self._programs or self._beyond(self._programs[key], inputs):
                served = self._served.get(key)
                if served is None or self._beyond(served, inputs):
                    served = self._for_any_sizes(inputs)
                if served is not None:
                    self._served[key] = served
                    self._count(key, inputs)
                    return served
                artifact = self._compile(inputs, values)
                key = self._key(inputs)  # built-in values may have become known now
                self._keep(key, self._load(artifact))
            self._programs.move_to_end(key)
            return self._programs[key]

    def _keep(self, key: Any, program: Program) -> None:
        self._programs[key] = program
        self._compiled += 1
        if len(self._programs) > self._limit:
            self._programs.popitem(last=False)

    def _count(self, key: Any, inputs: Arrays) -> None:
        """Counts a run by the program for any sizes; compiles in time for sizes that come often."""
        if len(self._runs) > _MOST_COUNTED:
            self._runs.clear()
            self._served.clear()
        self._runs[key] += 1
        if self._warm is None or self._runs[key] != self._warm or key in self._programs:
            return
        shapes = {
            name: np.broadcast_to(np.zeros((), a.dtype), a.shape) for name, a in inputs.items()
        }

        def job() -> None:
            program = self._load(self._compiled_beside(shapes), trust_code=True)
            with self._lock:
                self._keep(key, program)
                self._runs.pop(key, None)

        self._background.submit(f"compiling for {_shapes(inputs)}", job)

    def _for_any_sizes(self, inputs: Arrays) -> Program | None:
        """The one program for all sizes, where it is time for it and it takes these inputs."""
        if self._any_after is None or self._compiled < self._any_after:
            return None
        names = self._contradicted(*((n, a.shape) for n, a in inputs.items()))
        if names not in self._any and not self._fixed:
            self._any[names] = self._made_for_any(names, inputs)
        programs = self._any.get(names, [])
        for program in programs:
            if self._serves(program, inputs):
                return program
        if not programs or names not in self._by_branches or len(programs) >= _MOST_BRANCHES:
            return None
        made = self._made_for_any(names, inputs)
        programs += made
        return next((program for program in made if self._serves(program, inputs)), None)

    def _serves(self, program: Program, inputs: Arrays) -> bool:
        """Whether a program for any sizes is for inputs of these."""
        if not isinstance(program, SizedProgram):  # a branch that runs of one size alone take
            return all(inputs[s.name].shape == s.shape for s in program.inputs if s.name in inputs)
        try:
            program.program(inputs)
            said = self._beyond(program, inputs)
        except UsageError as error:
            said = str(error)
        if said:
            _log.info("the program for any sizes is not for these: %s", said)
        return not said

    def _made_for_any(self, apart: frozenset[str], inputs: Arrays) -> list[Program]:
        """A program for any sizes that takes some names of dimensions for nothing, if there is.

        Where one program cannot hold all branches that sizes choose, it is for those of the inputs.
        """
        dims: dict[str, Given] = {**self._options.dim_params, **self._ranges}
        dims |= dict.fromkeys(apart, APART)
        by_branches = apart in self._by_branches
        like = _shapes(inputs) if by_branches else {}
        options = replace(self._options, mode=ANY_SIZES, dim_params=dims, like=like)
        try:
            return [self._load(self._made(options))]
        except (UnsupportedError, ModelError, CompilerError) as error:
            fault = isinstance(error, CompilerError)
            _log.log(logging.WARNING if fault else logging.INFO, "not for any sizes: %s", error)
            entries = error.entries if isinstance(error, UnsupportedError) else ()
        if by_branches or not any(entry.operator == "If" for entry in entries):
            return []
        self._by_branches.add(apart)
        return self._made_for_any(apart, inputs)

    def _names_contradicted(self, *shapes: tuple[str, tuple[int, ...]]) -> frozenset[str]:
        """The names of the model's dimensions that inputs of these shapes contradict."""
        given = self._options.dim_params
        names = symbols.contradicted(self._model.model, dict(shapes)) - given.keys()
        if names - self._warned:
            self._warned |= names
            _log.warning(
                "inputs' dimensions called %s differ in this run: the names are taken for nothing "
                "where they do",
                listed(sorted(names)),
            )
        return frozenset(names)

    def _compiled_beside(self, inputs: Arrays) -> Artifact:
        """The artifact for inputs of these sizes, with code, made by the process in background."""
        source = loading.load(self._model)
        target = target_of(self._target, self._settings, self._device)
        options = options_for(self._static(inputs, {}), self._target)
        arrays = [w.data for w in source.weights.values() if w.data is not None]
        with Handed(arrays) as handed:
            call = handed.dumps((source, options, target, self._settings))
            made = self._background.call(_compile_beside, handed.places(), call)
            return Artifact(**handed.loads(made))

    def _load(self, artifact: Artifact, trust_code: bool = False) -> Program:
        return compile(
            artifact,
            self._target,
            settings=self._settings,
            device=self._device,
            graph=self._graph,
            trust_code=trust_code,
        )

    def _key(self, inputs: Arrays) -> Any:
        values = tuple((n, inputs[n].tobytes()) for n in self._fixed if n in inputs)
        return tuple((n, a.shape, a.dtype) for n, a in sorted(inputs.items())), values

    def _compile(self, inputs: Arrays, values: Values) -> Artifact:
        """Compiles with as few values built in as suffice. Raises the first attempt's error."""
        fixed = {n: inputs[n] for n in self._fixed if n in inputs}
        try:
            return self._artifact(inputs, fixed)
        except (UnsupportedError, ModelError) as error:
            refused = error
        for could_be_size in (_counts, _numbers)[:values]:
            more = {n: a for n, a in inputs.items() if could_be_size(a)}
            if not more.keys() - fixed.keys():
                continue
            try:
                artifact = self._artifact(inputs, more | fixed)
            except (UnsupportedError, ModelError):
                continue
            artifact, kept = self._without_needless(inputs, fixed, more, artifact)
            self._fixed = tuple(sorted(kept))
            return artifact
        raise refused

    def _without_needless(
        self, inputs: Arrays, fixed: Arrays, more: Arrays, artifact: Artifact
    ) -> tuple[Artifact, Arrays]:
        """Leaves out the values, one after another, without which the model compiles too."""
        kept = {**more, **fixed}
        if len(kept) == 1:
            return artifact, kept
        for name in sorted(more.keys() - fixed.keys()):
            fewer = {n: a for n, a in kept.items() if n != name}
            try:
                artifact = self._artifact(inputs, fewer)
            except (UnsupportedError, ModelError):
                continue
            kept = fewer
        return artifact, kept

    def _artifact(self, inputs: Arrays, fixed: Arrays) -> Artifact:
        made = self._made(self._static(inputs, fixed))
        if said := self._beyond(made, inputs):
            raise UnsupportedError(said)
        return made

    def _static(self, inputs: Arrays, fixed: Arrays) -> CompileOptions:
        """The options of a program for inputs of these sizes, and with these values."""
        dims = _shapes({n: a for n, a in inputs.items() if n not in fixed})
        _log.info("compiling for inputs %s, values of %s", dims, ", ".join(fixed) or "none")
        mode = "default" if self._options.mode == ANY_SIZES else self._options.mode
        apart = self._contradicted(*((n, a.shape) for n, a in inputs.items()))
        return replace(
            self._options,
            mode=mode,
            input_dims={**self._options.input_dims, **dims},
            dim_params={**self._options.dim_params, **dict.fromkeys(apart, APART)},
            input_values={**self._options.input_values, **fixed},
        )

    def _beyond(self, made: Artifact | Program, inputs: Arrays) -> str:
        """The input whose value is more than a program takes; "" where there is none."""
        return beyond_limits(made.plan, inputs)

    def _made(self, options: CompileOptions) -> Artifact:
        """The model compiled with these options."""
        return compile_to_bytecode(self._model, options_for(options, self._target))


def _compile_beside(places: Places, call: bytes) -> bytes:
    """Compiles in another process what `_compiled_beside` handed to it."""
    handed = Handed.mapped(*places)
    source, options, target, settings = handed.loads(call)
    artifact = compile_to_bytecode(source, options)
    made = finalize(artifact, target, settings=replace(settings, jobs=1))
    return handed.dumps({field.name: getattr(made, field.name) for field in fields(made)})


def _shapes(inputs: Arrays) -> dict[str, list[int]]:
    return {name: list(array.shape) for name, array in inputs.items()}


def _small(array: np.ndarray, kinds: str) -> bool:
    return array.ndim <= 1 and array.size <= MAX_VALUE_ELEMENTS and array.dtype.kind in kinds


def _counts(array: np.ndarray) -> bool:
    return _small(array, "iub")


def _numbers(array: np.ndarray) -> bool:
    return _small(array, "iubfV")  # V: the floats of ml_dtypes
