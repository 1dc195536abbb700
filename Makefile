# The front door. `make help` lists what can be asked for; every target is safe to run again.
.DEFAULT_GOAL := help
SHELL := /bin/bash

# The distribution's interpreter where there is one: the packages that `make setup` installs belong to it.
PYTHON ?= $(firstword $(wildcard /usr/bin/python3) python3)
VENV := .venv/bin
VRAM := build/release/src/vram
# The interpreter that has PyTorch with CUDA, and vram.
GPU_PYTHON ?= python3
# Seconds that each fuzzer runs; one that has not changed since it last ran that long gets a few.
FUZZ_SECONDS ?= 60
export FUZZ_SECONDS

.PHONY: help setup setup-build setup-python demo build test test-gpu check golden bench bench-gpu wheel wheels wheels-check sdist clean

help: ## list these targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1 \2/p' $(MAKEFILE_LIST) | \
	  while read -r name text; do printf '  make %-9s %s\n' "$$name" "$$text"; done

setup: setup-build .venv/ready ## install what this machine lacks (apt, with sudo only when not root), and .venv
	@tools/setup.sh test

setup-build: # what building the program takes, no more
	@tools/setup.sh build

setup-python:
	@tools/setup.sh python

.venv/ready: tools/requirements.txt tools/requirements-torch.txt | setup-python
	@echo "setup: Python tools and PyTorch into .venv (tools/requirements.txt, tools/requirements-torch.txt)"
	@$(PYTHON) -m venv .venv
	@$(VENV)/python -m pip install --quiet --disable-pip-version-check \
	  -r tools/requirements.txt -r tools/requirements-torch.txt
	@touch $@

demo: build ## report on two bundled recordings (one fragments, one leaks), and tune the first
	@for recording in unet_multiscale leak.stacks; do \
	  echo; echo "\$$ vram report demo/$$recording.pickle.xz"; \
	  $(VRAM) report demo/$$recording.pickle.xz || exit 1; \
	done
	@echo; echo "\$$ vram tune demo/unet_multiscale.pickle.xz"; $(VRAM) tune demo/unet_multiscale.pickle.xz

build: setup-build ## build the program: build/release/src/vram
	@[ -f build/release/build.ninja ] || cmake --preset release -DVRAM_TESTS=OFF -DVRAM_BENCH=OFF > /dev/null
	@cmake --build --preset release --target vram

test: setup ## run every check and every test
	@$(VENV)/python tools/test.py all

test-gpu: ## test on an NVIDIA GPU, against the vram and the PyTorch that python3 finds (GPU_PYTHON=... for another)
	@$(GPU_PYTHON) -m pytest -q tests/gpu

check: setup ## run the fast static checks: format, layers, sizes, Python
	@$(VENV)/python tools/test.py check

golden: build ## take what the program prints now as what it should print; read the diff before committing
	@$(PYTHON) tests/golden/run.py --rebaseline $(VRAM)

bench: setup ## run the benchmarks
	@$(VENV)/python tools/test.py bench

bench-gpu: ## compare the pool with PyTorch's own allocators on an NVIDIA GPU
	@$(GPU_PYTHON) bench/gpu/compare.py

wheel: setup ## build the wheel into dist/
	@$(VENV)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	@ls dist/*.whl

wheels: setup-build .venv/ready ## build portable wheels (manylinux, x86-64 and aarch64) into dist/
	@tools/setup.sh wheels
	@$(VENV)/python tools/wheels.py build

wheels-check: .venv/ready ## run the wheels of dist/ in Debian 11 and, emulated, on aarch64
	@tools/setup.sh wheels
	@$(VENV)/python tools/wheels.py check

sdist: .venv/ready ## build the source package into dist/
	@$(VENV)/python tools/wheels.py sdist

clean: ## remove everything that was built here
	@rm -rf build dist .venv
