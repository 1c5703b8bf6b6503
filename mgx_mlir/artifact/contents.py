"""The contents of an artifact, as one value.

The host plan, each kernel in portable form, the weights or their location, and any number of code
objects beside them. `record.py` adds the file. Knows no MLIR.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.fit import check_code
from mgx_mlir.artifact.parts import Parts
from mgx_mlir.artifact.plan import Plan, Step, renumbered
from mgx_mlir.artifact.plan_binding import dim_text, signature_text, text_of
from mgx_mlir.artifact.schedule import Tuned
from mgx_mlir.artifact.signature import Signature, canonical_json
from mgx_mlir.artifact.target import Target
from mgx_mlir.artifact.weights import Weight
from mgx_mlir.errors import ArtifactError, Edge, TargetError
from mgx_mlir.text import name_text
from mgx_mlir.version import __version__

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True)
class PortableKernel:
    """One kernel as bytecode of mgx ops, for no chip.

    `name` and `nodes` say where it comes from; the bytes do not depend on them. `features`
    are those that a chip needs, by the names of `Target.features`; `dialect` is the version of the
    mgx dialect in the bytes. The bytes of a kernel `from_file` may be anything: they are read
    in a process of their own.
    """

    name: str
    bytecode: bytes = field(repr=False)
    features: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    dialect: tuple[int, int] = (0, 0)
    from_file: bool = field(default=False, compare=False)

    @cached_property
    def sha256(self) -> str:
        """The hash of the bytecode, in hexadecimal: equal kernels have equal ones."""
        return hashlib.sha256(self.bytecode).hexdigest()


@dataclass(frozen=True, repr=False)
class Contents:
    """The contents of an artifact: a compiled program.

    `kernels` are those that the plan's steps number. `code_objects` holds, by the identity
    of a target, one code object for each kernel, in the same order. `pipelines` are name and
    text of the pipelines that the program went through, `options` the compile options.
    `signatures` are as the file has them, unchecked. `schedules` are those that tuning chose, by
    the identity of a target, one a kernel, None for the best estimate.
    A program in `parts` has an empty plan: each segment has its own. `sources` are the files that
    it was compiled from, which are not overwritten.
    """

    name: str
    plan: Plan
    kernels: tuple[PortableKernel, ...]
    weights: Mapping[str, Weight]
    options: Mapping[str, Any] = field(default_factory=dict)
    pipelines: tuple[tuple[str, str], ...] = ()
    code_objects: Mapping[str, tuple[CodeObject, ...]] = field(default_factory=dict)
    producer: str = field(default_factory=lambda: f"mgx-mlir {__version__}")
    signatures: tuple[Signature, ...] = ()
    schedules: Mapping[str, tuple[Tuned | None, ...]] = field(default_factory=dict)
    parts: Parts | None = None
    sources: tuple[Path, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        for step in (step for plan in self.plans for step in plan.work()):
            if isinstance(step, Step) and step.kernel >= len(self.kernels):
                raise ArtifactError(f"the plan launches kernel {step.kernel}, which is not there")
        for buffer in (buffer for plan in self.plans for buffer in plan.buffers):
            if buffer.kind == "weight" and buffer.key not in self.weights:
                raise ArtifactError(f"the plan reads weight '{buffer.key}', which is not there")
            if buffer.kind == "weight" and buffer.bytes != self.weights[buffer.key].nbytes:
                raise ArtifactError(f"weight '{buffer.key}' is not of the size that the plan reads")
        for arch, tuned in self.schedules.items():
            if len(tuned) != len(self.kernels):
                raise ArtifactError(f"{arch} has {len(tuned)} of {len(self.kernels)} schedules")
        for name, key in self.parts.weights.items() if self.parts else ():
            if key not in self.weights:
                raise ArtifactError(f"weight '{name}' of the host is not there")
        for arch, found in self.code_objects.items():
            own = sum(code.resident is None for code in found)
            if own != len(self.kernels):
                raise ArtifactError(f"{arch} has {own} of {len(self.kernels)} code objects")

    @property
    def plans(self) -> tuple[Plan, ...]:
        """Every plan: the program's, those for some sizes, and those of segments."""
        return (*self.plan.plans, *(self.parts.plans if self.parts else ()))

    def segment(self, plan: Plan) -> Self:
        """The program of one segment alone: its plan, and the kernels and weights that it uses."""
        steps = [s for p in plan.plans for s in p.work() if isinstance(s, Step) and s.kernel >= 0]
        used = sorted({step.kernel for step in steps})
        keys = {b.key for p in plan.plans for b in p.buffers if b.kind == "weight"}
        code = {arch: tuple(found[n] for n in used) for arch, found in self.code_objects.items()}
        return replace(
            self,
            plan=renumbered(plan, {kernel: number for number, kernel in enumerate(used)}),
            kernels=tuple(self.kernels[n] for n in used),
            weights={key: weight for key, weight in self.weights.items() if key in keys},
            code_objects=code,
            schedules={arch: tuple(s[n] for n in used) for arch, s in self.schedules.items()},
            parts=None,
        )

    def check_code(self) -> None:
        """Raises ArtifactError where a plan gives a kernel less memory than its code touches."""
        segments = (
            [plan for part in self.parts.segments for plan in part.plans] if self.parts else []
        )
        for found in self.code_objects.values():
            for plan in (self.plan, *segments):
                check_code(plan, found)

    # Code objects ------------------------------------------------------------------------

    def has_code_objects(self, target: Target) -> bool:
        """Whether the program is finalized for the target."""
        return target.identity in self.code_objects

    def runs_on(self, target: Target) -> bool:
        """Whether there are code objects that the target runs: its own, or generic ones."""
        return self._identity_for(target) is not None

    def code_objects_for(self, target: Target) -> tuple[CodeObject, ...]:
        """The code objects that a target runs, by kernel: its own, else those of its generic
        processor. TargetError when it has none."""
        identity = self._identity_for(target)
        if identity is None:
            there = ", ".join(self.code_objects) or "none"
            raise TargetError(
                f"the artifact is not finalized for {target.word} (it is for: {there}); "
                "use mgx finalize"
            )
        return self.code_objects[identity]

    def _identity_for(self, target: Target) -> str | None:
        """The identity of the best code objects that the target runs."""
        there = (name for name in (target.identity, *target.generic) if name in self.code_objects)
        return next(there, None)

    def with_code_objects(self, found: Mapping[str, Sequence[CodeObject]]) -> Self:
        """The same program with code objects added: by a target's identity, one a kernel.

        Raises ArtifactError where the plan does not fit them.
        """
        added = {arch: tuple(objects) for arch, objects in found.items()}
        result = replace(self, code_objects={**self.code_objects, **added})
        result.check_code()
        return result

    # Weights -----------------------------------------------------------------------------

    @Edge("reading the weights")
    def weight_arrays(self) -> dict[str, np.ndarray]:
        """Every weight as a read-only array, by key; mapped where a file holds it.

        Raises ArtifactError where the bytes are not those that were saved.
        """
        return {key: weight.array() for key, weight in self.weights.items()}

    # Identity ----------------------------------------------------------------------------

    @property
    def dialect(self) -> tuple[int, int]:
        """The newest version of the mgx dialect among the kernels."""
        return max((kernel.dialect for kernel in self.kernels), default=(0, 0))

    @cached_property
    def content_hash(self) -> str:
        """A SHA-256 of the portable program: the same on every machine, and the same with
        code objects and without, with weights inside or beside. docs/artifact.md defines it."""
        content = {
            "dialect": list(self.dialect),
            "kernels": [kernel.sha256 for kernel in self.kernels],
            "options": dict(self.options),
            "pipelines": [list(pipeline) for pipeline in self.pipelines],
            "plan": self.plan.to_json(counts=False),
            "weights": {key: weight.sha256 for key, weight in self.weights.items()},
        }
        if self.parts is not None:
            model = hashlib.sha256(self.parts.model).hexdigest()
            content["parts"] = {**self.parts.to_json(counts=False), "model": model}
        return hashlib.sha256(canonical_json(content)).hexdigest()

    @cached_property
    def code_hashes(self) -> dict[str, str]:
        """A SHA-256 of each target's code objects and their launches, by the target's identity."""
        return {arch: code_hash(found) for arch, found in sorted(self.code_objects.items())}

    @cached_property
    def schedules_hash(self) -> str:
        """A SHA-256 of the tuned schedules; '' where there are none."""
        found = schedules_json(self.schedules)
        return hashlib.sha256(canonical_json(found)).hexdigest() if found else ""

    # For people --------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Everything but the bytes, as JSON values: the output of `mgx inspect --json`."""
        return {
            "name": self.name,
            "producer": self.producer,
            "dialect": list(self.dialect),
            "content_hash": self.content_hash,
            "code_hashes": self.code_hashes,
            "signatures": [signature.to_json() for signature in self.signatures],
            "schedules": schedules_json(self.schedules),
            "options": dict(self.options),
            "pipelines": [list(pipeline) for pipeline in self.pipelines],
            "steps": self.plan.step_count,
            "launches": {
                arch: self.plan.launches(found) for arch, found in sorted(self.code_objects.items())
            },
            "plan": self.plan.to_json(),
            **({"parts": self.parts.to_json()} if self.parts else {}),
            "kernels": [
                {
                    "name": kernel.name,
                    "bytes": len(kernel.bytecode),
                    "sha256": kernel.sha256,
                    "features": list(kernel.features),
                    "nodes": list(kernel.nodes),
                }
                for kernel in self.kernels
            ],
            "code_objects": {
                arch: [code.to_json() for code in found]
                for arch, found in sorted(self.code_objects.items())
            },
            "weights": [
                {
                    "key": key,
                    "dtype": weight.dtype.name,
                    "shape": list(weight.shape),
                    "sha256": weight.sha256,
                }
                for key, weight in self.weights.items()
            ],
        }

    def __repr__(self) -> str:
        code = ", ".join(arch.partition(":")[0] for arch in self.code_objects) or "no target"
        signature = name_text(self.parts.signature) if self.parts else signature_text(self.plan)
        return (
            f"{type(self).__name__}({name_text(self.name)}: {signature}, "
            f"{len(self.kernels)} kernels, code for {code})"
        )

    def summary(self) -> str:
        """A few lines on the contents of the artifact."""
        weights = sum(weight.nbytes for weight in self.weights.values())
        bytecode = sum(len(kernel.bytecode) for kernel in self.kernels)
        distinct = len({kernel.sha256 for kernel in self.kernels})
        features = sorted({name for kernel in self.kernels for name in kernel.features})
        arena = "by the sizes" if self.plan.dims else size_text(self.plan.arena_bytes)
        lines = [
            f"program       {name_text(self.name)}",
            f"written by    {name_text(self.producer)}, mgx dialect {version_text(self.dialect)}",
            f"content hash  {self.content_hash}",
            *(
                f"input         {name_text(s.name)}: {text_of(self.plan, s)}"
                for s in self.plan.inputs
            ),
            *(
                f"output        {name_text(s.name)}: {text_of(self.plan, s)}"
                for s in self.plan.outputs
            ),
            *(f"size          {dim_text(dim)}" for dim in self.plan.dims),
            *([f"steps         {self.plan.step_count}, arena {arena}"] if not self.parts else ()),
            *(
                f"steps         {plan.step_count}, arena {size_text(plan.arena_bytes)}, for "
                + ", ".join(f"{name} = {size}" for name, size in sizes.items())
                for sizes, plan in self.plan.programs
            ),
            *(self.parts.summary() if self.parts else ()),
            f"kernels       {len(self.kernels)} ({distinct} distinct), {size_text(bytecode)} "
            f"of bytecode, features: {' '.join(features) or 'none'}",
            f"weights       {len(self.weights)}, {size_text(weights)}",
        ]
        for arch, found in sorted(self.code_objects.items()):
            size = sum(len(data) for data in {code.data for code in found})
            functions = sum(len(code.launches) for code in found)
            launches = ", ".join(
                f"{'at most ' if p.dims else ''}{p.launches(found)}" for p in self.plans if p.steps
            )
            lines.append(
                f"code objects  {arch.partition(':')[0]}: {len(found)}, {functions} functions, "
                f"{size_text(size)}; launches of a run: {launches or 0}"
            )
            lines.append(f"code hash     {self.code_hashes[arch]}")
            if residents := [one.resident for one in found if one.resident]:
                phases = [phase for one in residents for phase in one.phases]
                lines.append(
                    f"resident      {len(residents)} kernels of {len(phases)} launches, with "
                    f"{sum(waits for _, waits in phases)} barriers"
                )
        if self.schedules:
            tuned = ", ".join(
                f"{arch.partition(':')[0]} {sum(one is not None for one in found)}"
                for arch, found in sorted(self.schedules.items())
            )
            lines.append(f"tuned for     {tuned} kernels, schedules hash {self.schedules_hash}")
        lines += [f"signed by     {signature.key}, unchecked" for signature in self.signatures]
        return "\n".join(lines)


def code_hash(code_objects: Sequence[CodeObject]) -> str:
    """A SHA-256 of one target's code objects: bytes, launches and all else that a run uses."""
    return hashlib.sha256(canonical_json([code.to_json() for code in code_objects])).hexdigest()


def schedules_json(
    schedules: Mapping[str, Sequence[Tuned | None]],
) -> dict[str, list[list[Any] | None]]:
    """The schedules as JSON values, one for each kernel; nothing where no kernel has one."""
    return {
        arch: [None if one is None else one.to_json() for one in found]
        for arch, found in sorted(schedules.items())
    }


def version_text(version: tuple[int, int]) -> str:
    """A version for people: '1.0'."""
    return f"{version[0]}.{version[1]}"


def size_text(size: int) -> str:
    """A number of bytes for people: '1.5 MB'."""
    for unit, factor in (("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size} bytes"
