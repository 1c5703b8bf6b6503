#!/usr/bin/env bash
# Sets up a checkout on Debian 12 and later, or Ubuntu with LLVM 22: system packages, .venv, the
# MLIR bindings, the native parts. A second run finds everything and ends in a second or two.
# Arguments are further system packages; --tests sets up what the tests and checks need as well.
set -euo pipefail
cd "$(dirname "$0")/.."

extras=""
if [ "${1:-}" = --tests ]; then
  extras=test
  shift
fi
packages=(
  libmlir-22-dev mlir-22-tools llvm-22-dev llvm-22 lld-22 clang-22
  spirv-tools libzstd-dev zlib1g-dev libcurl4-openssl-dev libedit-dev libxml2-dev
  cmake ninja-build g++ ccache python3-venv python3-dev
  "$@"
)

step() { printf '\033[1m==> %s\033[0m\n' "$*"; }

# Runs a command that takes a while. Shows its last line on a terminal, one line now and
# then elsewhere, and the end of all it printed when it fails.
watch() {
  local log=build/setup.log shown=$SECONDS line
  mkdir -p build
  "$@" 2>&1 | while IFS= read -r line; do
    printf '%s\n' "$line"
    if [ -t 2 ]; then
      printf '\r\033[K    %.100s' "$line" >&2
    elif [ $((SECONDS - shown)) -ge 20 ]; then
      printf '    %.100s\n' "$line" >&2
      shown=$SECONDS
    fi
  done >"$log"
  local status=${PIPESTATUS[0]}
  [ -t 2 ] && printf '\r\033[K' >&2
  [ "$status" -eq 0 ] || tail -n 60 "$log" >&2
  return "$status"
}

fail() {
  printf 'setup: %s\n' "$*" >&2
  exit 1
}

installed() { dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q '^install ok installed'; }

install_system_packages() {
  local missing=() package libraries=()
  for package in "${packages[@]}"; do
    installed "$package" || missing+=("$package")
  done
  # AMD's device libraries: Debian 12 has one name for them, Debian 13 and Ubuntu another.
  installed rocm-device-libs || installed rocm-device-libs-17 || libraries=(rocm-device-libs)
  [ $((${#missing[@]} + ${#libraries[@]})) -eq 0 ] && return
  step "system packages: ${missing[*]} ${libraries[*]}"
  local root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || fail "as root: apt-get install ${missing[*]} ${libraries[*]}"
    root=(sudo)
  fi
  "${root[@]}" apt-get update -qq || fail "apt-get update failed"
  if [ ${#libraries[@]} -gt 0 ] && ! apt-cache show rocm-device-libs >/dev/null 2>&1; then
    libraries=(rocm-device-libs-17)
  fi
  watch "${root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends "${missing[@]}" "${libraries[@]}" ||
    fail "could not install ${missing[*]} ${libraries[*]}; Debian 12 and 13 carry them"
}

# Runs a step when what it depends on (files, given as arguments) has changed.
changed() {
  local stamp=".venv/.stamp-$1"
  shift
  local now
  now=$(cat "$@" | sha256sum)
  [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$now" ] && return 1
  pending_stamp=$stamp pending_value=$now
}
done_step() { printf '%s' "$pending_value" >"$pending_stamp"; }

command -v apt-get >/dev/null && install_system_packages
command -v python3 >/dev/null || fail "python3 is not installed"

if [ ! -x .venv/bin/python ]; then
  step "Python environment in .venv"
  python3 -m venv .venv || fail "python3 -m venv failed; apt-get install python3-venv"
fi
python=.venv/bin/python

# The source of the bindings is the largest download: it runs beside that of the packages.
fetching=
if ! "$python" -c 'import mlir.ir' 2>/dev/null; then
  mkdir -p build
  "$python" scripts/bindings.py --fetch >build/fetch.log 2>&1 &
  fetching=$!
fi

if changed "requirements$extras" pyproject.toml; then
  step "Python packages"
  "$python" - $extras >.venv/requirements.txt <<'PY'
import sys

try:
    import tomllib
except ImportError:  # Python 3.10
    from pip._vendor import tomli as tomllib

with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)
extras = project["project"]["optional-dependencies"]
tables = [project["build-system"]["requires"], project["project"]["dependencies"]]
for table in tables + [extras[name] for name in sys.argv[1:]]:
    print("\n".join(table))
PY
  watch "$python" -m pip install --disable-pip-version-check -r .venv/requirements.txt ||
    fail "pip could not install the packages, see above"
  done_step
fi

if [ -n "$fetching" ]; then
  step "MLIR Python bindings"
  wait "$fetching" || { cat build/fetch.log >&2; fail "the bindings' source could not be had"; }
  "$python" scripts/bindings.py --install >/dev/null
fi

native_build() { cat .venv/native-build 2>/dev/null || true; }
cmake_files=$(git ls-files '*CMakeLists.txt' 2>/dev/null || find . -name CMakeLists.txt -not -path './build/*')
# An installed checkout knows its modules by name: one that comes, goes or moves installs it anew.
modules() { git ls-files 'mgx_mlir/*.py' 2>/dev/null || find mgx_mlir -name '*.py' | sort; }
# shellcheck disable=SC2086
if changed package pyproject.toml $cmake_files <(modules) || [ ! -d "$(native_build)" ]; then
  step "the package, with its native parts"
  watch "$python" -m pip install --no-build-isolation --no-deps -v --disable-pip-version-check -e . ||
    fail "the native build failed, see above"
  printf '%s\n' build/editable-*/ | tail -n 1 >.venv/native-build
  done_step
else
  watch cmake --build "$(native_build)" || fail "the native build failed, see above"
fi

# Byte code beside the sources: where PYTHONDONTWRITEBYTECODE is set, each process would compile
# the bindings and the compiler anew, which takes longer than what it does with them.
"$python" -m compileall -q mgx_mlir "$("$python" -c 'import mlir; print(mlir.__path__[0])')" ||
  true  # without it all is slower, and works
