"""mgx-driver: `mgx` for scripts that call migraphx-driver: its verbs and flags, translated."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from mgx_mlir.errors import UsageError
from mgx_mlir.tools import mgx
from mgx_mlir.tools.command import exit_code

# roctx: the steps of mgx perf are ranges of roctx where its library is.
VERBS = {"roctx": "perf", "time": "perf"}
# The verbs that run a program, on a GPU unless the flags say otherwise.
_RUNNING = ("run", "perf", "verify")
# The verbs that tune where they are asked to.
_TUNING = ("compile", "run", "perf")
# The words of mgx for a flag. mgx works as a flag with an empty tuple asks, without any word.
FLAGS: dict[str, tuple[str, ...]] = {
    "--binary": ("--emit-bytecode",),
    "--cpu": ("--target", "cpu"),
    "--debug-symbols": ("--locations",),
    "--detailed": (),
    "--disable-fast-math": ("--exact",),
    "--dynamic-input-dim": ("--dyn-input-dim",),
    "--enable-offload-copy": (),
    "--gpu": ("--target", "gpu"),
    "--iterations": ("--runs",),
    "--mlir": (),
    "--onnx": (),
    "--optimize": ("--after", "optimize"),
    "--python": ("--py",),
    "--text": (),
    "-O": ("--after", "optimize"),
    "-b": ("--bisect",),
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
# Flags that take several values, each of which is a flag of its own for mgx.
_LISTS = ("--fill0", "--fill1", "--output-names")
_OWN_FILES = "files of MIGraphX cannot be read; give the .onnx model"
_LAYOUT = "layouts are chosen by the compiler; ONNX's tensors are NCHW"
_ONE_PASS = "mgx-opt runs single passes"
_TRIMMED = "--trim N leaves out the last N nodes; --output-names takes any result"
REFUSED = {
    "--apply-pass": _ONE_PASS,
    "--compiled-model": "give verify the .onnx model, and --reference FILE.mgx to compare with it",
    "--cpp": "--py prints the program as Python",
    "--migraphx": _OWN_FILES,
    "--migraphx-json": _OWN_FILES,
    "--nchw": _LAYOUT,
    "--nhwc": _LAYOUT,
    "--replace-literals": "weights stay in the program",
    "--skip-unknown-operators": "no operator is skipped; mgx check names those that are not known",
    "--strip-context": "a program carries none",
    "--test": "name a model",
    "--tf": "TensorFlow's files cannot be read; export the model to ONNX",
    "--trim-size": _TRIMMED,
    "-c": "give verify the .onnx model, and --reference FILE.mgx to compare with it",
    "-p": _ONE_PASS,
    "-s": _TRIMMED,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs mgx with the translated words; returns its exit code, 2 for what has no translation."""
    words = list(sys.argv[1:] if arguments is None else arguments)

    def work() -> int:
        try:
            translated = translate(words)
        except UsageError as error:
            print(f"mgx-driver: {error}", file=sys.stderr)
            return 2
        return mgx.main(translated)

    return exit_code("mgx-driver", work)


def translate(words: Sequence[str]) -> list[str]:
    """The words of mgx for those of migraphx-driver. Raises UsageError for a refused flag."""
    if not words:
        return []
    if list(words[:1]) == ["onnx"]:
        return ["op", "--list"]
    verb = VERBS.get(words[0], words[0])
    made = [verb]
    several = ""
    for word in words[1:]:
        flag, equals, value = word.partition("=")
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
    running = verb in _RUNNING or "--tune=exhaustive" in made
    if running and "--target" not in made:
        made += ["--target", "gpu"]
    return made if verb in (*_RUNNING, "compile", "check") else _without_target(made)


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
