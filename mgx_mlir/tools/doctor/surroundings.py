"""What a machine shows of its GPUs without opening one: device nodes, groups, the driver's files.

Each path and each answer of the system is a field, so that a test can be any machine.
"""

from __future__ import annotations

import grp
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mgx_mlir.settings import all_variables

AMD = 0x1002


def _groups() -> frozenset[str]:
    found = []
    for number in {os.getegid(), *os.getgroups()}:
        try:
            found.append(grp.getgrgid(number).gr_name)
        except KeyError:
            found.append(str(number))
    return frozenset(found)


def _owner(path: Path) -> str:
    number = path.stat().st_gid
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def _may_open(path: Path) -> bool:
    return os.access(path, os.R_OK | os.W_OK)


@dataclass(frozen=True)
class Surroundings:
    """`environment` are the variables; `hip` asks the HIP library (see runtime.hip.probe)."""

    environment: Mapping[str, str] = field(default_factory=all_variables)
    driver: Path = Path("/dev/kfd")
    render: Path = Path("/dev/dri")
    topology: Path = Path("/sys/class/kfd/kfd/topology/nodes")
    module: Path = Path("/sys/module/amdgpu")
    pci: Path = Path("/sys/bus/pci/devices")
    user: str = field(default_factory=lambda: all_variables().get("USER") or str(os.geteuid()))
    groups: frozenset[str] = field(default_factory=_groups)
    may_open: Callable[[Path], bool] = _may_open
    owner: Callable[[Path], str] = _owner

    def render_nodes(self) -> list[Path]:
        """The nodes that kernels and memory of GPUs go through."""
        return sorted(self.render.glob("renderD*"))

    def cards(self) -> int:
        """The display and compute cards of AMD on the bus."""
        return sum(
            _number(device / "vendor") == AMD and _number(device / "class") >> 16 in (0x03, 0x12)
            for device in self.pci.glob("*")
        )

    def chips(self) -> list[str]:
        """The chips that the driver lists, by the names of LLVM."""
        found = []
        for node in sorted(self.topology.glob("*/properties")):
            try:
                lines = dict(line.split()[:2] for line in node.read_text().splitlines() if line)
                version = int(lines.get("gfx_target_version", "0"))
            except (OSError, ValueError):
                continue
            if version:
                found.append(chip_name(version))
        return found


def chip_name(version: int) -> str:
    """The name of a chip by the driver's number: 90402 is gfx942, 110000 gfx1100."""
    major, minor, step = version // 10000, version // 100 % 100, version % 100
    return f"gfx{major}{minor:x}{step:x}"


def _number(file: Path) -> int:
    try:
        return int(file.read_text(), 16)
    except (OSError, ValueError):
        return 0
