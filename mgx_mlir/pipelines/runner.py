"""The runner of pipelines: the passes of mgx beside upstream's own."""

from __future__ import annotations

import dataclasses
import io
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from mlir import ir, passmanager

from mgx_mlir.artifact.files import write_atomically
from mgx_mlir.errors import CompilerError, UsageError, UserError, fault_text
from mgx_mlir.pipelines.registry import Step, pass_names, print_pipeline, step_name
from mgx_mlir.rewriting.pass_base import Pass, PassContext
from mgx_mlir.rewriting.symbolic import symbols_of
from mgx_mlir.suggest import instead

_log = logging.getLogger(__name__)


# Called with "Before" or "After", a step of a pipeline, and the module.
Watch = Callable[[str, Step, ir.Operation], None]


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
    watch: Watch | None = None,
    reproducer: Path | None = None,
) -> None:
    """Runs a pipeline on a module, verifying after each pass.

    `configure` gets upstream's pass manager, to switch on its printing or timing; `watch` sees the
    module before and after each step of the pipeline.
    Raises CompilerError naming the pass that failed, with the command that reproduces it
    where `reproducer` is the file to write. UserErrors of a pass are not caught.
    """
    before = io.BytesIO()
    if reproducer is not None:
        module.operation.write_bytecode(before)
    try:
        _run(module, pipeline, context, times, configure, watch)
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
    write_atomically(file, f"// configuration: {print_pipeline(pipeline)}\n{text}".encode())


def _run(
    module: ir.Module,
    pipeline: Sequence[Step],
    context: PassContext,
    times: PassTimes | None,
    configure: Callable[[passmanager.PassManager], None] | None,
    watch: Watch | None,
) -> None:
    with module.context:
        manager = passmanager.PassManager("builtin.module")
        clock = _Clock(times)
        for step in _with_cleanup(pipeline, context.cleanup):
            if watch:
                manager.add(_watcher(watch, "Before", step), "mgx-watch")
            if isinstance(step, Pass):
                manager.add(_callable(step, context, clock), type(step).__name__, step.name)
            else:
                _add_upstream(manager, step)
                if times is not None:
                    manager.add(clock.marker(step), "mgx-clock")
            if watch:
                manager.add(_watcher(watch, "After", step), "mgx-watch")
        if configure:
            configure(manager)
        clock.start()
        try:
            manager.run(module.operation)
        except UserError:
            raise
        except Exception as error:
            if isinstance(error, CompilerError | ir.MLIRError):
                raise CompilerError(f"{clock.running()} failed: {error}") from error
            said = f"{fault_text(error)} with its input"
            raise CompilerError(f"{clock.running()} failed with {said}") from error


def _watcher(watch: Watch, when: str, step: Step) -> Callable[[ir.Operation, Any], None]:
    return lambda op, _: watch(when, step, op)


def _with_cleanup(pipeline: Iterable[Step], cleanup: Iterable[str]) -> Iterator[Step]:
    """The pipeline with the clean-up inserted once after each pass that asks for it."""
    for step in pipeline:
        yield step
        if isinstance(step, Pass) and step.cleanup:
            yield from cleanup


def _callable(
    step: Pass, context: PassContext, clock: _Clock
) -> Callable[[ir.Operation, Any], None]:
    def run(op: ir.Operation | ir.OpView, _: Any) -> None:
        if context.target is not None and not step.knows_chip:
            inner = dataclasses.replace(context, target=None, current=step.name)
        else:
            inner = dataclasses.replace(context, current=step.name)
        # Passes use `body` and `operation` of a module: its op has both.
        module = cast("ir.Module", op.opview)
        clock.enter(str(step))
        with op.context, ir.Location.unknown(), symbols_of(_inputs(module)):
            step.apply(module, inner)
        clock.mark(str(step))

    return run


def _inputs(module: ir.Module) -> list[ir.Type]:
    """The types of a program's inputs, which name all symbols of sizes.

    Raises UsageError for inputs of other types than passes of mgx know.
    """
    functions = [op for op in module.body.operations if op.operation.name == "func.func"]
    regions = [op.operation.regions[0] for op in functions]
    types = [
        a.type
        for region in regions
        for a in (region.blocks[0].arguments if len(region.blocks) else ())
    ]
    for found in types:
        if not isinstance(found, ir.RankedTensorType):
            raise UsageError(f"an input is {found}; passes of mgx take ranked tensors alone")
    return types


def _add_upstream(manager: passmanager.PassManager, text: str) -> None:
    try:
        manager.add(text)
    except ValueError as error:
        first = str(error).partition("\n")[0]
        hint = instead(step_name(text), pass_names(), first)
        raise UsageError(f"'{text}' is not a pass of mgx or of MLIR; {hint}") from error


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
        """The name of the pass that a failure is blamed on: the last that reported anything."""
        if self.inside and self.inside != self.last:
            return self.inside
        return f"the pass after {self.last}" if self.last else "the first pass"

    def mark(self, name: str) -> None:
        now = time.perf_counter()
        if self.times is not None:
            self.times.entries.append((name, now - self.since))
        _log.debug("%s: %.1f ms", name, (now - self.since) * 1e3)
        self.last, self.since = name, now

    def marker(self, name: str) -> Callable[[ir.Operation, Any], None]:
        return lambda op, _: self.mark(name)
