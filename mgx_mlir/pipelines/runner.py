"""Passes over mgx modules, and the runner that drives them beside upstream's own.

A pass is a frozen dataclass: its class variable `name` is kebab-case, its fields are its
options, `apply` does the work. The textual form (`mgx-fuse-pointwise{max-ops=8}`) and the
fields convert both ways. Names predict files: `mgx-fuse-pointwise` is `FusePointwise` in
`passes/fuse_pointwise.py`; the registry is that rule, nothing is listed twice.
"""

from __future__ import annotations

import dataclasses
import importlib
import io
import pkgutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, get_type_hints

from mlir import ir, passmanager

from mgx_mlir.artifact.target import Target
from mgx_mlir.artifact.weights import WeightStore
from mgx_mlir.errors import CompilerError, UsageError, UserError
from mgx_mlir.sizes.types import symbols_of

PREFIX = "mgx-"
# What the driver runs after a pass that asks for clean-up.
CLEANUP = ("canonicalize", "cse")


@dataclass
class Budget:
    """Work that is left for something; None before anything asked."""

    left: int | None = None


@dataclass
class PassContext:
    """What a pass may use beside the module. `target` is None where no chip is known."""

    weights: WeightStore = field(default_factory=WeightStore)
    target: Target | None = None
    # What runs after a pass that asks for clean-up.
    cleanup: tuple[str, ...] = CLEANUP
    # Elements that constants may cost that are computed, by all passes together.
    folding: Budget = field(default_factory=Budget)
    # Rewrites that fired, as (pass, rewrite, node): what `--explain` prints.
    fired: list[tuple[str, str, str]] = field(default_factory=list)
    current: str = ""

    def note(self, rewrite: str, node: str) -> None:
        """Records that a rewrite of the running pass fired at an ONNX node."""
        self.fired.append((self.current, rewrite, node))


@dataclass(frozen=True)
class Pass(ABC):
    """A pass over a module. Subclasses are frozen dataclasses; their docstring is the help."""

    name: ClassVar[str]
    # Dead and duplicated ops that the pass leaves behind are the driver's to remove.
    cleanup: ClassVar[bool] = False
    # Whether the pass may look at `context.target`.
    knows_chip: ClassVar[bool] = False
    # Whether floats come out by another formula, and so with another rounding.
    rounds: ClassVar[bool] = False
    # Whether there is no program without it.
    required: ClassVar[bool] = False

    @abstractmethod
    def apply(self, module: ir.Module, context: PassContext) -> None:
        """Changes the module in place."""

    def __str__(self) -> str:
        """The pass in pipeline text, with the options that differ from their defaults."""
        options = [
            f"{option.name.replace('_', '-')}={option_text(getattr(self, option.name))}"
            for option in dataclasses.fields(self)
            if getattr(self, option.name) != option.default
        ]
        return self.name + (f"{{{' '.join(options)}}}" if options else "")

    @classmethod
    def from_options(cls, text: str) -> Pass:
        """The pass with the options in `text` ('max-ops=8 flag=true')."""
        types = get_type_hints(cls)
        known = {option.name: types[option.name] for option in dataclasses.fields(cls)}
        values: dict[str, Any] = {}
        for word in text.split():
            key, has_value, value = word.partition("=")
            name = key.replace("-", "_")
            if name not in known:
                allowed = ", ".join(n.replace("_", "-") for n in known) or "none"
                raise UsageError(f"{cls.name} has no option '{key}'; it has: {allowed}")
            values[name] = _option_value(cls.name, key, known[name], value if has_value else "true")
        return cls(**values)


def check_optional(name: str) -> None:
    """Raises UsageError for a name that is no pass, or one of a pass that cannot be left out."""
    if name not in CLEANUP and pass_class(name).required:
        raise UsageError(f"{name} makes the program; it cannot be left out")


# A pipeline's element: one of ours, or upstream passes in upstream's own syntax.
Step = Pass | str
Pipeline = tuple[Step, ...]


def step_name(step: Step) -> str:
    """The name of a pipeline's element, without its options."""
    return str(step).partition("{")[0]


def pass_class(name: str) -> type[Pass]:
    """The class of the pass with that name. Raises UsageError with the nearest names."""
    if name not in pass_names():
        import difflib

        near = difflib.get_close_matches(name, pass_names())
        hint = f"; did you mean {', '.join(near)}?" if near else "; see mgx-opt --list-passes"
        raise UsageError(f"there is no pass '{name}'{hint}")
    module_name = name.removeprefix(PREFIX).replace("-", "_")
    module = importlib.import_module(f"mgx_mlir.passes.{module_name}")
    class_name = "".join(word.capitalize() for word in module_name.split("_"))
    found: type[Pass] = getattr(module, class_name)
    return found


def pass_names() -> list[str]:
    """The names of all passes, sorted: one for each file of the folder."""
    import mgx_mlir.passes as package

    modules = (m.name for m in pkgutil.iter_modules(package.__path__) if m.name[0] != "_")
    return sorted(PREFIX + module.replace("_", "-") for module in modules)


def parse_pipeline(text: str) -> Pipeline:
    """A pipeline from text: `[builtin.module(]element, element...[)]`.

    Elements called `mgx-...` that are Python passes become Pass objects; any other is
    handed to upstream's parser as it stands, nested pipelines included.
    """
    text = text.strip()
    if text.startswith("builtin.module(") and text.endswith(")"):
        text = text[len("builtin.module(") : -1]
    names = set(pass_names())
    return tuple(_parse_element(element, names) for element in _split(text))


def _parse_element(element: str, names: set[str]) -> Step:
    name, brace, options = element.partition("{")
    if name not in names:
        return element
    if brace and not options.endswith("}"):
        raise UsageError(f"'{element}': the options of a pass stand in braces")
    return pass_class(name).from_options(options.removesuffix("}"))


def print_pipeline(pipeline: Iterable[Step]) -> str:
    """The pipeline as text that `parse_pipeline` reads."""
    return f"builtin.module({','.join(str(step) for step in pipeline)})"


@dataclass
class PassTimes:
    """Seconds spent in each pass, in the order they ran."""

    entries: list[tuple[str, float]] = field(default_factory=list)

    @property
    def total(self) -> float:
        return sum(seconds for _, seconds in self.entries)


def run_pipeline(
    module: ir.Module,
    pipeline: Sequence[Step],
    context: PassContext,
    *,
    times: PassTimes | None = None,
    configure: Callable[[passmanager.PassManager], None] | None = None,
    reproducer: Path | None = None,
) -> None:
    """Runs a pipeline on a module, verifying after each pass.

    `configure` gets upstream's pass manager, to switch on its printing or timing.
    Raises CompilerError naming the pass that failed, with the command that reproduces it
    where `reproducer` says which file to write; UserErrors of a pass pass through.
    """
    before = io.BytesIO()
    if reproducer is not None:
        module.operation.write_bytecode(before)
    try:
        _run(module, pipeline, context, times, configure)
    except UserError:
        raise
    except Exception as error:
        message = str(error)
        if reproducer is not None:
            _write_reproducer(reproducer, before.getvalue(), pipeline)
            message += f"\nreproduce it with: mgx-opt {reproducer} --run-reproducer"
        raise CompilerError(message) from error


def _write_reproducer(file: Path, bytecode: bytes, pipeline: Sequence[Step]) -> None:
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        text = str(ir.Module.parse(bytecode))
    file.write_text(f"// configuration: {print_pipeline(pipeline)}\n{text}")


def _run(
    module: ir.Module,
    pipeline: Sequence[Step],
    context: PassContext,
    times: PassTimes | None,
    configure: Callable[[passmanager.PassManager], None] | None,
) -> None:
    with module.context:
        manager = passmanager.PassManager("builtin.module")
        clock = _Clock(times)
        for step in _with_cleanup(pipeline, context.cleanup):
            if isinstance(step, Pass):
                manager.add(_callable(step, context, clock), type(step).__name__, step.name)
            else:
                _add_upstream(manager, step)
                if times is not None:
                    manager.add(clock.marker(step), "mgx-clock")
        if configure:
            configure(manager)
        clock.start()
        try:
            manager.run(module.operation)
        except UserError:
            raise
        except Exception as error:
            kinds = (CompilerError, ir.MLIRError)
            said = str(error) if isinstance(error, kinds) else repr(error)
            raise CompilerError(f"{clock.running()} failed: {said}") from error


def _with_cleanup(pipeline: Iterable[Step], cleanup: Iterable[str]) -> Iterator[Step]:
    """The pipeline with clean-up, once, after each pass that asks for it."""
    for step in pipeline:
        yield step
        if isinstance(step, Pass) and step.cleanup:
            yield from cleanup


def _callable(
    step: Pass, context: PassContext, clock: _Clock
) -> Callable[[ir.Operation, Any], None]:
    def run(op: ir.Operation, _: Any) -> None:
        if context.target is not None and not step.knows_chip:
            inner = dataclasses.replace(context, target=None, current=step.name)
        else:
            inner = dataclasses.replace(context, current=step.name)
        module = op.opview if isinstance(op, ir.Operation) else op
        clock.enter(str(step))
        with op.context, ir.Location.unknown(), symbols_of(_inputs(module)):
            step.apply(module, inner)
        clock.mark(str(step))

    return run


def _inputs(module: ir.Module) -> list[ir.Type]:
    """The types of what a program gets: all symbols of sizes are in them."""
    functions = [op for op in module.body.operations if op.operation.name == "func.func"]
    regions = [op.operation.regions[0] for op in functions]
    return [
        a.type
        for region in regions
        for a in (region.blocks[0].arguments if len(region.blocks) else ())
    ]


def _add_upstream(manager: passmanager.PassManager, text: str) -> None:
    try:
        manager.add(text)
    except ValueError as error:
        raise UsageError(f"'{text}' is not a pass of mgx or of MLIR: {error}") from error


class _Clock:
    """Times between marks; the marks are passes that change nothing."""

    def __init__(self, times: PassTimes | None) -> None:
        self.times = times
        self.last = ""
        self.inside = ""
        self.since = 0.0

    def start(self) -> None:
        self.since = time.perf_counter()

    def enter(self, name: str) -> None:
        self.inside = name

    def running(self) -> str:
        """What a failure is put down to: the last pass that said anything."""
        if self.inside and self.inside != self.last:
            return self.inside
        return f"the pass after {self.last}" if self.last else "the first pass"

    def mark(self, name: str) -> None:
        now = time.perf_counter()
        if self.times is not None:
            self.times.entries.append((name, now - self.since))
        self.last, self.since = name, now

    def marker(self, name: str) -> Callable[[ir.Operation, Any], None]:
        return lambda op, _: self.mark(name)


def _split(text: str) -> Iterator[str]:
    """The elements between top-level commas."""
    depth, start = 0, 0
    for position, character in enumerate(text):
        if character in "({":
            depth += 1
        elif character in ")}":
            depth -= 1
            if depth < 0:
                raise UsageError(f"pipeline '{text}': unbalanced '{character}'")
        elif character == "," and depth == 0:
            yield text[start:position].strip()
            start = position + 1
    if depth:
        raise UsageError(f"pipeline '{text}': a bracket is not closed")
    if text[start:].strip():
        yield text[start:].strip()


def option_text(value: Any) -> str:
    """An option's value as pipeline text has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(str(v) for v in value)
    return str(value)


def _option_value(owner: str, option: str, kind: Any, text: str) -> Any:
    try:
        if kind is bool:
            return {"true": True, "false": False}[text.lower()]
        if kind in (int, float, str):
            return kind(text)
        item = kind.__args__[0]
        return tuple(item(part) for part in text.split(",") if part)
    except (KeyError, ValueError) as error:
        expected = getattr(kind, "__name__", str(kind))
        message = f"{owner}: option '{option}' takes {expected}, not '{text}'"
        raise UsageError(message) from error
