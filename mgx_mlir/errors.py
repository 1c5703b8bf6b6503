"""The exceptions of the project: what the user did, and what the compiler did wrong."""

from __future__ import annotations

import functools
import re
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar, cast

from mgx_mlir.arguments import wrong_argument
from mgx_mlir.text import name_text, printable

F = TypeVar("F", bound=Callable[..., Any])
_QUOTED = re.compile(r"(?<!\w)'[^']*'(?!\w)")


class MgxError(RuntimeError):
    """Root of every error that this package raises on purpose.

    Messages quote names of models and files: control characters and line ends in them are escaped.
    """

    def __str__(self) -> str:
        text = printable(super().__str__())
        return _QUOTED.sub(lambda found: name_text(found[0]), text) if "\n" in text else text


class UserError(MgxError):
    """Something outside the compiler has to change: the model, a file, an option."""


class ModelError(UserError):
    """The model is malformed: it does not say what to compute."""


@dataclass(frozen=True)
class Unsupported:
    """One node that cannot be imported, and why.

    `operator` is 'input', 'output' or 'initialiser' where one of these cannot be imported.
    `open`: it asks for a size or a value that only a run knows.
    """

    node: str
    operator: str
    reason: str
    open: bool = False

    @property
    def is_node(self) -> bool:
        return self.operator not in ("input", "output", "initialiser")

    def __str__(self) -> str:
        name = name_text(self.node)
        what = f"(node '{name}')" if self.is_node else f"'{name}'"
        return f"{name_text(self.operator)} {what}: {self.reason}"


class UnsupportedError(UserError):
    """The model is well-formed but holds something that is not supported.

    `nodes` lists every such node, so that one run shows them all; `entries` says why, where the
    message is not about the whole model.
    """

    def __init__(
        self,
        message: str,
        nodes: tuple[str, ...] = (),
        entries: tuple[Unsupported, ...] = (),
    ) -> None:
        super().__init__(message)
        self.nodes = nodes or tuple(entry.node for entry in entries)
        self.entries = entries


class OpenError(UnsupportedError):
    """A size or a value that only a run knows has to be known before."""


class ArtifactError(UserError):
    """An artifact is damaged, hostile, or of a version that this one cannot read."""


class TargetError(UserError):
    """A target is not known, or cannot do what was asked of it."""


class ScheduleError(UserError):
    """A schedule that was asked for is not legal for its kernel and chip, or spills registers."""


class UsageError(UserError):
    """A call or a command line is wrong: a name, a shape, a type, an option."""


class NothingToQuantizeError(UsageError):
    """Fewer bits are asked for, and the model has no product that could have them."""


class ResourceError(UserError):
    """Memory or time ran out, or a model or an artifact asks for more than there can be."""


class CompilerError(MgxError):
    """A fault of the compiler. The message names the reproducer, where one was written."""


class DeviceError(MgxError):
    """A HIP call failed, or there is no HIP to call.

    `name` is HIP's name of the error ('' where no call was made), `call` the function, and
    `kernel` the kernel, where the call was a launch.
    """

    def __init__(self, message: str, name: str = "", call: str = "", kernel: str = "") -> None:
        super().__init__(message)
        self.name = name
        self.call = call
        self.kernel = kernel


class Edge:
    """The border where other exceptions become errors of the project: a block, or a function.

    `what` names the work of the block; '' where the caller says it. The errors of this package
    pass as they are, KeyboardInterrupt too. Lack of memory is a ResourceError, a failure of the
    operating system a UserError; anything else is a CompilerError that names its origin. Arguments
    that a function does not take are its caller's: a TypeError, or a UsageError that names one.
    """

    def __init__(self, what: str) -> None:
        self._what = what

    def __call__(self, function: F) -> F:
        @functools.wraps(function)
        def inside(*arguments: Any, **named: Any) -> Any:
            try:
                return function(*arguments, **named)
            except MgxError:
                raise
            except Exception as error:
                trace = error.__traceback__
                if isinstance(error, TypeError) and trace is not None and trace.tb_next is None:
                    raise  # the call itself failed: its arguments are no parameters
                if said := wrong_argument(function, arguments, named):
                    raise UsageError(f"{self._what}: {said}") from error
                raise _of_project(self._what, error) from error

        return cast("F", inside)

    def __enter__(self) -> None:
        return

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, MgxError):
            raise _of_project(self._what, error) from error


def _of_project(what: str, error: Exception) -> MgxError:
    said = " ".join(str(error).split())[:500]
    doing = f"{what}: " if what else ""
    if isinstance(error, MemoryError):
        said = f": {said}" if said else ""
        return ResourceError(
            f"{doing}memory ran out{said}; use smaller sizes, or a machine with more memory"
        )
    if isinstance(error, OSError):
        if error.strerror and error.filename is not None:
            said = f"{error.filename}: {error.strerror}"
        return UserError(doing + said)
    if isinstance(error, ModuleNotFoundError) and str(error.name).startswith("mgx_mlir."):
        return UserError(f"{doing}mgx-mlir-runtime has no compiler; pip install mgx-mlir")
    return CompilerError(f"{doing}failed with {fault_text(error)} with the model or the artifact")


def fault_text(error: Exception) -> str:
    """An exception that nothing expects: its type, its message, its place, and who hears of it."""
    said = " ".join(str(error).split())[:500]
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {said}{where}; this is a fault of mgx-mlir: please report it"


def memory_text(size: int) -> str:
    """A number of bytes as messages show it: '4 TiB'."""
    for unit, power in (("EiB", 60), ("PiB", 50), ("TiB", 40), ("GiB", 30), ("MiB", 20)):
        if size >= 1 << power:
            return f"{size / (1 << power):.4g} {unit}"
    return f"{size} bytes"
