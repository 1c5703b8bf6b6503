"""docs/passes.md: the modes, the pipelines and the passes, as the code has them.

    python -m mgx_mlir.tools.pass_page > docs/passes.md

A test compares the page.
"""

from __future__ import annotations

import dataclasses

from mgx_mlir.artifact.contents import version_text
from mgx_mlir.pipelines.modes import MODES
from mgx_mlir.pipelines.phases import PIPELINES
from mgx_mlir.pipelines.registry import pass_class, pass_names, step_name
from mgx_mlir.rewriting.pass_base import CLEANUP, Pass, option_text

_HEAD = """\
# Passes

Made by `python -m mgx_mlir.tools.pass_page`; a test compares it. [rewrites.md](rewrites.md)
says which of MIGraphX's rewrites are here.

`mgx compile --explain` lists which rewrite fired at which node, `--timing` the seconds of each
pass, `--disable-pass NAME` leaves one out, `--exact` all that are marked *rounds*. An artifact
records the options and the passes that ran, in order: `mgx inspect --json`.
"""


def page() -> str:
    """The page's text."""
    cleanup = " and ".join(f"`{name}`" for name in CLEANUP)
    parts = [_HEAD, "## Modes\n\n| mode | what it is for | pipelines |\n|---|---|---|"]
    for name, mode in MODES.items():
        parts.append(f"| {name} | {mode.summary} | {', '.join(mode.pipelines)} |")
    parts.append("\n## Pipelines\n")
    for name, pipeline in PIPELINES.items():
        steps = ", ".join(f"`{step}`" for step in pipeline.passes)
        parts.append(f"**{name}**: {pipeline.summary}. {steps}\n")
    parts.append(
        "## Passes\n\n"
        f"*Cleans*: the driver runs {cleanup} after it. *Rounds*: floats come out by another "
        "formula than the model's. *Symbolic*: it runs where sizes stay symbols too. *Required*: "
        "there is no program without it. *For*: only these kinds of target gain, and programs for "
        "another leave it out. *Since*: older readers do not know its results.\n\n"
        "| pass | what it does | options | |\n|---|---|---|---|"
    )
    parts += [_row(pass_class(name)) for name in pass_names()]
    return "\n".join(parts) + "\n"


def _row(kind: type[Pass]) -> str:
    options = ", ".join(
        f"`{option.name.replace('_', '-')}={option_text(option.default)}`"
        for option in dataclasses.fields(kind)
    )
    used = any(kind.name == step_name(s) for p in PIPELINES.values() for s in p.passes)
    marks = {
        "cleans": kind.cleanup,
        "rounds": kind.rounds,
        "symbolic": kind.symbolic,
        "required": kind.required,
        f"since {version_text(kind.since)}": kind.since != Pass.since,
        "in no pipeline": not used,
    }
    told = ", ".join(mark for mark, holds in marks.items() if holds)
    summary = (kind.__doc__ or "").strip().splitlines()[0]
    return f"| `{kind.name}` | {summary} | {options} | {told} |"


if __name__ == "__main__":
    print(page(), end="")
