"""Compares the code of all kernels with the table, or writes the table anew.

    python -m test.ratchet [--only TEXT] [--clocks]     what differs, and by how much; 1 if any does
    python -m test.ratchet --update [--clocks]          writes kernels.tsv: review it as a diff

A row: the SHA-256 of a kernel's code object for a chip, how many functions it launches, its
instructions, and of its functions the most vector registers, LDS bytes and spilled registers.
The row `*` of a program has the hash of its portable form. `--clocks` executes the first
work-groups on the emulated device and adds the profile model's clocks; without it a row keeps
the clocks of code that is the same. Hashes are those of one version of LLVM, which the table
names.
"""

from __future__ import annotations

import argparse
import math
import sys

from mgx_mlir.finalizer.build import llvm_version
from test.ratchet.programs import programs
from test.ratchet.table import TABLE, Key, Row, read, rows_of, write


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m test.ratchet", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="programs whose name holds it")
    parser.add_argument("--clocks", action="store_true", help="price changed kernels too")
    parser.add_argument("--update", action="store_true", help="write the table")
    options = parser.parse_args()
    version, known = read()
    if version != llvm_version():
        print(f"the table is of LLVM {version}, this is {llvm_version()}: hashes will differ")
    found: dict[Key, Row] = {}
    for name, source in programs().items():
        if options.only in name:
            print(name, file=sys.stderr, flush=True)
            found |= rows_of(name, source, known, options.clocks)
    compared = {key: row for key, row in known.items() if options.only in key.program}
    changed = report(compared, found)
    if options.update:
        write({**{k: r for k, r in known.items() if k not in compared}, **found})
        print(f"wrote {TABLE.name}: {len(found)} rows")
        return 0
    return 1 if changed else 0


def report(known: dict[Key, Row], found: dict[Key, Row]) -> int:
    """Prints each row that differs and the mean of the ratios; returns how many do."""
    changed = 0
    ratios: list[float] = []
    for key in sorted({*known, *found}):
        before, after = known.get(key), found.get(key)
        if before is not None and after is not None:
            if before.clocks and after.clocks:
                ratios.append(after.clocks / before.clocks)
            if before.code == after.code:
                continue
        changed += 1
        print(f"{key}\n    was {before or 'not there'}\n    is  {after or 'not there'}")
    mean = f"{math.exp(sum(map(math.log, ratios)) / len(ratios)):.4f}" if ratios else "not known"
    print(f"{len(found)} rows, {changed} changed; geometric mean of the clocks: {mean}")
    return changed


if __name__ == "__main__":
    sys.exit(main())
