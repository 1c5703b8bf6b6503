"""doctor: say what this machine's AMD GPUs lack, and the command that mends it.

It looks at the card, the driver, device nodes and their permissions, groups, the HIP library and
its version, the chips, variables that mislead, and copies of LLVM in one process. It ends with 1
where something is to be mended. `mgx selftest --target gpu` tries the kernels next.
"""

from __future__ import annotations

import argparse
import json

from mgx_mlir.tools import options as shared

_MARKS = {"ok": "ok   ", "note": "note ", "fault": "FAULT"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_json(parser)


def run(options: argparse.Namespace) -> int:
    from mgx_mlir.runtime.hip import probe
    from mgx_mlir.tools.doctor import diagnose
    from mgx_mlir.tools.doctor.surroundings import Surroundings
    from mgx_mlir.version import __version__

    machine, settings, hip = Surroundings(), shared.settings_of(options), probe.ask()
    findings = list(diagnose(machine, hip, settings))
    faults = [finding for finding in findings if finding.level == "fault"]
    if options.json:
        found = [finding.to_json() for finding in findings]
        print(json.dumps({"version": __version__, "findings": found, "hip": hip}, indent=2))
        return 1 if faults else 0
    for finding in findings:
        print(f"{_MARKS[finding.level]}  {finding.what}: {finding.found}")
        if finding.mend:
            print(f"       -> {finding.mend}")
    print(
        f"{len(faults)} to mend" if faults else "nothing to mend: mgx selftest --target gpu is next"
    )
    return 1 if faults else 0
