"""Targets: what the finalizer needs to know of a chip, as one table of facts."""

from __future__ import annotations

from dataclasses import dataclass

from mgx_mlir.errors import TargetError


@dataclass(frozen=True)
class Target:
    """One chip.

    Sizes are in bytes. `features` are names that kernels can ask for; `matrix` names the
    family of matrix instructions, '' where there is none.
    """

    name: str
    kind: str  # "gpu" or "cpu"
    wave_size: int = 1
    lds_bytes: int = 0
    max_vgprs: int = 0
    compute_units: int = 0
    matrix: str = ""
    features: frozenset[str] = frozenset()
    cpu_features: str = ""
    vector_bytes: int = 0

    @property
    def identity(self) -> str:
        """Everything that a code object depends on, as text: part of its cache key."""
        return ":".join(filter(None, (self.name, self.cpu_features)))

    @staticmethod
    def get(name: str) -> Target:
        """The target of that name: 'cpu' or an AMD GPU such as 'gfx942'.

        Raises TargetError with the known names.
        """
        if name == "cpu":
            return Target.host_cpu()
        if name not in _GPUS:
            known = ", ".join(sorted(_GPUS))
            raise TargetError(f"unknown target '{name}'; known: cpu, {known}")
        return _GPUS[name]

    @staticmethod
    def of_device(ordinal: int = 0) -> Target:
        """The target of a device of the HIP library, by the chip that HIP names.

        Raises DeviceError where there is no such device, TargetError for an unknown chip.
        """
        from mgx_mlir.runtime.hip.device import device  # needs HIP

        return Target.get(device(ordinal).chip)

    @staticmethod
    def names() -> list[str]:
        """All target names, 'cpu' first."""
        return ["cpu", *sorted(_GPUS)]

    @staticmethod
    def host_cpu() -> Target:
        """The CPU that this process runs on, by LLVM's name and features."""
        from mgx_mlir.codegen.cpu.host import host_target  # loads LLVM

        return host_target()


def _gpu(
    name: str, wave_size: int, compute_units: int, matrix: str, features: str, lds_kib: int = 64
) -> Target:
    return Target(
        name,
        "gpu",
        wave_size,
        lds_bytes=lds_kib << 10,
        max_vgprs=512 if wave_size == 64 else 256,
        compute_units=compute_units,
        matrix=matrix,
        features=frozenset(features.split()),
    )


# Facts: LLVM's AMDGPUUsage (processors, features) and AMD's ISA documents. Compute units
# are those of the chip's largest product: MI210/MI250X die 110 of 104 enabled, MI300X 304,
# MI355X 256, RX 6900 XT 80, RX 7900 XTX 96, RX 7600 32, 8060S 40, RX 9060 XT 32, RX 9070 XT 64.
_GPUS: dict[str, Target] = {
    t.name: t
    for t in (
        _gpu("gfx908", 64, 120, "mfma", "f64 bf16"),
        _gpu("gfx90a", 64, 104, "mfma", "f64 bf16 packed-f32"),
        _gpu("gfx942", 64, 304, "mfma", "f64 bf16 packed-f32 fp8-fnuz"),
        _gpu("gfx950", 64, 256, "mfma", "f64 bf16 packed-f32 fp8-ocp mx", lds_kib=160),
        _gpu("gfx1030", 32, 80, "", "f64"),
        _gpu("gfx1100", 32, 96, "wmma", "f64 bf16"),
        _gpu("gfx1101", 32, 60, "wmma", "f64 bf16"),
        _gpu("gfx1102", 32, 32, "wmma", "f64 bf16"),
        _gpu("gfx1103", 32, 12, "wmma", "f64 bf16"),
        _gpu("gfx1150", 32, 16, "wmma", "f64 bf16"),
        _gpu("gfx1151", 32, 40, "wmma", "f64 bf16"),
        _gpu("gfx1152", 32, 8, "wmma", "f64 bf16"),
        _gpu("gfx1153", 32, 8, "wmma", "f64 bf16"),
        _gpu("gfx1200", 32, 32, "wmma", "f64 bf16 fp8-ocp"),
        _gpu("gfx1201", 32, 64, "wmma", "f64 bf16 fp8-ocp"),
    )
}
