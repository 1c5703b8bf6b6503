#!/usr/bin/env python3
"""Provides the upstream MLIR Python bindings, and prints the folder that holds `mlir`.

In this order: those that this Python has already, if they use the system's shared libMLIR;
those that the machine's cache holds; else a build from the LLVM release's source, which
takes a minute or two and is kept in the cache.

The source is MGX_LLVM_SOURCE (an unpacked tree or the release's .tar.xz) or Debian's
source package of the same version, checked by its SHA-256.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from pathlib import Path

LLVM_VERSION = "22.1.8"
LLVM_MAJOR = LLVM_VERSION.split(".")[0]
LLVM_ROOT = Path(f"/usr/lib/llvm-{LLVM_MAJOR}")
# The folders of the release that the bindings' build reads.
SOURCE_FOLDERS = ("mlir/python", "mlir/lib/Bindings", "mlir/include", "mlir/cmake")
ARCHIVE = f"llvm-toolchain-{LLVM_MAJOR}_{LLVM_VERSION}.orig.tar.xz"
ARCHIVE_SHA256 = "b49b9277aef97616320b2da259e1f8174c65b0ce2fbe2e8629644a97693402fe"
HERE = Path(__file__).resolve().parent


class SetupError(Exception):
    """Says what is missing and what to install; printed without a traceback."""


def say(text: str) -> None:
    print(f"bindings: {text}", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--install", action="store_true", help="copy them into this Python")
    parser.add_argument(
        "--fetch", action="store_true", help="only fetch the source, unless a build is there"
    )
    options = parser.parse_args()
    try:
        if not options.fetch:
            print(provide(options.install))
        elif not any(cache_folder().glob(f"{LLVM_VERSION}-{sys.implementation.cache_tag}-*")):
            print(fetch())
    except SetupError as error:
        say(str(error))
        return 1
    return 0


def provide(install: bool) -> Path:
    """The folder that holds the package `mlir`; site-packages with `install`."""
    installed = installed_bindings()
    if installed:
        return installed
    packages = cached_bindings()
    if not install:
        return packages
    site = Path(sysconfig.get_path("purelib"))
    say(f"installing them into {site}")
    staged = Path(tempfile.mkdtemp(prefix=".mlir-", dir=site))
    try:
        shutil.copytree(packages / "mlir", staged / "mlir", symlinks=True)
        shutil.rmtree(site / "mlir", ignore_errors=True)
        os.rename(staged / "mlir", site / "mlir")
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return site


def installed_bindings() -> Path | None:
    """The folder of bindings that this Python imports and that fit, or None."""
    code = "import mlir.ir, mlir._mlir_libs as m; print(m.__path__[0])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if run.returncode != 0:
        return None
    libraries = Path(run.stdout.strip())
    # Bindings with an LLVM of their own would clash with the one that the dialect links.
    capi = libraries / "libMLIRPythonCAPI.so"
    needed = f"libMLIR.so.{LLVM_VERSION.rpartition('.')[0]}".encode()
    if not capi.exists() or needed not in capi.read_bytes():
        say(f"the installed ones, {libraries}, do not use {needed.decode()}; not used")
        return None
    return libraries.parent.parent


def cached_bindings() -> Path:
    """The machine's own build, made on first use."""
    import nanobind

    tag = f"{LLVM_VERSION}-{sys.implementation.cache_tag}-nanobind{nanobind.__version__}"
    package = cache_folder() / tag
    if (package / "mlir" / "ir.py").exists():
        say(f"using {package}")
        return package
    require_toolchain()
    package.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".build-", dir=package.parent) as scratch:
        source = fetch()
        if source == fetched_source():
            # Out of the way of another build, for another Python.
            source = source.rename(Path(scratch) / "source")
        built = build(source, Path(scratch) / "build")
        shutil.rmtree(package, ignore_errors=True)
        staged = Path(scratch) / "package"
        staged.mkdir()
        # The build tree links to the source tree, which goes away; and to headers, which
        # extensions that are built against the package need.
        shutil.copytree(built / "mlir", staged / "mlir", symlinks=False)
        os.rename(staged, package)
    return package


def cache_folder() -> Path:
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "mgx-mlir" / "bindings"


def fetched_source() -> Path:
    """The place of the source between --fetch and the build, which moves it."""
    return cache_folder() / f"source-{LLVM_VERSION}"


def fetch() -> Path:
    """The source tree of the bindings, which is fetched and unpacked where it is not there."""
    kept = fetched_source()
    if kept.exists():
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=kept.parent) as scratch:
        found = find_source(Path(scratch))
        if not found.is_relative_to(scratch):
            return found  # a tree of the user's
        os.rename(found, kept)
    return kept


def require_toolchain() -> None:
    if not (LLVM_ROOT / "lib/cmake/mlir/MLIRConfig.cmake").exists():
        raise SetupError(
            f"LLVM {LLVM_MAJOR} is not installed; "
            f"apt-get install libmlir-{LLVM_MAJOR}-dev mlir-{LLVM_MAJOR}-tools"
        )
    for tool, package in (("cmake", "cmake"), ("ninja", "ninja-build"), ("c++", "g++")):
        if shutil.which(tool) is None:
            raise SetupError(f"{tool} is not installed; apt-get install {package}")


def find_source(scratch: Path) -> Path:
    """An LLVM source tree: MGX_LLVM_SOURCE, or Debian's source package unpacked."""
    local = os.environ.get("MGX_LLVM_SOURCE")
    if local:
        path = Path(local).expanduser().resolve()
        if (path / "mlir/python/CMakeLists.txt").exists():
            return path
        if not path.is_file():
            raise SetupError(f"MGX_LLVM_SOURCE is '{local}': neither an LLVM tree nor an archive")
        return unpack(path, scratch)
    archive = download(scratch)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    if digest != ARCHIVE_SHA256:
        raise SetupError(f"{archive.name} has SHA-256 {digest}, not {ARCHIVE_SHA256}")
    return unpack(archive, scratch)


def download(scratch: Path) -> Path:
    """Debian's source archive, through apt, from the mirror that the machine uses.

    Bookworm's own index does not hold the source of this version; sid's does. The lists
    are kept apart, so that the system's own stay as they are.
    """
    if shutil.which("apt-get") is None:
        raise SetupError("no apt-get here; set MGX_LLVM_SOURCE to the LLVM source archive")
    mirror = debian_mirror()
    say(f"fetching the LLVM {LLVM_VERSION} source package (197 MB)")
    apt = scratch / "apt"
    for folder in ("lists/partial", "cache/archives/partial"):
        (apt / folder).mkdir(parents=True)
    os.chmod(scratch, 0o755)
    options = [
        f"-oDir::Etc::sourcelist={apt}/sources.list",
        "-oDir::Etc::sourceparts=-",
        f"-oDir::State::lists={apt}/lists",
        f"-oDir::Cache={apt}/cache",
        "-oAPT::Sandbox::User=root",
    ]
    for suite in ("sid", "trixie"):
        (apt / "sources.list").write_text(f"deb-src {mirror} {suite} main\n")
        subprocess.run(["apt-get", "update", "-qq", *options], cwd=apt)
        source = ["source", "-qq", "--tar-only", "--download-only", f"llvm-toolchain-{LLVM_MAJOR}"]
        for version in ("", f"=1:{LLVM_VERSION}-1", f"=1:{LLVM_VERSION}-3"):
            command = ["apt-get", *options, *source[:-1], source[-1] + version]
            subprocess.run(command, cwd=apt, capture_output=True)
            if (apt / ARCHIVE).exists():
                return apt / ARCHIVE
    raise SetupError(f"could not fetch {ARCHIVE}; set MGX_LLVM_SOURCE to a copy of it")


def debian_mirror() -> str:
    """The mirror of the machine's own apt sources."""
    run = subprocess.run(
        [
            "apt-get",
            "indextargets",
            "--format",
            "$(SITE) $(REPO_URI) $(ORIGIN)",
            "Created-By: Packages",
        ],
        capture_output=True,
        text=True,
    )
    for line in run.stdout.splitlines():
        _, uri, origin = [*line.split(" ", 2), ""][:3]
        if origin.startswith("Debian") and "security" not in uri:
            return uri
    raise SetupError("no Debian mirror in apt's sources; set MGX_LLVM_SOURCE to the LLVM source")


def unpack(archive: Path, scratch: Path) -> Path:
    say("unpacking it")
    target = scratch / "source"
    with tarfile.open(archive) as tar:
        for member in tar:
            _, _, inside = member.name.partition("/")
            if not inside.startswith(SOURCE_FOLDERS) or not (member.isfile() or member.isdir()):
                continue
            if ".." in Path(inside).parts:
                raise SetupError(f"{archive} holds a path that leaves its folder: {member.name}")
            member.name = inside
            tar.extract(member, target, set_attrs=False)
    if not (target / "mlir/python/CMakeLists.txt").exists():
        raise SetupError(f"{archive} holds no mlir/python; is it the LLVM release's source?")
    return target


def build(source: Path, folder: Path) -> Path:
    """Builds in `folder`; returns the folder that holds `mlir`."""
    say("building (a minute or two on two cores)")
    configure = [
        *("cmake", "-S", str(HERE.parent / "cmake/bindings"), "-B", str(folder), "-G", "Ninja"),
        "-DCMAKE_BUILD_TYPE=Release",
        f"-DMGX_LLVM_SOURCE={source}",
        f"-DMLIR_DIR={LLVM_ROOT}/lib/cmake/mlir",
        f"-DPython_EXECUTABLE={sys.executable}",
        f"-DPython3_EXECUTABLE={sys.executable}",
    ]
    for command in (configure, ["cmake", "--build", str(folder), "--target", "used-bindings"]):
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if run.returncode != 0:
            sys.stderr.write(run.stdout[-8000:])
            raise SetupError(f"'{' '.join(command[:2])}' failed, see above")
    return folder


if __name__ == "__main__":
    sys.exit(main())
