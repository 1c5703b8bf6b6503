"""Command-line options that several verbs share, in the forms of MIGraphX's driver."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mgx_mlir.array_files import read_array
from mgx_mlir.artifact.element_types import numpy_dtype
from mgx_mlir.artifact.plan import MAX_LOOP_ITERATIONS, TensorSpec
from mgx_mlir.artifact.target import Target
from mgx_mlir.artifact.writer import is_artifact
from mgx_mlir.errors import UsageError
from mgx_mlir.pipelines.modes import MODES
from mgx_mlir.settings import Settings
from mgx_mlir.sizes.range import APART, Given, Range
from mgx_mlir.suggest import instead, listed
from mgx_mlir.tools.numbers import whole

if TYPE_CHECKING:
    from mgx_mlir.compiler import CompileOptions


# The options that fill inputs with zeros and with ones.
_FILLS = ("--fill0", "--fill1")


def add_model(parser: argparse.ArgumentParser, what: str) -> None:
    """The file that a verb takes."""
    parser.add_argument("model", metavar="MODEL", type=Path, help=what)


def expect_model(arguments: argparse.Namespace, taker: str) -> None:
    """Raises UsageError where the file is an artifact; `taker` says which verb takes it."""
    if is_artifact(arguments.model):
        raise UsageError(
            f"{arguments.model} is an artifact; mgx {arguments.verb} takes the .onnx model, and "
            f"mgx {taker.format(arguments.model)}"
        )


def expect_no_compile_options(arguments: argparse.Namespace) -> None:
    """Raises UsageError for options that say how to compile: an artifact is compiled."""
    given = {
        "--mode": arguments.mode != "default",
        "--disable-pass": arguments.disable_pass,
        "--exact": arguments.exact,
        "--fp16 and --bf16": arguments.floats != "f32",
        "--int8, --fp8 and --int4-weights": getattr(arguments, "products", "")
        or getattr(arguments, "few_bits", ""),
        "--io": arguments.io,
        "--max-loop-iterations": arguments.max_loop_iterations != MAX_LOOP_ITERATIONS,
        "--timing": arguments.timing,
        "--explain": arguments.explain,
        "--input-dim": arguments.input_dim,
        "--dyn-input-dim": arguments.dyn_input_dim,
        "--batch": arguments.batch,
        "--default-dyn-dim": arguments.default_dyn_dim,
        "--output-names": arguments.output_names,
        "--skip-unknown-operators": arguments.skip_unknown_operators,
        "--trim": arguments.trim,
        "--trim-size": arguments.trim_size,
        "--apply-pass": getattr(arguments, "apply_pass", []),
        "--replace-literals": getattr(arguments, "replace_literals", False),
    }
    named = ", ".join(name for name, value in given.items() if value)
    if named:
        raise UsageError(
            f"{named}: {arguments.model} is compiled already; give the .onnx model, or "
            "`mgx inspect` shows the options of the artifact"
        )


def add_shape_options(parser: argparse.ArgumentParser) -> None:
    """The sizes of the model's inputs."""
    add = parser.add_argument
    add(
        "--input-dim",
        action="append",
        type=str.split,
        default=[],
        metavar="@NAME D D D",
        help="the shape of an input, such as --input-dim @x 1 3 224 224",
    )
    add(
        "--dim-param",
        action="append",
        nargs=2,
        default=[],
        metavar=("@SYMBOL", "N"),
        help="the size of a symbolic dimension, such as --dim-param @batch 4, or its least and "
        "greatest size, and sizes for programs of their own: --dim-param @batch '{1,64,{1,8}}'; "
        "'?' where dimensions of that name may have different sizes",
    )
    add(
        "--dyn-input-dim",
        action="append",
        nargs=2,
        default=[],
        metavar=("@NAME", "DIMS"),
        help="the shape of an input with ranges: --dyn-input-dim @x '[{1,64,{1,8}},3,224,224]'",
    )
    add(
        "--batch",
        type=whole(1),
        metavar="N",
        help="the size of all dimensions not given otherwise; where the model fixes all, of the "
        "first dimension of its inputs",
    )
    add(
        "--default-dyn-dim",
        metavar="{A,B}",
        help="the range of all dimensions not given otherwise: --default-dyn-dim '{1,64,{1,8}}'",
    )
    add(
        "--output-names",
        action="append",
        default=[],
        metavar="NAME",
        help="a result of a node that is to be an output, in place of the model's; repeatable",
    )
    add("--trim", type=whole(0), default=0, metavar="N", help="leave out the last N nodes")
    add(
        "--trim-size",
        type=whole(0),
        default=0,
        metavar="N",
        help="keep N nodes alone, the last ones that --trim leaves; what they read becomes inputs",
    )
    add(
        "--skip-unknown-operators",
        action="store_true",
        help="leave out nodes whose operators are not known; their results are inputs then",
    )


def add_change_options(parser: argparse.ArgumentParser) -> None:
    """Changes of the imported program."""
    add = parser.add_argument
    add(
        "--apply-pass",
        action="append",
        default=[],
        metavar="NAME",
        help="run a pass, or a named pipeline, on the imported program first; repeatable",
    )
    add(
        "--replace-literals",
        action="store_true",
        help="make inputs of the weights and the other constants of several elements",
    )


def add_target_options(parser: argparse.ArgumentParser, what: str) -> None:
    """Where a program runs; `what` names the work done there."""
    add = parser.add_argument
    add(
        "--target",
        metavar="T",
        help=f"{what}: cpu (default: this machine), a level such "
        "as x86-64-v3, a chip such as gfx942, or gpu",
    )
    add(
        "--arch",
        metavar="A",
        help="the chip of --target gpu (default: that of the device), or the level of --target cpu",
    )
    add(
        "--device",
        type=whole(0),
        metavar="N",
        help="the GPU's number (default: the first that fits)",
    )
    add("--no-graph", action="store_true", help="launch kernels one by one, not as a HIP graph")


def add_trust_option(parser: argparse.ArgumentParser) -> None:
    """Adds the option that consents to the machine code of a file."""
    parser.add_argument(
        "--trust-code",
        action="store_true",
        help="take machine code of the file as it is, whoever made it (docs/trust.md)",
    )


def settings_of(arguments: argparse.Namespace) -> Settings:
    """The settings of the environment, with the consent that the command line gives."""
    settings = Settings.from_environment()
    if getattr(arguments, "trust_code", False):
        settings = replace(settings, trust_code=True)
    if getattr(arguments, "no_tuning_db", False):
        settings = replace(settings, tuning=False)
    return settings


def add_json(parser: argparse.ArgumentParser) -> None:
    """The result for programs."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def target_of(arguments: argparse.Namespace) -> str:
    """The target that `--target` and `--arch` name. Raises UsageError where they are two."""
    target, arch = arguments.target, arguments.arch
    family = "cpu" if arch and Target.get(arch).kind == "cpu" else "gpu"
    if arch and target not in (None, family, arch):
        raise UsageError(f"--arch {arch} names another target than --target {target}; give one")
    return str(arch or target or "cpu")


def add_compile_options(parser: argparse.ArgumentParser) -> None:
    """How to compile, and the reports to print."""
    add_pipeline_options(parser)
    add = parser.add_argument
    add("--timing", action="store_true", help="print the time of each stage, pass and kernel")
    add("--explain", action="store_true", help="list which rewrites fired where")


def add_pipeline_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of compiling: the mode, passes to leave out, types of floats."""
    add = parser.add_argument
    modes = "; ".join(f"{name}: {mode.summary}" for name, mode in MODES.items())
    add("--mode", default="default", choices=list(MODES), help=f"which pipelines run: {modes}")
    add(
        "--disable-pass",
        action="append",
        default=[],
        metavar="NAME",
        help="leave a pass out (mgx-opt --list-passes names them)",
    )
    floats = parser.add_mutually_exclusive_group()
    for flag, name in (("--fp16", "f16"), ("--bf16", "bf16")):
        floats.add_argument(
            flag,
            dest="floats",
            action="store_const",
            const=name,
            default="f32",
            help=f"compute in {name} where range and precision allow it",
        )
    add(
        "--keep-f32",
        action="append",
        default=[],
        metavar="PATTERN",
        help="nodes that stay in f32 with --fp16 and --bf16, such as --keep-f32 '/head/*'",
    )
    add(
        "--io",
        action="append",
        default=[],
        type=_io_type,
        metavar="[NAME=]TYPE",
        help="give inputs and outputs of floats another type: --io f16, --io 'past.*=f16', "
        "--io pixels=u8; repeatable, and the first that names a tensor counts (default: the "
        "model's types)",
    )
    add(
        "--exact",
        action="store_true",
        help="leave out what computes floats by another formula than the model's",
    )
    add(
        "--persistent",
        action="store_true",
        help="GPUs: one launch for many kernels, whose work-groups stay and wait for each other, "
        "where sizes are given",
    )
    add(
        "--max-loop-iterations",
        type=whole(1),
        default=MAX_LOOP_ITERATIONS,
        metavar="N",
        help="a loop that states no number of trips fails after N (default %(default)s)",
    )


def compile_options(arguments: argparse.Namespace) -> CompileOptions:
    """The options that the command line gives. Raises UsageError."""
    from mgx_mlir.compiler import CompileOptions  # loads MLIR

    return CompileOptions(
        mode=getattr(arguments, "mode", "default"),
        input_dims={
            **{_name(name): _sizes(name, dims) for name, *dims in arguments.input_dim},
            **{_name(name): _dims(name, dims) for name, dims in arguments.dyn_input_dim},
        },
        dim_params={_name(name): _dim(name, size) for name, size in arguments.dim_param},
        default_dim=_default_dim(arguments),
        floats=getattr(arguments, "floats", "f32"),
        keep=tuple(getattr(arguments, "keep_f32", ())),
        io=dict(getattr(arguments, "io", ())),
        disable=tuple(getattr(arguments, "disable_pass", ())),
        exact=getattr(arguments, "exact", False),
        persistent=getattr(arguments, "persistent", False),
        max_loop_iterations=getattr(arguments, "max_loop_iterations", MAX_LOOP_ITERATIONS),
    )


def _default_dim(arguments: argparse.Namespace) -> int | Range | None:
    batch: int | None = arguments.batch
    if arguments.default_dyn_dim is None:
        return batch
    if batch is not None:
        raise UsageError("--batch and --default-dyn-dim both size what is not given; give one")
    (dim,) = _dims("--default-dyn-dim", f"[{arguments.default_dyn_dim}]")[:1]
    return dim


def sizes(arguments: argparse.Namespace) -> dict[str, int]:
    """The sizes that the command line gives symbols."""
    found = compile_options(arguments).dim_params
    return {name: size for name, size in found.items() if isinstance(size, int)}


def read_inputs(specs: Sequence[TensorSpec], given: argparse.Namespace) -> dict[str, np.ndarray]:
    """The inputs of a run: files, zeros, ones, or random values, as the command line says.

    Floats are normal, integers 0 to 9 (token ids and indices stay small), bools even odds.
    """
    names = [spec.name for spec in specs]
    files = input_files(given, names)
    filled = _filled(given, names)
    generator = np.random.default_rng(given.seed)
    arrays = {}
    for spec in specs:
        if spec.name in files:
            arrays[spec.name] = read_array(files[spec.name])
        elif spec.name in filled:
            arrays[spec.name] = np.full(spec.shape, filled[spec.name], numpy_dtype(spec.dtype))
        else:
            arrays[spec.name] = random_array(spec, generator)
    return arrays


def _filled(given: argparse.Namespace, names: Sequence[str]) -> dict[str, int]:
    """The numbers that `--fill0` and `--fill1` give, by the input's name. Raises UsageError."""
    filled: dict[str, int] = {}
    for number, asked in enumerate((given.fill0, given.fill1)):
        for name in map(_name, asked):
            if name not in names:
                hint = instead(name, names, f"the model's inputs are {listed(names)}")
                raise UsageError(f"{_FILLS[number]} {name}: no input has this name; {hint}")
            if filled.setdefault(name, number) != number:
                raise UsageError(f"--fill0 and --fill1 both name {name}")
    return filled


def input_files(given: argparse.Namespace, names: Sequence[str]) -> dict[str, Path]:
    """The files that `--input` and `--load-arg` give, by name. Raises UsageError."""
    files: dict[str, Path] = {}
    for text in [*given.input, *(f"{_name(name)}={file}" for name, file in given.load_arg)]:
        # Names may hold an equals sign; files seldom do.
        found = [name for name in names if text.startswith(f"{name}=")]
        name = max(found, key=len, default=text.partition("=")[0])
        if text == name or "=" not in text:
            raise UsageError(f"--input {text}: use name=file.npy")
        if not found:
            hint = instead(name, names, f"the model's inputs are {listed(names)}")
            raise UsageError(f"--input {name}: no input has this name; {hint}")
        if name in files:
            raise UsageError(f"--input {name} is given twice")
        files[name] = Path(text[len(name) + 1 :])
    return files


def add_input_options(parser: argparse.ArgumentParser) -> None:
    """The inputs of a run."""
    add = parser.add_argument
    add("--input", action="append", default=[], metavar="NAME=FILE", help="an input's .npy file")
    add(
        "--load-arg",
        action="append",
        nargs=2,
        default=[],
        metavar=("@NAME", "FILE"),
        help="another way to write --input",
    )
    for number, flag in enumerate(_FILLS):
        add(
            flag,
            action="append",
            default=[],
            metavar="NAME",
            help=f"an input whose elements are all {number}; repeatable",
        )
    add("--seed", type=whole(0), default=0, metavar="N", help="seed of the random inputs")


def random_array(spec: TensorSpec, generator: np.random.Generator) -> np.ndarray:
    """A random tensor of the spec's shape and type; an integer called a mask is 0 or 1."""
    dtype = numpy_dtype(spec.dtype)
    if spec.dtype == "bool" or ("int" in spec.dtype and "mask" in spec.name):
        return generator.integers(0, 2, spec.shape).astype(dtype)
    if "int" in spec.dtype:
        high = 2 if spec.dtype.endswith(("int2", "int4")) else 10
        return generator.integers(0, high, spec.shape).astype(dtype)
    return generator.standard_normal(spec.shape, np.float32).astype(dtype)


def _name(text: str) -> str:
    return text.removeprefix("@")


def _dim(name: str, text: str) -> Given:
    """The size of a name: '4', '{1,64}', or '?'."""
    return APART if text == APART else _dims(name, text)[0]


def _dims(name: str, text: str) -> list[int | Range]:
    """The dimensions in a text: '4', '{1,64}', '[{1,64,{1,8}},3,224]'."""
    parts = re.findall(r"\{(?:[^{}]|\{[^{}]*\})*\}|[^,\s\[\]{}]+", text)
    try:
        if parts and all(part[0] == "{" or part.isdecimal() for part in parts):
            return [_size_or_range(part) for part in parts]
    except ValueError as error:
        raise UsageError(f"'{name} {text}': {error}") from None
    raise UsageError(f"'{name} {text}': sizes are whole numbers, or ranges such as {{1,64}}")


def _size_or_range(text: str) -> int | Range:
    found = Range.parse(text) if text[0] == "{" else int(text)
    return found.low if isinstance(found, Range) and found.low == found.high else found


def _sizes(name: str, dims: Sequence[str]) -> list[int]:
    if not dims or not all(d.isdecimal() for d in dims):
        raise UsageError(f"'{name} {' '.join(dims)}': sizes are whole numbers")
    return [int(d) for d in dims]


def _io_type(text: str) -> tuple[str, str]:
    """'past.*=f16' as pattern and type; a type alone is for all."""
    pattern, _, name = text.rpartition("=")
    return pattern or "*", name
