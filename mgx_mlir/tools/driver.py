"""mgx-driver: `mgx` for scripts that call migraphx-driver: its verbs and flags, translated.

usage: mgx-driver VERB [FILE] [FLAG ...]

verbs: compile, op, onnx, params, perf, read, roctx, run, time, verify. Dimensions without a size
have one element, as in migraphx-driver; without --cpu a program runs on the GPU. A flag without a
counterpart is refused with the reason. `mgx VERB --help` has all flags of mgx, which work too.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from mgx_mlir.artifact.writer import is_artifact
from mgx_mlir.errors import UsageError
from mgx_mlir.settings import set_variables
from mgx_mlir.sizes.range import Range
from mgx_mlir.tools import mgx
from mgx_mlir.tools.command import end_with, exit_code
from mgx_mlir.tools.files import is_saved_program

# MIGraphX's environment variables, and their counterparts.
VARIABLES = {
    "MIGRAPHX_DISABLE_PASSES": "`--disable-pass`",
    "MIGRAPHX_ENABLE_FULL_DYNAMIC": "`--mode full-dynamic`",
    "MIGRAPHX_GPU_COMPILE_PARALLEL": "`MGX_JOBS`",
    "MIGRAPHX_GPU_DUMP_ASM": "`mgx inspect --isa`",
    "MIGRAPHX_GPU_DUMP_SRC": "`mgx inspect --kernel`",
    "MIGRAPHX_LOG_LEVEL": "`--log-level`, `-v`",
    "MIGRAPHX_PROBLEM_CACHE": "`MGX_CACHE_DIR`, whose `tuning.sqlite` keeps schedules",
    "MIGRAPHX_TIME_PASSES": "`--timing`",
    "MIGRAPHX_TRACE_COMPILE": "`-vv`, `mgx read --after`",
    "MIGRAPHX_TRACE_EVAL": "`mgx verify --per-instruction`",
    "MIGRAPHX_TRACE_MATCHES": "`--explain`",
    "MIGRAPHX_VERIFY_DUMP_DIFF": "`mgx verify --bisect`",
}
# roctx: the steps of mgx perf are ranges of roctx where its library is.
VERBS = {"roctx": "perf", "time": "perf"}
# The verbs that run a program, on a GPU unless the flags say otherwise.
_RUNNING = ("run", "perf", "verify")
# The verbs that tune where they are asked to.
_TUNING = ("compile", "run", "perf")
_SIZED = (*_RUNNING, "compile", "params", "read")
# The words of mgx for a flag. mgx works as a flag with an empty tuple asks, without any word.
FLAGS: dict[str, tuple[str, ...]] = {
    "--binary": ("--program",),
    "--cpu": ("--target", "cpu"),
    "--debug-symbols": ("--locations",),
    "--detailed": (),
    "--disable-fast-math": ("--exact",),
    "--dynamic-input-dim": ("--dyn-input-dim",),
    "--enable-offload-copy": (),
    "--enable-symbolic": (),
    "--gpu": ("--target", "gpu"),
    "--iterations": ("--runs",),
    "--mlir": (),
    "--nchw": (),
    "--nhwc": (),
    "--onnx": (),
    "--optimize": ("--after", "optimize"),
    "--python": ("--py",),
    "--strip-context": (),
    "--text": (),
    "-O": ("--after", "optimize"),
    "-b": ("--bisect",),
    "-c": ("--compiled-model",),
    "-d": (),
    "-g": ("--graphviz",),
    "-i": ("--per-instruction",),
    "-l": ("--list",),
    "-n": ("--runs",),
    "-r": ("--reduce",),
    "-t": ("--trim",),
}
# The flags of FLAGS that mgx read alone has; other verbs work so, or have nothing to print.
_OF_READ = ("--binary", "--debug-symbols", "--optimize", "-O")
# The forms that read has; migraphx-driver writes a file in none of them as a saved program.
_FORMS = {"--brief", "--graphviz", "--json", "--netron", "--program", "--py", "--text"}
# Flags that take several values, each of which is a flag of its own for mgx: single words, or
# words from an input's or a symbol's name on.
_LISTS = ("--fill0", "--fill1", "--output-names")
_BY_NAME = ("--dim-param", "--dyn-input-dim", "--input-dim", "--load-arg")
# The levels of the log that mgx names otherwise.
_LEVELS = {"none": "error", "trace": "debug"}
_OWN_FILES = "files of MIGraphX cannot be read; give the .onnx model"
_ONE_PASS = "mgx-opt runs single passes"
_TRIMMED = "--trim N leaves out the last N nodes; --output-names takes any result"
REFUSED = {
    "--apply-pass": _ONE_PASS,
    "--cpp": "--py prints the program as Python",
    "--migraphx": _OWN_FILES,
    "--migraphx-json": _OWN_FILES,
    "--replace-literals": "weights stay in the program",
    "--test": "name a model",
    "--tf": "TensorFlow's files cannot be read; export the model to ONNX",
    "--trim-size": _TRIMMED,
    "-p": _ONE_PASS,
    "-s": _TRIMMED,
}


def command() -> NoReturn:
    """Runs the command, and ends the process."""
    end_with(main)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs mgx with the translated words; returns its exit code, 2 for what has no translation."""
    words = list(sys.argv[1:] if arguments is None else arguments)

    def work() -> int:
        for name in set_variables(VARIABLES):
            print(f"mgx-driver: {name} is not read; there is {VARIABLES[name]}", file=sys.stderr)
        if not words or words[0] in ("-h", "--help"):
            print(__doc__, end="")
            return 0 if words else 2
        try:
            if words[0] == "op":
                return _print_operators(words[1:])
            translated = translate(words)
        except UsageError as error:
            print(f"mgx-driver: {error}", file=sys.stderr)
            return 2
        return mgx.main(translated)

    return exit_code("mgx-driver", work)


def translate(words: Sequence[str]) -> list[str]:
    """The words of mgx for those of migraphx-driver. Raises UsageError for a refused flag."""
    if words[0] in ("-v", "--version"):
        return ["--version"]
    if words[0] == "onnx":
        return ["op", "--list"]
    if words[0] in ("tf", "--ort-sha"):
        raise UsageError(f"{words[0]} is not here: {REFUSED['--tf']}")
    verb = VERBS.get(words[0], words[0])
    made = [verb]
    several = ""
    given, modes = _taken(words[1:], "--compile-mode", 1)
    given, sizes = _taken(given, "--split-sizes", len(words))
    for word in _apart(_split(given, sizes) if sizes else given):
        flag, equals, value = word.partition("=")
        if flag == "--migraphx" and any(map(_is_own, words)):
            continue
        if flag in REFUSED:
            raise UsageError(f"{flag} is not here: {REFUSED[flag]}")
        if not word.startswith("-"):
            made += [several, word] if several else [word]
            continue
        several = flag if flag in _LISTS and not equals else ""
        if several:
            continue
        if flag == "--ref":
            made += _on_reference(verb)
        elif flag == "--exhaustive-tune":
            made += _tuned(verb)
        elif flag in _OF_READ and verb != "read":
            continue
        elif flag in FLAGS:
            made += [*FLAGS[flag], *([value] if equals else [])]
        else:
            made.append(word)
    if any(map(_times_schedules, modes)):
        made += _tuned(verb)
    if "cpu" in made and "--tune=exhaustive" in made:
        made.remove("--tune=exhaustive")  # a CPU has no schedules to time
    if verb == "read" and {"-o", "--output"} & set(made) and not _FORMS & {*made, *words}:
        made.append("--program")
    running = verb in _RUNNING or "--tune=exhaustive" in made
    if running and "--target" not in made:
        made += ["--target", "gpu"]
    sized = {"--batch", "--default-dyn-dim"} & {word.partition("=")[0] for word in made}
    if verb in _SIZED and not sized and not _reads_artifact(made):
        made += ["--default-dyn-dim", "{1,1}"]
    return made if verb in (*_RUNNING, "compile", "check") else _without_target(made)


def _apart(words: Sequence[str]) -> list[str]:
    """The words with a flag for each of several names, and levels of the log as mgx has them."""
    made: list[str] = []
    flag = ""
    for word in words:
        if word.startswith("-"):
            flag = word
        elif word.startswith("@") and flag in _BY_NAME and made[-1] != flag:
            made.append(flag)
        made.append(_LEVELS.get(word, word) if flag == "--log-level" else word)
    return made


def _taken(words: Sequence[str], flag: str, most: int) -> tuple[list[str], list[str]]:
    """The words without a flag and the values after it, at most so many, and these values."""
    rest: list[str] = []
    values: list[str] = []
    left = 0
    for word in words:
        name, equals, value = word.partition("=")
        if name == flag:
            left = most
            if not equals:
                continue
            word = value
        left = 0 if word.startswith("-") else left
        (values if left else rest).append(word)
        left = max(left - 1, 0)
    return rest, values


def _times_schedules(mode: str) -> bool:
    from mgx_mlir.migraphx.modes import compile_modes, nearest_mode

    return nearest_mode(mode) is compile_modes.max


def _split(words: Sequence[str], sizes: Sequence[str]) -> list[str]:
    """The words, where the one symbol with a range has the sizes for programs of their own.

    Raises UsageError where it is not one, and for sizes outside of its range.
    """
    places = [i for i, word in enumerate(words) if word.startswith("{")]
    if len(places) != 1:
        raise UsageError(
            "--split-sizes is for one symbol; give it a range: --dim-param @name '{min:1, max:64}'"
        )
    made = list(words)
    try:
        optimals = tuple(sorted({int(size) for size in sizes}))
        split = replace(Range.parse(made[places[0]]), optimals=optimals)
        split.check()
    except ValueError as error:
        raise UsageError(f"--split-sizes {' '.join(sizes)}: {error}") from None
    made[places[0]] = str(split)
    return made


def _is_own(word: str) -> bool:
    """Whether a word is a file that this project wrote."""
    return not word.startswith("-") and (is_saved_program(Path(word)) or is_artifact(Path(word)))


def _reads_artifact(words: Sequence[str]) -> bool:
    """Whether a verb is given an artifact or a saved program, whose sizes are known."""
    takes = words[0] in ("params", "perf", "run")
    files = [Path(word) for word in words[1:] if not word.startswith("-")]
    return any(is_saved_program(file) or (takes and is_artifact(file)) for file in files)


def _print_operators(words: Sequence[str]) -> int:
    """Prints an operator of MIGraphX with its attributes as JSON, or the names of all."""
    from mgx_mlir.migraphx.operators import advice, defaults, names

    given = [word for word in words if not word.startswith("-")]
    if not given or {"-l", "--list"} & set(words):
        print("\n".join(sorted(names())))
        return 0
    if given[0] not in names():
        raise UsageError(f"the operator '{given[0]}' {advice(given[0], names())}")
    print(f"{given[0]}: {json.dumps(defaults(given[0]))}")
    return 0


def _tuned(verb: str) -> list[str]:
    if verb not in _TUNING:
        raise UsageError(f"--exhaustive-tune is not for {verb}; mgx tune first, which it then uses")
    return ["--tune=exhaustive"]


def _on_reference(verb: str) -> list[str]:
    if verb != "verify":
        raise UsageError("--ref is for verify; mgx_mlir.migraphx has the target 'ref'")
    return ["--reference", "numpy"]


def _without_target(words: list[str]) -> list[str]:
    """The words without a target, which verbs that compile nothing do not take."""
    if "--target" not in words:
        return words
    place = words.index("--target")
    return words[:place] + words[place + 2 :]
