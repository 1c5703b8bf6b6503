"""Runs the attentions that take long on one chip, as `attention_run` does the others."""

from __future__ import annotations

import sys

from attention_cases import more
from attention_run import check

from mgx_mlir.artifact.target import Target

if __name__ == "__main__":
    target = Target.get(sys.argv[1])
    sys.exit(check(target, more(target), *sys.argv[2:]))
