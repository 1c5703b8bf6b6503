"""The passes by their names, and pipelines as text.

Names predict files: `mgx-fuse-pointwise` is `FusePointwise` in `passes/fuse_pointwise.py`; the
registry is that rule. Nothing is listed twice.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator

from mgx_mlir.errors import UsageError
from mgx_mlir.rewriting.pass_base import CLEANUP, Pass
from mgx_mlir.scan import module_names
from mgx_mlir.suggest import instead

PREFIX = "mgx-"


def check_optional(name: str) -> None:
    """Raises UsageError for a name that is no pass, and for a pass that cannot be left out."""
    if name not in CLEANUP and pass_class(name).required:
        raise UsageError(f"{name} makes the program; it cannot be left out")


# A pipeline's element: a pass of mgx, or upstream passes in upstream's own syntax.
Step = Pass | str
Pipeline = tuple[Step, ...]


def step_name(step: Step) -> str:
    """The name of a pipeline's element, without its options."""
    return str(step).partition("{")[0]


def pass_class(name: str) -> type[Pass]:
    """The class of the pass with that name. Raises UsageError with the nearest names."""
    if name not in pass_names():
        hint = instead(name, pass_names(), "see mgx-opt --list-passes")
        raise UsageError(f"there is no pass '{name}'; {hint}")
    module_name = name.removeprefix(PREFIX).replace("-", "_")
    module = importlib.import_module(f"mgx_mlir.passes.{module_name}")
    class_name = "".join(word.capitalize() for word in module_name.split("_"))
    found: type[Pass] = getattr(module, class_name)
    return found


def pass_names() -> list[str]:
    """The names of all passes, sorted: one for each file of the folder."""
    return [PREFIX + module.replace("_", "-") for module in module_names("mgx_mlir.passes")]


def parse_pipeline(text: str) -> Pipeline:
    """A pipeline from text: `[builtin.module(]element, element...[)]`.

    Elements called `mgx-...` that are Python passes become Pass objects; any other is
    handed to upstream's parser as it stands, nested pipelines included.
    """
    text = text.strip()
    if text.startswith("builtin.module(") and text.endswith(")"):
        text = text[len("builtin.module(") : -1]
    names = set(pass_names())
    return tuple(_parse_element(element, names) for element in _split(text))


def _parse_element(element: str, names: set[str]) -> Step:
    name, brace, options = element.partition("{")
    if name not in names:
        return element
    if brace and not options.endswith("}"):
        raise UsageError(f"'{element}': the options of a pass stand in braces")
    return pass_class(name).from_options(options.removesuffix("}"))


def print_pipeline(pipeline: Iterable[Step]) -> str:
    """The pipeline as text that `parse_pipeline` reads."""
    return f"builtin.module({','.join(str(step) for step in pipeline)})"


def _split(text: str) -> Iterator[str]:
    """The elements between top-level commas."""
    depth, start = 0, 0
    for position, character in enumerate(text):
        if character in "({":
            depth += 1
        elif character in ")}":
            depth -= 1
            if depth < 0:
                raise UsageError(f"pipeline '{text}': unbalanced '{character}'")
        elif character == "," and depth == 0:
            yield text[start:position].strip()
            start = position + 1
    if depth:
        raise UsageError(f"pipeline '{text}': a bracket is not closed")
    if text[start:].strip():
        yield text[start:].strip()
