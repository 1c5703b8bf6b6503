"""mgx-driver: `mgx` for scripts that call migraphx-driver: its verbs and flags, translated.

usage: mgx-driver VERB [FILE] [FLAG ...]

verbs: compile, op, onnx, params, perf, read, roctx, run, time, verify. Dimensions without a size
have one element, as in migraphx-driver; without --cpu a program runs on the GPU. -o and the flags
--binary, --text, --json, --py, --graphviz and --netron are about the program, in every verb. A flag
without a counterpart is refused with the reason. `mgx VERB --help` has all flags of mgx, which work
too.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from mgx_mlir.artifact.writer import is_artifact
from mgx_mlir.errors import UsageError
from mgx_mlir.settings import set_variables
from mgx_mlir.sizes.range import Range
from mgx_mlir.suggest import instead
from mgx_mlir.tools import mgx
from mgx_mlir.tools.command import end_with, exit_code
from mgx_mlir.tools.driver_variables import PREFIX, hints
from mgx_mlir.tools.driver_words import (
    APART,
    BY_NAME,
    COMPILES,
    FLAGS,
    FORMS,
    LEVELS,
    LISTS,
    MODELS,
    OF_COMPILING,
    OF_READ,
    PASSES,
    REFUSED,
    RUNNING,
    SIZED,
    TUNING,
    VERBS,
)


def command() -> NoReturn:
    """Runs the command, and ends the process."""
    end_with(main)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs mgx with the translated words; returns its exit code, 2 for what has no translation."""
    words = list(sys.argv[1:] if arguments is None else arguments)

    def work() -> int:
        for hint in hints(set_variables(PREFIX)):
            _tell(hint)
        if not words or words[0] in ("-h", "--help"):
            print(__doc__, end="")
            return 0 if words else 2
        try:
            if words[0] == "op":
                return _print_operators(words[1:])
            with _with_test_model(words) as given:
                made = translate(given)
                return mgx.main(made) if made else 0
        except UsageError as error:
            _tell(str(error))
            return 2

    return exit_code("mgx-driver", work)


def _tell(text: str) -> None:
    print(f"mgx-driver: {text}", file=sys.stderr)


@contextlib.contextmanager
def _with_test_model(words: Sequence[str]) -> Iterator[list[str]]:
    """The words with a small model in place of --test: one product of two inputs."""
    if "--test" not in words:
        yield list(words)
        return
    from onnx import parser, save

    text = "g (float[4, 5] a, float[5, 3] b) => (float[4, 3] y) { y = MatMul(a, b) }"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "gemm.onnx"
        save(parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}'), file)
        yield [str(file) if word == "--test" else word for word in words]


def translate(words: Sequence[str]) -> list[str]:
    """The words of mgx for those of migraphx-driver, none where there is nothing to do.

    Raises UsageError for a refused flag.
    """
    if words[0] in ("-v", "--version"):
        return ["--version"]
    if words[0] == "onnx":
        return ["op", "--list"]
    if words[0] in ("tf", "--ort-sha"):
        raise UsageError(f"{words[0]} is not here: {REFUSED['--tf']}")
    verb = VERBS.get(words[0], words[0])
    given, modes = _taken(_apart(words[1:]), "--compile-mode", 1)
    given, sizes = _taken(given, "--split-sizes", len(words))
    given, outputs = _taken(given, "-o", 1, "--output")
    given, forms = _form(given)
    if sizes:
        given = _split(given, sizes)
    made = [verb]
    for word in given:
        made += _translated(word, verb, words)
    if any(map(_times_schedules, modes)):
        made += _tuned(verb)
    if "cpu" in made and "--tune=exhaustive" in made:
        made.remove("--tune=exhaustive")  # a CPU has no schedules to time
    if verb == "read" and (forms or outputs) and forms != ["text"] and "--locations" in made:
        made.remove("--locations")  # the other forms name nodes, or have none
    compiled = [word for word in made[1:] if _is_compiled(word)]
    if compiled and verb in ("compile", "read"):
        return _shown(verb, compiled[0], outputs, forms)
    made += _written(verb, outputs, forms)
    made = _of_compiled(made)
    running = verb in RUNNING or "--tune=exhaustive" in made
    if running and "--target" not in made:
        made += ["--target", "gpu"]
    sized = {"--batch", "--default-dyn-dim"} & {word.partition("=")[0] for word in made}
    if verb in SIZED and not sized and not _reads_sizes(made):
        made += ["--default-dyn-dim", "{1,1}"]
    if words[0] in ("perf", "time"):
        made += ["--totals"]
    if words[0] == "time":
        made += ["--only-runs"]
    if verb in COMPILES and set(_QUANTIZES) & set(made):
        made += ["--allow-none"]
    return made if verb in (*RUNNING, "compile", "check") else _without_target(made)


_QUANTIZES = ("--int8", "--fp8", "--int4-weights", "--int2-weights", "--mx")


def _translated(word: str, verb: str, words: Sequence[str]) -> list[str]:
    """The words of mgx for one of migraphx-driver."""
    flag, equals, value = word.partition("=")
    if flag in ("--migraphx", "--migraphx-json"):
        if any(map(_is_own, words)):
            return []
        raise UsageError(f"{flag}: no file of mgx is named, and {REFUSED['--migraphx']}")
    if flag in REFUSED:
        raise UsageError(f"{flag} is not here: {REFUSED[flag]}")
    if flag == "--ref":
        return _on_reference(verb)
    if flag == "--exhaustive-tune":
        return _tuned(verb)
    if flag in OF_READ and verb != "read":
        return []
    if flag in FLAGS:
        return [*FLAGS[flag], *([value] if equals else [])]
    return [word]


def _apart(words: Sequence[str]) -> list[str]:
    """The words with a flag for each of several values, and with mgx's words for values."""
    made: list[str] = []
    flag = ""
    for word in words:
        if word.startswith("-"):
            name, equals, value = word.partition("=")
            flag = "" if equals else name
            made.append(f"{name}={_value(name, value)}" if equals else word)
            continue
        if flag in APART and made[-1] != flag and word.endswith(MODELS):
            flag = ""  # the model itself
        several = word.startswith("@") if flag in BY_NAME else flag in LISTS
        if several and made[-1] != flag:
            made.append(flag)
        made.append(_value(flag, word))
    return made


def _value(flag: str, word: str) -> str:
    """A flag's value as mgx has it."""
    if flag == "--log-level":
        return LEVELS.get(word, word)
    if flag not in ("--apply-pass", "-p"):
        return word
    found = PASSES.get(word, "" if "_" in word else word)
    if not found:
        there = sorted(name for name, text in PASSES.items() if text)
        hint = instead(word, there, f"there are: {', '.join(there)}, and those of mgx-opt")
        raise UsageError(f"--apply-pass {word}: there is no such pass here; {hint}")
    return found


def _taken(
    words: Sequence[str], flag: str, most: int, other: str = ""
) -> tuple[list[str], list[str]]:
    """The words without a flag and the values after it, at most so many, and these values."""
    rest: list[str] = []
    values: list[str] = []
    left = 0
    for word in words:
        name, equals, value = word.partition("=")
        if name in (flag, other) and name:
            left = most
            if not equals:
                continue
            word = value
        left = 0 if word.startswith("-") else left
        (values if left else rest).append(word)
        left = max(left - 1, 0)
    return rest, values


def _form(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words without the flags of forms, and the form of the program that they name, if any."""
    found = [FORMS[word] for word in words if word in FORMS]
    brief = "--brief" in words
    rest = [word for word in words if word not in FORMS and word != "--brief"]
    if found:
        form = found[-1]
        return rest, ["graphviz-brief" if brief and form == "graphviz" else form]
    return rest, ["brief"] if brief else []


def _written(verb: str, outputs: Sequence[str], forms: Sequence[str]) -> list[str]:
    """The words by which a verb writes or prints the program."""
    form = forms[0] if forms else "binary" if outputs else "text"
    if verb == "read":
        flags = {"binary": ["--program"], "text": [], "graphviz-brief": ["--graphviz", "--brief"]}
        return [*(["-o", outputs[-1]] if outputs else []), *flags.get(form, [f"--{form}"])]
    if verb == "compile":
        return [*(["-o", outputs[-1]] if outputs else []), "--form", form]
    if verb not in RUNNING:
        return []
    named = ["--save", outputs[-1]] if outputs else []
    return named + (["--form", forms[0]] if forms else [])


def _of_compiled(words: list[str]) -> list[str]:
    """The words without those that a compiled program does not heed, which it says."""
    files = [word for word in words[1:] if _is_compiled(word)]
    if words[0] not in ("run", "perf") or not files:
        return words
    left: list[str] = []
    dropped: list[str] = []
    skip = 0
    for word in words:
        flag, equals, _ = word.partition("=")
        if skip and not word.startswith("-"):
            skip -= 1
            continue
        skip = 0
        if flag == "--batch":
            left += _batch(files[0], words[words.index(word) + 1 :], word)
        if flag in OF_COMPILING:
            dropped.append(flag)
            skip = 0 if equals else OF_COMPILING[flag]
            continue
        left.append(word)
    if "--dim-param" in left and "--dim-param" not in words:
        dropped.remove("--batch")
    if dropped:
        names = ", ".join(dict.fromkeys(dropped))
        _tell(f"{names}: {files[0]} is compiled already, which stays as it is")
    return left


def _shown(verb: str, file: str, outputs: Sequence[str], forms: Sequence[str]) -> list[str]:
    """The words of mgx that show a compiled file; none to compile it.

    Raises UsageError where it were to be written.
    """
    if outputs:
        raise UsageError(f"{file} is compiled already; copy it, or mgx finalize --arch adds code")
    if verb == "compile":
        _tell(f"{file} is compiled already, which stays as it is")
        return []
    if forms not in ([], ["text"], ["json"]):
        raise UsageError(f"{file} is compiled; --json and --text show what it holds")
    return ["inspect", file, *(["--json"] if forms == ["json"] else [])]


def _batch(file: str, after: Sequence[str], word: str) -> list[str]:
    """The size that --batch gives the open dimensions of a compiled program."""
    import mgx_mlir

    size = word.partition("=")[2] or (after[0] if after else "")
    plan = mgx_mlir.load(file).plan
    return [part for dim in plan.dims for part in ("--dim-param", f"@{dim.name}", size)]


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
    from mgx_mlir.tools.files import is_saved_program

    return not word.startswith("-") and (is_saved_program(Path(word)) or is_artifact(Path(word)))


def _is_compiled(word: str) -> bool:
    return not word.startswith("-") and Path(word).is_file() and is_artifact(Path(word))


def _reads_sizes(words: Sequence[str]) -> bool:
    """Whether a verb is given an artifact or a saved program, whose sizes are known."""
    from mgx_mlir.tools.files import is_saved_program

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
    if verb not in TUNING:
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
