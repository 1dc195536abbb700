#!/usr/bin/env python3
"""The test command: `test.py all` is what `make test` and every change's gate run; `check` is its quick part.

Each step is a function below; STEPS says in which order. What a step needs (packages, .venv) is set up by the Makefile.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import fuzz
import tidy
from source_files import CPP, ROOT, source_files
from steps import Step, StepFailed, call, last_line, run_steps

BUILD = ROOT / "build"
PYTHON = Path(sys.executable)
# A room that includes one of these uses threads, and its tests run under ThreadSanitizer too.
THREADS = re.compile(r"#include <(thread|mutex|shared_mutex|condition_variable|future|stop_token|pthread\.h)>")


def check_format() -> str:
    files = source_files(*CPP)
    call("clang-format-19", "--dry-run", "--Werror", *files)
    return f"{len(files)} files"


def check_layers() -> str:
    return last_line(call(PYTHON, "tools/check_layers.py"))


def check_sizes() -> str:
    return last_line(call(PYTHON, "tools/check_sizes.py"))


def check_links() -> str:
    return last_line(call(PYTHON, "tools/check_links.py"))


def check_python() -> str:
    files = source_files(".py")
    call(PYTHON, "-m", "ruff", "check", "--quiet", *files)
    call(PYTHON, "-m", "ruff", "format", "--quiet", "--diff", *files)
    return last_line(call(PYTHON, "-m", "mypy"))


def test_tools() -> str:
    return last_line(call(PYTHON, "-m", "pytest", "-q", "tests/tools"))


def test_release() -> str:
    return _build_and_test("release")


def test_package() -> str:
    """The Python package from its sources, and its adapter between stand-ins of PyTorch and the library."""
    return last_line(call(PYTHON, "-m", "pytest", "-q", "tests/package"))


def test_frameworks() -> str:
    """The package with the real TensorFlow, Keras, JAX, Lightning and Transformers, in an environment of their own."""
    environment = BUILD / "frameworks"
    names = ("requirements-torch-needs.txt", "requirements-torch.txt", "requirements-frameworks.txt")
    wanted = [ROOT / "tools" / name for name in names]
    ready = environment / "ready"
    if not ready.is_file() or any(file.stat().st_mtime > ready.stat().st_mtime for file in wanted):
        call(PYTHON, "-m", "venv", "--clear", environment)
        pip: list[str | Path] = [environment / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "--quiet"]
        for file in wanted:  # one after another: the files with hashes and the one without exclude each other
            call(*pip, "install", "--requirement", file)
        ready.touch()
    return last_line(call(environment / "bin" / "python", "-m", "pytest", "-q", "tests/frameworks"))


def check_tidy() -> str:
    return tidy.check(BUILD / "release")


def test_asan() -> str:
    return _build_and_test("asan")


def test_tsan() -> str:
    with_threads = {
        path.parts[1] for path in source_files(*CPP, under="src") if THREADS.search((ROOT / path).read_text())
    }
    # What lies in no test of its own (the preloaded tap) is met by tests/python.
    rooms = sorted(room for room in with_threads if any((ROOT / "src" / room).rglob("*_test.cpp")))
    if not rooms:
        return "no room uses threads: nothing to run"
    call("cmake", "--preset", "tsan")
    call("cmake", "--build", "--preset", "tsan", "--target", *(f"{room}_test" for room in rooms))
    output = call("ctest", "--preset", "tsan", "--no-tests=error", "-R", f"^({'|'.join(rooms)})$")
    return f"threads in {', '.join(rooms)}: {_summary(output)}"


def test_fuzz() -> str:
    _build("asan")  # the tests' objects serve the fuzzers too
    return fuzz.check(BUILD / "asan")


def test_wheel() -> str:
    """`pip install .` in a fresh environment, then python/tests against what it installed."""
    environment = BUILD / "wheel-environment"
    inside = environment / "bin" / "python"
    call(PYTHON, "-m", "venv", "--clear", environment)
    pip: list[str | Path] = [inside, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    # The name that the release build calls the compiler by: so ccache knows what it has compiled.
    call(*pip, "install", ".", env={**os.environ, "CXX": "c++"})
    call(*pip, "install", "--requirement", "tools/requirements.txt")
    return last_line(call(inside, "-m", "pytest", "-q", "python/tests"))


def bench() -> str:
    _build("release")
    programs = [BUILD / "release" / "bench" / source.stem for source in sorted((ROOT / "bench").glob("bench_*.cpp"))]
    return "\n" + "\n".join(call(program) for program in programs)


def _build(preset: str) -> None:
    call("cmake", "--preset", preset)
    call("cmake", "--build", "--preset", preset)


def _build_and_test(preset: str) -> str:
    """GoogleTest and golden texts by ctest, then tests/python against the same program."""
    _build(preset)
    output = call("ctest", "--preset", preset, "--no-tests=error")
    environment = {**os.environ, "VRAM_BINARY": str(BUILD / preset / "src" / "vram")}
    used = call(PYTHON, "-m", "pytest", "-q", "tests/python", env=environment)
    return f"{_summary(output)}; in use: {last_line(used)}"


def _summary(output: str) -> str:
    summary = re.search(r"\d+% tests passed, .*", output)
    if not summary:
        raise StepFailed(f"ctest ended without a summary:\n{output}")
    return summary[0]


CHECKS: list[tuple[str, Step]] = [
    ("format", check_format),
    ("layers", check_layers),
    ("sizes", check_sizes),
    ("links", check_links),
    ("python", check_python),
]
STEPS: dict[str, list[tuple[str, Step]]] = {
    "check": CHECKS,
    "all": [
        *CHECKS,
        ("tools", test_tools),
        ("release", test_release),
        ("package", test_package),
        ("frameworks", test_frameworks),
        ("tidy", check_tidy),
        ("asan", test_asan),
        ("fuzz", test_fuzz),
        ("tsan", test_tsan),
        ("wheel", test_wheel),
    ],
    "bench": [("bench", bench)],
}

if __name__ == "__main__":
    wanted = sys.argv[1] if len(sys.argv) == 2 else ""
    if wanted not in STEPS:
        sys.exit(f"usage: {sys.argv[0]} {'|'.join(STEPS)}")
    sys.exit(run_steps(STEPS[wanted]))
