#!/usr/bin/env python3
"""The test command: `test.py quick` is `make test`, `deep` is `make test-deep`, and `check` runs the static checks only.

Each step is a function below; STEPS defines their order. The Makefile installs what steps need (packages, .venv). A step that
passed in this checkout with the same inputs is skipped, unless FRESH=1 is set.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import fuzz
import tidy
import unit
import web
from source_files import CPP, ROOT, source_files
from steps import Stamps, Step, Together, call, cores, last_line, run_steps

BUILD = ROOT / "build"
PYTHON = Path(sys.executable)
# Two tests per core, because tests mostly wait for the programs that they start.
JOBS = str(min(2 * cores(), 16))
# The modules whose tests `make test` also runs under AddressSanitizer: they read untrusted files, or allocate memory.
QUICK_SANITIZED = ("base", "trace", "pool")


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


def check_paths() -> str:
    return last_line(call(PYTHON, "tools/check_paths.py"))


def check_symbols() -> str:
    return last_line(call(PYTHON, "tools/check_symbols.py"))


def check_words() -> str:
    return last_line(call(PYTHON, "tools/check_words.py"))


def check_figures() -> str:
    return last_line(call(PYTHON, "tools/figures.py", "--check"))


def check_alert_rules() -> str:
    return last_line(call(PYTHON, "tools/alert_rules.py", "--check"))


def check_catalogue() -> str:
    return last_line(call(PYTHON, "tools/catalogue.py", "check"))


def check_python() -> str:
    files = source_files(".py")
    call(PYTHON, "-m", "ruff", "check", "--quiet", *files)
    call(PYTHON, "-m", "ruff", "format", "--quiet", "--diff", *files)
    return last_line(call(PYTHON, "-m", "mypy"))


def test_tools() -> str:
    return _pytest(PYTHON, "tests/tools")


def build_release() -> str:
    return _build("release")


def test_units() -> str:
    return unit.check(BUILD / "release")


def test_golden() -> str:
    return unit.summary(call("ctest", "--test-dir", BUILD / "release", "--no-tests=error", "-R", "^golden$"))


def test_use() -> str:
    """Runs tests/python: the program, the library and the tap, as users run them."""
    return _use("release")


def test_package() -> str:
    """Tests the Python package from its sources, and its adapter with stand-ins for PyTorch and the library."""
    return _pytest(PYTHON, "tests/package", *(f"--ignore={file}" for file in _recovery_tests()))


def test_recovery() -> str:
    """Tests recovery from out-of-memory errors. It is Python alone: it runs without the library, and not again when C++ changes."""
    return _pytest(PYTHON, *_recovery_tests(), env={**os.environ, "VRAM_LIBRARY": "/dev/null"})


def test_web() -> str:
    """Tests web/: its types, its bundle, its modules, and the pages of the release build in Chromium."""
    return f"{web.check()}; {web.run_tests(BUILD / 'release' / 'src' / 'vram')}"


def test_wheel() -> str:
    """Runs `pip install .` in a fresh environment, then python/tests on the installed package."""
    environment = BUILD / "wheel-environment"
    inside = environment / "bin" / "python"
    call(PYTHON, "-m", "venv", "--clear", environment)
    # The release build uses the same name of the compiler, so ccache finds its results.
    _pip(inside, "install", ".", env={**os.environ, "CXX": "c++"})
    _pip(inside, "install", "--require-hashes", "--requirement", "tools/requirements-pytest.txt")
    return _pytest(inside, "python/tests")


def test_site() -> str:
    """Builds the documentation site, and reads its pages and its search."""
    return _pytest(PYTHON, "tests/site", jobs="0")  # one process, since all tests read the one site


def test_asan_quick() -> str:
    """Tests the readers and the pool, and replays the fuzzers' stored inputs, under AddressSanitizer and UBSan."""
    replayers = [f"replay_{subject}" for subject in fuzz.READERS]
    _build("asan", *(f"{module}_test" for module in QUICK_SANITIZED), *replayers)
    replayed = fuzz.replay(BUILD / "asan", fuzz.READERS)
    return f"{', '.join(QUICK_SANITIZED)}: {unit.check(BUILD / 'asan', QUICK_SANITIZED)}; {replayed}"


def test_corpora() -> str:
    """Replays the fuzzers' stored inputs with the release build."""
    return fuzz.replay(BUILD / "release")


def test_frameworks() -> str:
    """Tests the package with the real TensorFlow, Keras, JAX, Lightning and Transformers, in a separate environment."""
    environment = BUILD / "frameworks"
    names = ("requirements-torch-needs.txt", "requirements-torch.txt", "requirements-frameworks.txt")
    wanted = [ROOT / "tools" / name for name in names]
    ready = environment / "ready"
    if not ready.is_file() or any(file.stat().st_mtime > ready.stat().st_mtime for file in wanted):
        call(PYTHON, "-m", "venv", "--clear", environment)
        for file in wanted:  # separately, because pip refuses a file without hashes together with files that have them
            _pip(environment / "bin" / "python", "install", "--requirement", file)
        ready.touch()
    return _pytest(environment / "bin" / "python", "tests/frameworks")


def check_tidy() -> str:
    return tidy.check(BUILD / "release")


def test_slow() -> str:
    """Runs the tests that VRAM_DEEP scales, at full length."""
    deep = {**os.environ, unit.DEEP: "1"}
    steps, ranks = (_pytest(PYTHON, f"tests/package/test_recover_{name}.py", env=deep) for name in ("steps", "ranks"))
    return f"{unit.check(BUILD / 'release', deep=True)}; training steps: {steps}; of two ranks: {ranks}"


def test_asan() -> str:
    _build("asan")
    return unit.check(BUILD / "asan")


def test_use_asan() -> str:
    return _use("asan")


def test_fuzz() -> str:
    return fuzz.check(BUILD / "asan")


def test_tsan() -> str:
    """Tests under ThreadSanitizer the modules that have threads; in others there is nothing that it could find."""
    modules = _modules_with_threads()
    _build("tsan", *(f"{module}_test" for module in modules))
    return f"{', '.join(modules)}: {unit.check(BUILD / 'tsan', modules)}"


def test_wheels() -> str:
    """Builds the portable wheels of both processors, and tests them on old systems and under emulation."""
    call("tools/setup.sh", "wheels")
    for part in ("build", "sdist"):
        call(PYTHON, "tools/wheels.py", part, "--allow-dirty")
    return last_line(call(PYTHON, "tools/wheels.py", "check"))


def bench() -> str:
    _build("release")
    programs = [BUILD / "release" / "bench" / source.stem for source in sorted((ROOT / "bench").glob("bench_*.cpp"))]
    return "\n" + "\n".join(call(program) for program in programs)


def _build(preset: str, *targets: str) -> str:
    call("cmake", "--preset", preset)
    built = call("cmake", "--build", "--preset", preset, *(["--target", *targets] if targets else []))
    return last_line(built)


def _pip(python: Path, *arguments: str | Path, env: dict[str, str] | None = None) -> None:
    call(python, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments, env=env)


def _pytest(python: Path, *tests: str, jobs: str = JOBS, env: dict[str, str] | None = None) -> str:
    """Runs the tests of folders and files in parallel; the remark names the slow ones."""
    output = call(python, "-m", "pytest", "-q", "-n", jobs, "--dist", "worksteal", *tests, env=env)
    slow = re.findall(r"^(\d+\.\d+)s call +\S+?([\w.]+::.*)$", output, re.MULTILINE)
    named = "".join(
        f"\n{'':22}{seconds:>7} s  {name}" for seconds, name in slow[:8] if float(seconds) >= unit.SLOW_SECONDS
    )
    return last_line(output) + named


def _modules_with_threads() -> list[str]:
    """Returns the modules with tests that start threads, or share data between those of others."""
    threads = re.compile(r"\bstd::(jthread|thread|atomic|mutex|shared_mutex|condition_variable|async)\b|\bpthread_")
    sources = [path for path in source_files(*CPP, under="src") if len(path.parts) > 2]
    tested = {path.parts[1] for path in sources if path.name.endswith("_test.cpp")}
    return sorted(tested & {path.parts[1] for path in sources if threads.search((ROOT / path).read_text("utf-8"))})


def _use(preset: str) -> str:
    environment = {**os.environ, "VRAM_BINARY": str(BUILD / preset / "src" / "vram")}
    return _pytest(PYTHON, "tests/python", env=environment)


def _recovery_tests() -> list[str]:
    return [str(file.relative_to(ROOT)) for file in sorted((ROOT / "tests/package").glob("test_recover_*.py"))]


def _whole() -> Iterable[str | Path]:
    """Yields the paths and contents of all files of the repository, and the version of Python."""
    yield sys.version
    for path in source_files(""):
        yield from (str(path), ROOT / path)


def _products() -> Iterable[str | Path]:
    """Yields the products of the release build, and all files of the repository that it is not made from."""
    yield sys.version
    for path in source_files(""):
        if path.parts[0] != "src":
            yield from (str(path), ROOT / path)
    release = BUILD / "release"
    names = ("src/vram", "src/libvram.so", "src/libvram_report.so", "src/libvram_tap.so")
    yield from (release / name for name in names if (release / name).is_file())
    yield from sorted(release.glob("tests/fake_*/**/*.so*"))


def _python() -> Iterable[str | Path]:
    """What tests depend on that use the Python package and not the library."""
    yield sys.version
    for path in source_files(""):
        if path.parts[0] in ("python", "examples", "tools") or path.parts[:2] in (
            ("tests", "package"),
            ("bench", "prediction"),
        ):
            yield from (str(path), ROOT / path)


def _web() -> Iterable[str | Path]:
    """What the pages are made from: web/, the recordings of the tests, and the program that writes pages."""
    for path in source_files(""):
        if path.parts[0] in ("web", "demo"):
            yield from (str(path), ROOT / path)
    yield BUILD / "release" / "src" / "vram"


CHECKS: list[Step | Together] = [
    Step("format", check_format, _whole),
    Step("layers", check_layers, _whole),
    Step("sizes", check_sizes, _whole),
    Step("links", check_links, _whole),
    Step("paths", check_paths, _whole),
    Step("symbols", check_symbols, _whole),
    Step("words", check_words, _whole),
    Step("figures", check_figures, _whole),
    Step("alert rules", check_alert_rules, _whole),
    Step("catalogue", check_catalogue, _whole),
    Step("python", check_python, _whole),
]
QUICK: list[Step | Together] = [
    *CHECKS,
    Step("tools", test_tools, _whole),
    Step("build", build_release),
    Step("units", test_units),
    Step("golden", test_golden, _products),
    Step("corpora", test_corpora),
    Together(
        (
            (Step("use", test_use, _products),),
            (Step("package", test_package, _products),),
            (Step("recovery", test_recovery, _python), Step("site", test_site, _whole)),
            (Step("web", test_web, _web),),
            (Step("wheel", test_wheel, _whole),),
        )
    ),
    Step("asan", test_asan_quick),
]
DEEP: list[Step | Together] = [
    Step("build", build_release),
    # Two lanes of about the same length: at the ends of builds and in waiting tests, one of them would leave cores idle.
    Together(
        (
            (
                Step("wheels", test_wheels, _whole),
                Step("frameworks", test_frameworks, _products),
                Step("tidy", check_tidy),
            ),
            (
                Step("slow", test_slow),
                Step("asan", test_asan),
                Step("used-asan", test_use_asan, _whole),
                Step("fuzz", test_fuzz),
                Step("tsan", test_tsan),
            ),
        )
    ),
]
STEPS: dict[str, list[Step | Together]] = {
    "check": CHECKS,
    "quick": QUICK,
    "deep": DEEP,
    "bench": [Step("bench", bench)],
}

if __name__ == "__main__":
    wanted = sys.argv[1] if len(sys.argv) == 2 else ""
    if wanted not in STEPS:
        sys.exit(f"usage: {sys.argv[0]} {'|'.join(STEPS)}")
    sys.exit(run_steps(STEPS[wanted], Stamps(BUILD / "passed")))
