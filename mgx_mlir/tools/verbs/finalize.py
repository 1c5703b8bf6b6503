"""finalize: add code objects for chips to an artifact, or fill the cache with them."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from mgx_mlir.tools import options as shared
from mgx_mlir.tools.files import written
from mgx_mlir.tools.tuning_options import add_no_tuning_db

# The default is the artifact itself.
IN_PLACE = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("artifact", type=Path, metavar="X.mgx")
    add("--arch", required=True, metavar="A[,B]", help="targets, such as gfx942,x86-64-v3; or cpu")
    add("-o", "--output", type=written, metavar="FILE", help="default: the artifact itself")
    add_no_tuning_db(parser)
    add("--cache-only", action="store_true", help="leave the file as it is, fill the cache")


def run(options: argparse.Namespace) -> int:
    import mgx_mlir
    from mgx_mlir.artifact.contents import size_text
    from mgx_mlir.errors import UsageError, UserError
    from mgx_mlir.loader import kernel_cache
    from mgx_mlir.tools.console import note, progress
    from mgx_mlir.tools.files import chips, expect_artifact

    expect_artifact(options.artifact, options.verb)
    arch, output = chips(options.arch), options.output or options.artifact
    artifact, settings = mgx_mlir.load(options.artifact), shared.settings_of(options)
    cache = kernel_cache(settings)
    if options.cache_only:
        if cache is None:
            raise UsageError("there is no cache to fill: MGX_CACHE_DIR is 'none'")
        artifact = replace(artifact, code_objects={})  # else what it has would not be in the cache
    with progress("finalizing") as tick:
        artifact = mgx_mlir.finalize(artifact, arch, settings=settings, progress=tick, cache=cache)
    if options.cache_only and cache is not None:
        if cache.unwritten:
            raise UserError(f"the cache is not filled: {cache.unwritten}")
        note(f"{options.artifact}: kernels for {options.arch} are in the cache")
        return 0
    artifact.save(output)
    note(f"{output}: {size_text(output.stat().st_size)}\n{artifact.summary()}")
    return 0
