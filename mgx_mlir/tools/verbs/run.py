"""run: run a model or an artifact once and show what comes out.

Inputs are read from .npy files, or are random with a fixed seed.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from mgx_mlir.text import name_text
from mgx_mlir.tools import options as shared
from mgx_mlir.tools import quantizing, saving
from mgx_mlir.tools.tuning_options import add_tuning_options

# The characters that are printed of a longer map.
_SHOWN = 400


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_model(parser, "an .onnx model, or a .mgx artifact")
    shared.add_shape_options(parser)
    add = parser.add_argument
    shared.add_target_options(parser, "where to run")
    shared.add_trust_option(parser)
    shared.add_input_options(parser)
    add(
        "--output",
        type=Path,
        metavar="DIR",
        help="write each output to DIR/NAME.npy, maps to DIR/NAME.json",
    )
    shared.add_json(parser)
    add_tuning_options(parser)
    saving.add_save(parser, "the compiled program")
    shared.add_change_options(parser)
    shared.add_compile_options(parser)
    quantizing.add_options(parser)


def outputs(options: argparse.Namespace) -> list[tuple[str, Path]]:
    """The files of `--output` that would be written again."""
    folder = options.output
    if folder is None or not folder.is_dir():
        return []
    from mgx_mlir.tools.programs import output_names

    names = "|".join(re.escape(_file_name(name)) for name in output_names(options))
    # Those of a sequence and a map have a number or a key behind the name.
    again = re.compile(rf"({names})(_.*_)?(-\d+)?\.(npy|json)")
    return [("--output", file) for file in folder.iterdir() if again.fullmatch(file.name)]


def run(options: argparse.Namespace) -> int:
    from mgx_mlir.artifact.files import atomic_file, write_atomically
    from mgx_mlir.errors import UsageError
    from mgx_mlir.tools.console import array_record, describe_array, progress
    from mgx_mlir.tools.programs import (
        flat_arrays,
        holds_maps,
        inputs_of,
        note_host_nodes,
        plain,
        runnable_of,
    )

    if options.output is not None and options.output.exists() and not options.output.is_dir():
        raise UsageError(f"--output {options.output} is a file; name a folder")
    with progress("compiling") as tick:
        runnable = runnable_of(options, tick)
    inputs = inputs_of(runnable, options)
    outputs = runnable.run(inputs)
    note_host_nodes(runnable)
    if options.output is not None:
        options.output.mkdir(parents=True, exist_ok=True)
    records: dict[str, dict[str, Any]] = {}
    taken: set[Path] = set()
    maps = {name: value for name, value in outputs.items() if holds_maps(value)}
    for name, value in maps.items():
        text = json.dumps(plain(value), ensure_ascii=False)
        records[name] = {"value": plain(value)}
        if not options.json:
            print(f"{name_text(name)}: {text if len(text) <= _SHOWN else text[:_SHOWN] + ' ...'}")
        if options.output is not None:
            file = _free(options.output, name, ".json", taken)
            write_atomically(file, f"{text}\n".encode())
            _note_file(file, records[name], options)
    arrays = flat_arrays({n: v for n, v in outputs.items() if n not in maps})
    for name, array in arrays.items():
        records[name] = array_record(array)
        if not options.json:
            print(describe_array(name, array))
        if options.output is not None:
            file = _free(options.output, name, ".npy", taken)
            with atomic_file(file) as stream:
                np.save(stream, array)
            _note_file(file, records[name], options)
    if options.json:
        print(json.dumps({"model": str(options.model), "outputs": records}, indent=2))
    return 0


def _note_file(file: Path, record: dict[str, Any], options: argparse.Namespace) -> None:
    record["file"] = str(file)
    if not options.json:
        print(f"  written to {file}")


def _free(folder: Path, name: str, suffix: str, taken: set[Path]) -> Path:
    """The file of an output, which no other output has: 'a/b' and 'a:b' are alike."""
    numbers = ("", *(f"-{number}" for number in range(2, len(taken) + 3)))
    files = (folder / f"{_file_name(name)}{number}{suffix}" for number in numbers)
    file = next(file for file in files if file not in taken)
    taken.add(file)
    return file


def _file_name(name: str) -> str:
    """An output's name as a file name inside the folder: ONNX names may hold anything."""
    made = "".join(c if c.isalnum() or c in "._-" else "_" for c in name).lstrip(".")
    return made.encode()[:200].decode(errors="ignore") or "output"
