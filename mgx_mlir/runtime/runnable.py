"""The one interface of all that runs, whatever its sizes, its device and its parts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, runtime_checkable

import numpy as np

from mgx_mlir.errors import UsageError
from mgx_mlir.runtime.arrays import host_output
from mgx_mlir.suggest import instead, listed

RESULTS = ("numpy", "device")
Progress = Callable[[int, int], None]


class Pending(Protocol):
    """The handle of a run that was started."""

    def done(self) -> bool:
        """Whether `result` returns at once."""

    def result(self) -> dict[str, Any]:
        """Waits for the run; its outputs by name. Raises what the run raised."""


@runtime_checkable
class Runnable(Protocol):
    """What `mgx_mlir.compile` returns: any number of threads may run it."""

    @property
    def inputs(self) -> Any:
        """Name, element type and shape of each input."""

    @property
    def outputs(self) -> Any:
        """Name, element type and shape of each output."""

    def run(
        self,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Any] | None = None,
        *,
        stream: Any = None,
        results: str = "numpy",
    ) -> dict[str, Any]:
        """The outputs by name; `outputs` may name arrays or tensors to write into.

        `stream`: a HIP stream that the work follows; a CPU has none. `results`: where outputs lie
        that `outputs` does not name, 'numpy' or 'device', which on a CPU is the same.
        """

    def run_async(
        self,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Any] | None = None,
        *,
        stream: Any = None,
        results: str = "numpy",
    ) -> Pending:
        """As `run`, but gives a handle at once. Inputs and outputs must not be changed before."""

    def profile(
        self, inputs: Mapping[str, Any], runs: int = 1, progress: Progress = ...
    ) -> list[Any]:
        """The steps in order (StepTime), timed in `runs` runs after a first one."""


def check_mapping(names: Iterable[str], given: Any, what: str = "input") -> None:
    """Raises UsageError for inputs or outputs (`what`) that are not given by name."""
    if not isinstance(given, Mapping):
        raise UsageError(
            f"{what}s are given by name: {{{', '.join(f'{name!r}: ...' for name in names)}}}; "
            f"got a {type(given).__name__}"
        )


def check_names(
    names: Iterable[str],
    given: Any,
    what: str = "input",
    of: str = "program",
    complete: bool = True,
) -> None:
    """Raises UsageError where inputs or outputs (`what`) are no mapping, or unknown, or, where they
    are to be `complete`, missing."""
    check_mapping(names, given, what)
    known = dict.fromkeys(names)
    if given.keys() == known.keys():
        return
    there = f"{what}s: {listed(map(repr, known))}"
    for name in given:
        if name not in known:
            hint = instead(str(name), known, f"its {there}")
            raise UsageError(f"the {of} has no {what} '{name}'; {hint}")
    missing = [name for name in known if name not in given]
    if complete and missing:
        raise UsageError(f"{what} '{missing[0]}' is missing; the {of}'s {there}")


def check_results(results: str) -> None:
    """Raises UsageError for an unknown place of a run's outputs."""
    if results not in RESULTS:
        raise UsageError(f"results is '{results}'; use one of {', '.join(RESULTS)}")


def check_on_host(stream: Any, results: str) -> None:
    """Raises UsageError for options of a run that a CPU does not have."""
    check_results(results)
    if stream is not None:
        raise UsageError("the program runs on the CPU, which has no streams; give none")


def check_in_parts(stream: Any, results: str) -> None:
    """Raises UsageError for options of a run that a model in parts does not have."""
    if stream is not None or results != "numpy":
        raise UsageError(
            "the model runs in parts, some of them on the host: give no stream, and results='numpy'"
        )


def written(found: dict[str, Any], outputs: Mapping[str, Any]) -> dict[str, Any]:
    """The results, those that `outputs` names written there. Raises UsageError."""
    for name, target in outputs.items():
        if name not in found:
            raise UsageError(f"the model has no output '{name}'; it has {', '.join(found)}")
        array, value = host_output(target, f"output '{name}'"), found[name]
        if not isinstance(value, np.ndarray) or (value.dtype, value.shape) != (
            array.dtype, array.shape,
        ):  # fmt: skip
            raise UsageError(
                f"output '{name}' is to be written into {array.dtype.name}{list(array.shape)}, "
                "which is not of its type and shape"
            )
        array[...] = value
        found[name] = target
    return found


_threads: ThreadPoolExecutor


def _new_threads() -> None:
    global _threads
    _threads = ThreadPoolExecutor(thread_name_prefix="mgx-run")


_new_threads()
os.register_at_fork(after_in_child=_new_threads)  # which has its parent's memory, not its threads


def started(run: Callable[..., dict[str, Any]], *arguments: Any) -> Pending:
    """A run in a thread of a pool that programs on the host share."""
    return _threads.submit(run, *arguments)
