"""The wheels of the compiler in bare roots: Debian with its LLVM packages, systems without."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

import mgx_mlir

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


RUNTIME = """
import numpy as np
import mgx_mlir
x = np.linspace(-1, 1, 32, dtype="f4").reshape(4, 8)
program = mgx_mlir.compile(mgx_mlir.load("/relu.mgx"), target="cpu", trust_code=True)
np.testing.assert_array_equal(program.run({"x": x})["y"], np.maximum(x, 0))
print("ran")
"""
UBUNTU = "http://archive.ubuntu.com/ubuntu"
# debootstrap of Debian 12 knows no newer ones; a script of theirs serves for all.
UBUNTUS = ("jammy", "noble")
INSTALL = ("-m", "pip", "install", "-q", "--disable-pip-version-check")
SCRIPTS = Path("/usr/share/debootstrap/scripts")


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A root as debootstrap makes it, once a suite. A test copies it."""
    folder = tmp_path_factory.mktemp("pristine")

    @functools.cache
    def root(suite: str) -> Path:
        if shutil.which("debootstrap") is None or os.geteuid() != 0:
            pytest.skip("needs debootstrap (apt-get install debootstrap) and root")
        words = [suite, str(folder / suite)]
        if suite in UBUNTUS:
            words += [UBUNTU, str(SCRIPTS / "jammy")]
        done = subprocess.run(
            ["debootstrap", "--variant=minbase", *words],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode and suite in UBUNTUS:
            pytest.skip(f"{UBUNTU} cannot be had: {(done.stdout + done.stderr)[-200:]}")
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
        return folder / suite

    return root


def bare_root(pristine: Path, root: Path) -> Path:
    """A copy of the pristine root, whose packages come from where this machine's do."""
    suite = pristine.name
    subprocess.run(["cp", "-a", pristine, root], check=True)
    if suite in UBUNTUS:
        lines = [f"deb {UBUNTU} {suite}{of} main universe\n" for of in ("", "-updates")]
        (root / "etc/apt/sources.list").write_text("".join(lines))
    else:
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


def installed_and_run(root: Path, wheel: Path, packages: str) -> None:
    """Installs packages and the wheel, with what it depends on, and runs the script."""
    shutil.copy(wheel, root)
    (root / "run.py").write_text(RUN)
    said = run_in(
        root,
        f"apt-get update -qq; apt-get install -qq -y --no-install-recommends {packages} >/dev/null;"
        f"python3 -m venv /v; /v/bin/pip install -q --disable-pip-version-check /{wheel.name};"
        "/v/bin/python /run.py",
    )
    assert said.endswith("ran\n")


def wheel_for(python: Path, folder: str) -> Path:
    """The wheel of mgx-mlir in dist/ or dist/full/ for that Python."""
    command = [python, "-c", "import sys; print('cp%d%d' % sys.version_info[:2])"]
    tag = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    (wheel,) = (ROOT / folder).glob(f"mgx_mlir-*-{tag}-*.whl")
    return wheel


@pytest.fixture(scope="module")
def python_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A Python of a version. dist/ and dist/full/ then hold its wheels, which are made once."""
    folder = tmp_path_factory.mktemp("builders")

    @functools.cache
    def made(version: str) -> Path:
        tomllib = pytest.importorskip("tomllib")
        python = other_python(version)
        subprocess.run([python, "-m", "venv", folder / version], check=True)
        build = folder / version / "bin/python"
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())
        subprocess.run([build, *INSTALL, *project["build-system"]["requires"]], check=True)
        make = ["make", "-o", "setup", "wheel-full", f"PYTHON={build}"]
        subprocess.run(make, cwd=ROOT, check=True)
        return python

    return made


def other_python(version: str) -> Path:
    """Python of that version: on the path, or one of pyenv's."""
    folders = sorted((Path.home() / ".pyenv/versions").glob(f"{version}.*/bin"))
    path = os.pathsep.join([*map(str, folders), os.environ["PATH"]])
    found = shutil.which(f"python{version}", path=path)
    # A shim of pyenv is there for versions that are not chosen, and then fails.
    if not found or subprocess.run([found, "-V"], capture_output=True, check=False).returncode:
        pytest.skip(f"needs python{version}")
    return Path(found)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13"])
def test_the_wheel_of_each_python(
    version: str, tmp_path: Path, python_of: Callable[[str], Path]
) -> None:
    """With LLVM inside, in a clean environment on this machine."""
    python = python_of(version)
    subprocess.run([python, "-m", "venv", tmp_path], check=True)
    wheel = wheel_for(python, "dist/full")
    subprocess.run([tmp_path / "bin/python", *INSTALL, wheel], check=True)
    (tmp_path / "run.py").write_text(RUN)
    done = subprocess.run(
        [tmp_path / "bin/python", "run.py"], cwd=tmp_path, capture_output=True, text=True,
        check=False, env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.stdout.endswith("ran\n"), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suite", "version", "folder", "packages"),
    [
        ("bookworm", "3.11", "dist", "libmlir-22"),
        ("bookworm", "3.11", "dist/full", ""),
        ("trixie", "3.13", "dist", "libmlir-22"),
        ("trixie", "3.13", "dist/full", ""),
        # Ubuntu 22.04 has an older glibc than Debian 12, where the wheels are made.
        ("noble", "3.12", "dist/full", ""),
    ],
)
def test_the_wheel_works_in_a_bare_root(
    suite: str, version: str, folder: str, packages: str, tmp_path: Path,
    pristine: Callable[[str], Path], python_of: Callable[[str], Path],
) -> None:  # fmt: skip
    """Beside Debian's libMLIR; and with the libraries inside, beside nothing."""
    root = bare_root(pristine(suite), tmp_path / "root")
    installed_and_run(root, wheel_for(python_of(version), folder), f"python3-venv {packages}")


@pytest.mark.slow
@pytest.mark.parametrize("suite", ["bookworm", "trixie", *UBUNTUS])
def test_the_runtime_works_in_a_bare_root(
    suite: str, tmp_path: Path, pristine: Callable[[str], Path], python_of: Callable[[str], Path]
) -> None:
    """With numpy alone: for the CPU not even hip-python is there."""
    root = bare_root(pristine(suite), tmp_path / "root")
    text = "g (float[4, 8] x) => (float[4, 8] y) { y = Relu (x) }"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}')
    artifact = mgx_mlir.finalize(mgx_mlir.compile_to_bytecode(model), "x86-64-v2")
    mgx_mlir.save(artifact, root / "relu.mgx")
    python_of("3.11")
    (wheel,) = (ROOT / "dist").glob("mgx_mlir_runtime-*.whl")
    assert wheel.stat().st_size < 20e6
    shutil.copy(wheel, root)
    (root / "run.py").write_text(RUNTIME)
    said = run_in(
        root,
        "apt-get update -qq; apt-get install -qq -y --no-install-recommends python3-venv "
        ">/dev/null; python3 -m venv /v; /v/bin/pip install -q --disable-pip-version-check numpy;"
        f"/v/bin/pip install -q --disable-pip-version-check --no-deps /{wheel.name};"
        "/v/bin/python /run.py",
    )
    assert said.endswith("ran\n")


@pytest.mark.slow
@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
def test_a_bare_debian_makes_and_runs_its_wheel(
    suite: str, tmp_path: Path, pristine: Callable[[str], Path]
) -> None:
    """As the README says: python3, git, make and apt. The wheels are those of its own Python."""
    root = bare_root(pristine(suite), tmp_path / "first")
    subprocess.run(["git", "clone", "-q", ROOT, root / "mgx-mlir"], check=True)
    run_in(
        root,
        "apt-get update -qq; apt-get install -qq -y --no-install-recommends git make python3 "
        ">/dev/null; cd /mgx-mlir; make demo wheel-full",
    )
    (wheel,) = (root / "mgx-mlir/dist/full").glob("mgx_mlir-*.whl")
    installed_and_run(bare_root(pristine(suite), tmp_path / "second"), wheel, "python3-venv")
    compiled = run_in(
        root, "cd /mgx-mlir; .venv/bin/mgx run examples/digits.onnx --target gfx1100 >/dev/null; "
        "echo emulated",
    )  # fmt: skip
    assert compiled.endswith("emulated\n")


COMPILE = """
import pathlib, sys
for file in pathlib.Path(sys.argv[1]).rglob("*.py"):
    compile(file.read_bytes(), file, "exec")
"""


@pytest.mark.parametrize("folder", ["mgx_mlir", "scripts"])
def test_the_sources_are_python_3_10(folder: str) -> None:
    """`make check` also asks vermin for modules and functions that 3.10 does not have."""
    command = [other_python("3.10"), "-c", COMPILE, ROOT / folder]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def buildah(
    tmp_path: Path, pristine: Callable[[str], Path]
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """buildah with a store of its own, whose debian:12 is a bare root."""
    if shutil.which("buildah") is None:
        pytest.skip("needs buildah: apt-get install buildah")

    def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
        store = ["--storage-driver", "vfs", "--root", tmp_path / "s", "--runroot", tmp_path / "r"]
        return subprocess.run(["buildah", *store, *words], capture_output=True, text=True,
                              check=False)  # fmt: skip

    root = bare_root(pristine("bookworm"), tmp_path / "root")
    container = run("from", "scratch").stdout.strip()
    mounted = run("mount", container).stdout.strip()
    subprocess.run(["cp", "-a", f"{root}/.", mounted], check=True)
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    run("config", "--env", f"PATH={path}", "--env", f"PIP_CERT=/etc/{CERTIFICATES}", container)
    for name in ("12", "12-slim"):
        done = run("commit", container, f"docker.io/library/debian:{name}")
        assert done.returncode == 0, done.stderr
    return run


@pytest.mark.slow
def test_the_dockerfile_makes_its_images(
    buildah: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    subprocess.run(["git", "clone", "-q", ROOT, tmp_path / "context"], check=True)
    program = "import mgx_mlir; print(mgx_mlir.__version__)"
    for target, command in (("runtime", ["python", "-c", program]), ("compiler", ["mgx", "op"])):
        build = ["bud", "--isolation", "chroot", "--pull-never", "--layers", "--target", target]
        done = buildah(*build, "-t", target, tmp_path / "context")
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
        container = buildah("from", "--pull-never", target).stdout.strip()
        ran = buildah("run", "--isolation", "chroot", container, "--", *command)
        assert ran.returncode == 0 and ran.stdout, ran.stderr
