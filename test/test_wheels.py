"""The wheels of the compiler in bare roots: Debian with its LLVM packages, systems without."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# The name that a root's own package of certificates does not replace.
CERTIFICATES = "certificates-of-the-tests.pem"

RUN = """
import numpy as np
import mgx_mlir
from onnx import parser
x = np.linspace(-1, 1, 32).reshape(4, 8)
relu = lambda x: np.maximum(x, 0)
for kind, operator, function in (("float", "Relu", relu), ("double", "Tanh", np.tanh)):
    model = parser.parse_model(f'''<ir_version: 8, opset_import: ["" : 17]>
    g ({kind}[4, 8] x) => ({kind}[4, 8] y) {{ y = {operator}(x) }}''')
    array = x.astype({"double": "f8", "float": "f4"}[kind])
    for target in ("cpu", "gfx942"):
        found = mgx_mlir.compile(model, target=target).run({"x": array})
        np.testing.assert_allclose(np.asarray(found["y"]), function(array), rtol=1e-6)
print("ran")
"""


def bare_root(folder: Path, suite: str) -> Path:
    """A new root of Debian, whose packages come from where this machine's do."""
    if shutil.which("debootstrap") is None:
        pytest.skip("needs debootstrap: apt-get install debootstrap")
    root = folder / suite
    subprocess.run(["debootstrap", "--variant=minbase", suite, root], check=True)
    (root / "etc/apt/sources.list").unlink(missing_ok=True)
    shutil.copytree("/etc/apt", root / "etc/apt", dirs_exist_ok=True)
    for file in (root / "etc/apt/sources.list.d").glob("*.sources"):
        file.write_text(file.read_text().replace("bookworm", suite))
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    if Path("/etc/ssl/certs/ca-certificates.crt").exists():
        shutil.copy("/etc/ssl/certs/ca-certificates.crt", root / "etc" / CERTIFICATES)
    for name in (".config/pip", ".pip"):
        if (Path.home() / name).exists():
            shutil.copytree(Path.home() / name, root / "root" / name)
    return root


def run_in(root: Path, script: str) -> str:
    """The output of a shell script in the root."""
    certificates = f"/etc/{CERTIFICATES}"
    environment = {
        "DEBIAN_FRONTEND": "noninteractive",
        "HOME": "/root",
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "PIP_CERT": certificates,
        "SSL_CERT_FILE": certificates,
        **{name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")},
    }
    # A mount of its own: /proc goes with the process.
    inside = 'mount -t proc p "$0/proc"; mount --rbind /dev "$0/dev"; chroot "$0" sh -ec "$1"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", inside, root, script],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout


def installed_and_run(root: Path, packages: str) -> str:
    """Installs the wheel of /wheels, with its dependencies from the package index; runs it."""
    (root / "run.py").write_text(RUN)
    return run_in(
        root,
        f"apt-get update -qq; apt-get install -qq -y --no-install-recommends {packages} >/dev/null;"
        "python3 -m venv /v; /v/bin/pip install -q --disable-pip-version-check /wheels/*.whl;"
        "/v/bin/python /run.py",
    )


@pytest.mark.slow
def test_the_wheel_works_in_a_bare_debian_12(tmp_path: Path) -> None:
    """Beside Debian's libMLIR; and with the libraries inside, beside nothing."""
    if sys.version_info[:2] != (3, 11):
        pytest.skip("Debian 12 has Python 3.11, the wheel is for another")
    subprocess.run(["make", "-o", "setup", "wheel-full"], cwd=ROOT, check=True)
    for folder, packages in (("dist", "libmlir-22 python3-venv"), ("dist/full", "python3-venv")):
        root = bare_root(tmp_path / folder, "bookworm")
        (wheel,) = (ROOT / folder).glob("mgx_mlir-*.whl")
        (root / "wheels").mkdir()
        shutil.copy(wheel, root / "wheels")
        assert installed_and_run(root, packages).endswith("ran\n")


@pytest.mark.slow
@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
def test_a_bare_debian_makes_and_runs_its_wheel(suite: str, tmp_path: Path) -> None:
    """As the README says: python3, git, make and apt. The wheels are those of its own Python."""
    root = bare_root(tmp_path, suite)
    subprocess.run(["git", "clone", "-q", ROOT, root / "mgx-mlir"], check=True)
    run_in(
        root,
        "apt-get update -qq; apt-get install -qq -y --no-install-recommends git make python3 "
        ">/dev/null; cd /mgx-mlir; make demo wheel-full",
    )
    second = bare_root(tmp_path / "second", suite)
    (wheel,) = (root / "mgx-mlir/dist/full").glob("mgx_mlir-*.whl")
    (second / "wheels").mkdir()
    shutil.copy(wheel, second / "wheels")
    assert installed_and_run(second, "python3-venv").endswith("ran\n")
    compiled = run_in(
        root, "cd /mgx-mlir; .venv/bin/mgx run examples/digits.onnx --target gfx1100 >/dev/null; "
        "echo emulated",
    )  # fmt: skip
    assert compiled.endswith("emulated\n")
