"""verify: compare a compiled model with the reference, on random inputs.

The reference is onnxruntime where it is installed and knows the model's operators, without and
with its optimisations, else this project's numpy evaluation of the imported graph. Where
elements differ, the reference runs again with inputs nudged by some roundings (and without
saturation to 16 bits): elements at which it differs from itself by as much do not count. Nor do
differences as large as those that roundings before quantizers inside of the model make.

With --against f32 the error of fewer bits is measured beside the same model in f32.

With --reduce the model is compared without its last node, without its last two, and so on,
until it agrees. With --per-instruction the result of each node is compared, in the model's
order, and the first that differs although its inputs agree is marked. With --bisect the smallest
part of the model that differs is written as a model of its own, with its inputs.

exit code: 0: verified; 1: some outputs differ, or the model is refused; 2: wrong usage
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mgx_mlir.text import name_text
from mgx_mlir.tools import options as shared
from mgx_mlir.tools import quantizing, saving
from mgx_mlir.tools.numbers import real

if TYPE_CHECKING:
    from mgx_mlir.quantization.accuracy import Accuracy
    from mgx_mlir.tools.comparing import Verdict
    from mgx_mlir.tools.console import Tick
    from mgx_mlir.tools.taps import Trial


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_model(parser, "an .onnx model")
    shared.add_shape_options(parser)
    add = parser.add_argument
    shared.add_target_options(parser, "what to verify")
    shared.add_input_options(parser)
    add(
        "--rtol",
        type=real(),
        metavar="X",
        help="relative tolerance (default 1e-3, 16 bit 4e-2)",
    )
    add(
        "--atol",
        type=real(),
        metavar="X",
        help="absolute tolerance (default 1e-4, 16 bit 4e-2)",
    )
    add(
        "--rms-tol",
        type=real(),
        metavar="X",
        help="relative root of the mean square difference of an output that passes; single "
        "elements count beside it where --rtol or --atol is given",
    )
    add("--per-instruction", action="store_true", help="compare the result of each node, in order")
    add(
        "--bisect",
        action="store_true",
        help="find the smallest part of the model that differs; write it and its inputs to -o",
    )
    add(
        "--reduce",
        action="store_true",
        help="compare the model without its last node, without its last two, ... until it agrees",
    )
    add(
        "-o",
        "--output",
        type=Path,
        default=Path("mgx-bisect"),
        metavar="DIR",
        help="the folder for --bisect (default %(default)s)",
    )
    add(
        "--against",
        choices=["reference", "f32"],
        default="reference",
        help="f32: the error of fewer bits (--int8, --fp16, ...) beside the same model in f32, "
        "over the samples of --calibrate; --max-loss is then what is allowed",
    )
    add(
        "--reference",
        type=_reference,
        default="auto",
        metavar="R",
        help="onnxruntime, numpy, another target such as gfx942 or cpu, or another artifact, which "
        "runs on the same target (default: onnxruntime, else numpy)",
    )
    add(
        "--ref-use-double",
        action="store_true",
        help="compute the reference in f64: the numpy one, with floats of 16 and 32 bits widened",
    )
    add(
        "--compiled-model",
        type=Path,
        metavar="FILE",
        help="an artifact of the model, which is compared in place of what verify compiles",
    )
    shared.add_json(parser)
    saving.add_save(parser, "the imported program")
    shared.add_change_options(parser)
    shared.add_compile_options(parser)
    quantizing.add_options(parser)


def _reference(text: str) -> str:
    from mgx_mlir.artifact.target import Target
    from mgx_mlir.artifact.writer import is_artifact
    from mgx_mlir.suggest import instead

    known = ["auto", "onnxruntime", "numpy", "gpu", *Target.names()]
    if text in known or is_artifact(Path(text)):
        return text
    hint = instead(text, known, "name onnxruntime, numpy, a target, or the file of an artifact")
    raise argparse.ArgumentTypeError(f"'{text}' is no reference; {hint}")


def outputs(options: argparse.Namespace) -> list[tuple[str, Path]]:
    """The files of `--bisect` that would be written again."""
    if not options.bisect or not options.output.is_dir():
        return []
    files = [*options.output.glob("model.onnx*"), *options.output.glob("*.npy")]
    return [("-o", file) for file in files if file.is_file()]


def run(options: argparse.Namespace) -> int:
    from mgx_mlir.errors import UsageError
    from mgx_mlir.tools.console import progress
    from mgx_mlir.tools.editing import is_program
    from mgx_mlir.tools.taps import try_model

    shared.expect_model(options, "run {} runs an artifact")
    if saving.is_asked(options):
        saving.write_imported(options)
        options.save = options.form = None
    parts = {"against f32": options.against == "f32", "per-instruction": options.per_instruction,
             "bisect": options.bisect, "reduce": options.reduce}  # fmt: skip
    asked = [name for name, given in parts.items() if given]
    if options.compiled_model is not None and asked:
        raise UsageError(f"--compiled-model compares whole outputs; --{asked[0]} compiles parts")
    if asked and is_program(options):
        raise UsageError(f"--{asked[0]} takes an ONNX model as it is, and no program")
    if options.against == "f32":
        return _against_f32(options)
    if options.per_instruction or options.bisect:
        return _run_taps(options)
    if options.reduce:
        return _run_reduced(options)
    with progress("compiling") as tick:
        trial = try_model(options, tick)
    wrong = sum(not verdict.ok for verdict in trial.verdicts.values())
    if options.json:
        print(json.dumps(_record(options, trial), indent=2))
        return int(bool(wrong))
    _print_head(options, trial)
    for name, verdict in trial.verdicts.items():
        print(f"  {name_text(name)}: {verdict.text}")
    count = len(trial.verdicts)
    excused = sum(verdict.ok and verdict.differs for verdict in trial.verdicts.values())
    if wrong:
        print(f"{wrong} of {count} outputs differ (--bisect finds the node)")
    elif excused:
        print(
            f"verified; where {excused} outputs differ, {trial.reference.name} differs from itself"
        )
    else:
        print("verified")
    return int(bool(wrong))


def _run_reduced(options: argparse.Namespace) -> int:
    """Compares shorter and shorter models; the last node of the shortest that differs is named."""
    from mgx_mlir.tools.console import progress
    from mgx_mlir.tools.reducing import Cut, cuts

    found: list[Cut] = []
    with progress("comparing") as tick:
        for cut in cuts(options, tick):
            if not options.json:
                print(cut, flush=True)
            found.append(cut)
    wrong = [cut for cut in found if not cut.trial.ok]
    if options.json:
        records = [
            {"nodes": c.count, "last": c.last, "outputs": _records(c.trial.verdicts)} for c in found
        ]
        print(json.dumps(_record(options, found[0].trial) | {"cuts": records}, indent=2))
    elif wrong:
        print(f"the shortest model that differs ends with {wrong[-1].last}")
    else:
        print("verified")
    return int(bool(wrong))


def _against_f32(options: argparse.Namespace) -> int:
    """Prints the error beside the f32 model; the exit code says whether --max-loss is kept."""
    from mgx_mlir.tools.console import progress
    from mgx_mlir.tools.quantizing_report import print_accuracy, record_of

    with progress("comparing with f32") as tick:
        accuracy, precisions = _measured(options, tick)
    allowed = options.max_loss
    kept = allowed is None or accuracy.loss <= allowed
    if options.json:
        print(json.dumps(record_of(accuracy) | {"kept": kept}, indent=2))
        return int(not kept)
    print(f"{options.model}: {shared.target_of(options)} against f32, {accuracy.samples} samples")
    print_accuracy(accuracy, precisions)
    if allowed is not None:
        word = "at most" if kept else "more than"
        print(f"loss {accuracy.loss:.4g}: {word} {allowed:.4g}")
    return int(not kept)


def _measured(options: argparse.Namespace, tick: Tick) -> tuple[Accuracy, dict[str, str]]:
    """The errors of the options' precision beside f32, and the precision of products by node."""
    from mgx_mlir.errors import UsageError
    from mgx_mlir.importer import io_types, loading, structure
    from mgx_mlir.models.staged import Model
    from mgx_mlir.quantization import accuracy, samples_of
    from mgx_mlir.tools.editing import plain_model_of

    given, target = shared.compile_options(options), shared.target_of(options)
    model = plain_model_of(options)
    if quantizing.is_asked(options):
        made = quantizing.quantized_of(options, model)
        own = replace(given, io={})  # the model has these types
        return made.accuracy(target, own, tick), {c.node: c.precision for c in made.choices}
    if given.floats == "f32":
        raise UsageError("--against f32 measures fewer bits: give --int8, --fp16 or the like")
    source = loading.load(model)
    structure.normalise(source.model)
    calibration = quantizing.calibration_of(options)

    def candidate(one: loading.Source) -> Model:
        return Model(one, target, replace(given, io={}))

    changed = io_types.change_types(source, given.io)
    found = accuracy.compare(
        source, candidate, changed, samples_of(source, calibration), calibration.options, tick
    )
    products = ("Conv", "Gemm", "MatMul")
    return found, {row.node: given.floats for row in found.rows if row.operator in products}


def _record(options: argparse.Namespace, trial: Trial) -> dict[str, Any]:
    return {
        "model": str(options.model),
        "target": shared.target_of(options),
        "reference": trial.reference.name,
        "verified": trial.ok,
        "outputs": _records(trial.verdicts),
    }


def _records(verdicts: Mapping[str, Verdict]) -> dict[str, Any]:
    return {name: {**asdict(v), "ok": v.ok} for name, v in verdicts.items()}


def _print_head(options: argparse.Namespace, trial: Trial) -> None:
    print(f"{options.model}: {shared.target_of(options)} against {trial.reference.name}")


def _run_taps(options: argparse.Namespace) -> int:
    """Compares the result of each node; with `--bisect`, finds the smallest part that differs."""
    from mgx_mlir.tools import taps
    from mgx_mlir.tools.bisecting import Bisection, check_folder, write_part
    from mgx_mlir.tools.console import progress
    from mgx_mlir.tools.editing import whole_model

    if options.bisect:
        check_folder(options.output)
    model = whole_model(options)
    with progress("comparing nodes") as tick:
        trial = taps.try_taps(model, options, tick)
        rows = taps.rows_of(model, trial)
        part = Bisection(model, trial, options, tick).part(rows) if options.bisect else None
    found = {trial.reference.name: trial.reference.first, "the compiled program": trial.found}
    origins = {name: [*taps.origins(model, values, trial.inputs)] for name, values in found.items()}
    command = write_part(part, options.output, options) if part else ""
    code = int(part is not None or not all(row.ok for row in rows))
    if options.json:
        nodes = [
            {
                "node": row.node.name,
                "operator": row.node.op_type,
                "inputs_agree": row.inputs_agree,
                "outputs": _records(row.verdicts),
            }
            for row in rows
        ]
        record = {"nodes": nodes, "origins": origins, "again": command}
        print(json.dumps(_record(options, trial) | record, indent=2))
        return code
    _print_head(options, trial)
    if options.per_instruction:
        print("\n".join(taps.lines_of(rows)))
    for name, sentences in origins.items():
        for sentence in sentences:
            print(f"in {name}, {sentence}")
    print(taps.summary(rows))
    if part is not None:
        print("\n".join(["the smallest part that differs:", *part.lines(), f"again: {command}"]))
    elif options.bisect:
        print("no part differs by itself" if code else "nothing to bisect")
    return code
