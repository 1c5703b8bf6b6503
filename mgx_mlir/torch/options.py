"""The options of `torch.compile(model, backend="mgx", options={...})`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from mgx_mlir.arguments import wrong_field
from mgx_mlir.compiler import CompileOptions
from mgx_mlir.errors import UsageError
from mgx_mlir.pipelines.modes import MODES
from mgx_mlir.settings import Settings
from mgx_mlir.suggest import instead

# torch's own words for `mode`, and ours.
_MODES = {
    "max-autotune": "max",
    "max-autotune-no-cudagraphs": "max",
    "reduce-overhead": "default",
}
_PRECISIONS = {"bf16": "bf16", "f16": "f16", "f32": "f32", "fp16": "f16", "fp32": "f32"}


@dataclass(frozen=True)
class Options:
    """How graphs of torch.compile are compiled.

    `target`: '' for that of the tensors' device, else as `mgx_mlir.compile` takes it; tensors of
    the host are copied to a GPU then. `mode`, `exact` and `disable` are those of CompileOptions.
    `precision`: 'f32', 'f16' or 'bf16', the type that f32 tensors get inside of the program.
    `cache`: the folder of compiled graphs, 'none' for none, '' for one beside the kernels' cache.
    `threads`: those of a run on the CPU, by default torch's.
    """

    target: str = ""
    mode: str = "default"
    precision: str = "f32"
    exact: bool = False
    disable: tuple[str, ...] = ()
    cache: str | os.PathLike[str] = ""
    threads: int | None = None

    def __post_init__(self) -> None:
        if said := wrong_field(self):
            raise UsageError(f"torch.compile's options: {said}")
        if self.precision not in _PRECISIONS:
            hint = instead(self.precision, _PRECISIONS, "use f32, f16 or bf16")
            raise UsageError(f"there is no precision '{self.precision}'; {hint}")
        if self.mode not in (*MODES, *_MODES):
            hint = instead(self.mode, MODES, f"there are: {', '.join(MODES)}")
            raise UsageError(f"there is no mode '{self.mode}'; {hint}")
        self.compile_options(False)

    @staticmethod
    def of(given: Mapping[str, Any] | None, mode: str | None) -> Options:
        """The options of a call of torch.compile. Raises UsageError for one that is none."""
        names = [field.name for field in fields(Options)]
        for name in given or {}:
            if name not in names:
                hint = instead(str(name), names, f"there are: {', '.join(names)}")
                raise UsageError(f"backend 'mgx' has no option '{name}'; {hint}")
        named = {"mode": mode, **(given or {})} if mode else dict(given or {})
        if not isinstance(named.get("disable", ""), str):
            named["disable"] = tuple(named["disable"])
        return Options(**named)

    def compile_options(self, symbolic: bool) -> CompileOptions:
        """The compiler's options; those of a program for any sizes where some are `symbolic`."""
        mode = "full-dynamic" if symbolic else _MODES.get(self.mode, self.mode)
        return CompileOptions(
            mode=mode,
            floats=_PRECISIONS[self.precision],
            exact=self.exact,
            disable=self.disable,
        )

    def folder(self, settings: Settings) -> Path | None:
        """The folder of compiled graphs; None for none."""
        if self.cache == "none" or (not self.cache and settings.cache_dir is None):
            return None
        if self.cache:
            return Path(self.cache).expanduser()
        return (settings.cache_dir or Path()) / "torch"

    def settings(self, threads: int) -> Settings:
        """The settings of the environment, with the threads of a run."""
        return replace(Settings.from_environment(), threads=self.threads or threads)
