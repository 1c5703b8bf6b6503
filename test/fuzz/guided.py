"""Fuzzes the reader of artifacts, led by coverage (atheris, which is libFuzzer for Python).

    python -m test.fuzz.guided [FOLDER] [libFuzzer's options, such as -max_total_time=3600]

Inputs that reach new code are kept in FOLDER, by default test/fuzz/corpus/artifacts, where the
tests read them. Mutations keep hashes right, as those of `python -m test.fuzz` do.
"""

from __future__ import annotations

import random
import sys
import types
from pathlib import Path

import atheris

from mgx_mlir.artifact import code_object, plan
from mgx_mlir.artifact import reader as artifact_reader
from mgx_mlir.artifact import record as artifact
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.errors import ArtifactError
from test.fuzz import mutate
from test.golden.files import ARTIFACTS

CORPUS = Path(__file__).parent / "corpus" / "artifacts"


def read(data: bytes) -> None:
    """Anything but ArtifactError ends the run, and libFuzzer keeps the input."""
    try:
        Artifact.from_bytes(data).weight_arrays()
    except ArtifactError:
        return


def changed(data: bytes, max_size: int, seed: int) -> bytes:
    """A mutation of an artifact; of a golden one where the input is none."""
    rng = random.Random(seed)
    for source in (data, rng.choice(ARTIFACTS).read_bytes()):
        try:
            return mutate.artifact(source, rng)[:max_size]
        except Exception:
            continue  # no artifact, or nested deeper than the mutations can follow
    return data


def instrument() -> None:
    """Counts the branches of the modules that read (their import hook misses ours)."""
    for module in (artifact, artifact_reader, code_object, plan):
        for name, value in list(vars(module).items()):
            if getattr(value, "__module__", None) != module.__name__:
                continue
            if isinstance(value, types.FunctionType):
                setattr(module, name, atheris.instrument_func(value))
            elif isinstance(value, type):
                for method in list(vars(value).values()):
                    if isinstance(method, types.FunctionType):
                        atheris.instrument_func(method)


def main() -> None:
    instrument()
    folders = [word for word in sys.argv[1:] if not word.startswith("-")] or [str(CORPUS)]
    options = [word for word in sys.argv[1:] if word.startswith("-")]
    Path(folders[0]).mkdir(parents=True, exist_ok=True)
    limits = ["-max_len=8192", "-timeout=10", "-rss_limit_mb=2048"]
    atheris.Setup([sys.argv[0], *limits, *options, *folders], read, custom_mutator=changed)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
