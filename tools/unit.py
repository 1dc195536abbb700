"""Runs the C++ tests of a build folder by ctest, in parallel; programs that passed and have not changed are skipped."""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from pathlib import Path

from source_files import ROOT, source_files
from steps import Stamps, StepFailed, call, cores, digest

# Slower tests are listed at the end of a run.
SLOW_SECONDS = 5.0
# Set to scale tests: property tests then run ten times as long, or longer.
DEEP = "VRAM_DEEP"


def check(build: Path, modules: Iterable[str] = (), *, deep: bool = False) -> str:
    """Runs the tests of these modules, or all; returns how many passed and which were slow."""
    wanted = {f"{module}_test" for module in modules}
    programs = [
        path for path in sorted(build.rglob("*_test")) if path.is_file() and (not wanted or path.name in wanted)
    ]
    if not programs:
        raise StepFailed(f"expected programs of tests in {build}, found none: build it first")
    stamps = Stamps(build / "passed")
    common = [str(deep), *_shared_inputs(build)]
    keys = {path.name: digest([*common, path]) for path in programs}
    todo = [name for name, key in keys.items() if not stamps.has(key)]
    if not todo:
        return f"skipped: {len(keys)} programs that passed are as they were"
    results = build / "units.xml"
    results.unlink(missing_ok=True)
    command = ["ctest", "--test-dir", str(build), "--no-tests=error", "--output-on-failure"]
    command += ["--parallel", str(cores()), "--output-junit", str(results)]
    command += ["--label-regex", f"^({'|'.join(todo)})$"]
    environment = {name: value for name, value in os.environ.items() if name != DEEP} | ({DEEP: "1"} if deep else {})
    try:
        output = call(*command, env=environment)
    except StepFailed:
        ran = _read(results)  # empty if ctest itself was ended
        broken = {name.split(":")[0] for name, _, failed in ran if failed}
        for name in {name.split(":")[0] for name, _, _ in ran} & set(todo) - broken:
            stamps.add(keys[name])
        raise
    for name in todo:
        stamps.add(keys[name])
    kept = f"; {len(keys) - len(todo)} programs as they were" if len(todo) < len(keys) else ""
    slow = sorted(((seconds, name) for name, seconds, _ in _read(results) if seconds >= SLOW_SECONDS), reverse=True)
    return summary(output) + kept + "".join(f"\n{'':22}{seconds:7.1f} s  {name}" for seconds, name in slow)


def summary(output: str) -> str:
    """Returns the line of ctest's output that states the counts."""
    found = re.search(r"\d+% tests passed, .*", output)
    if not found:
        raise StepFailed(f"ctest ended without a summary:\n{output}")
    return found[0]


def _shared_inputs(build: Path) -> list[str | Path]:
    """Yields the files that test programs read: test data, and the libraries that replace drivers."""
    data = [path for folder in ("tests/data", "demo", "deploy", "docs") for path in source_files("", under=folder)]
    read = [ROOT / "README.md", *(ROOT / path for path in data)]
    return [*(str(path) for path in data), *read, *sorted(build.glob("tests/fake_*/**/*.so*"))]


def _read(results: Path) -> list[tuple[str, float, bool]]:
    """Returns name, seconds and failure of each test in ctest's report."""
    if not results.is_file():
        return []
    cases = ET.parse(results).getroot().iter("testcase")  # trusted: ctest wrote it
    return [(case.get("name", ""), float(case.get("time", 0)), case.get("status") != "run") for case in cases]
