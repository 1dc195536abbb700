"""Runs each fuzzer for a while, starting from the tests' inputs and those of earlier runs; or replays the inputs only.

A fuzzer whose binary has already run for the full time gets a few seconds only.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from source_files import ROOT
from steps import StepFailed, call, cores, digest, last_line, shared_stamps

SHORT_SECONDS = 5
# The fuzzers of file readers.
READERS = ("foreign", "torch_snapshot", "vtrace")


def subjects() -> list[str]:
    return [source.stem.removeprefix("fuzz_") for source in sorted((ROOT / "fuzz").glob("fuzz_*.cpp"))]


def replay(build: Path, wanted: Iterable[str] = ()) -> str:
    """Runs each fuzzer's function once on each of its inputs."""
    counts = []
    for subject in wanted or subjects():
        output = call(build / "fuzz" / f"replay_{subject}", *_seeds(subject), timeout=300)
        counts.append(f"{subject} {last_line(output)} files")
    return ", ".join(counts)


def check(build: Path) -> str:
    seconds = int(os.environ.get("FUZZ_SECONDS", "60"))
    fuzzers = [build / "fuzz" / f"fuzz_{subject}" for subject in subjects()]
    stamps = shared_stamps("fuzz")

    def run(fuzzer: Path) -> tuple[str, str]:
        key = digest([fuzzer, str(seconds)])
        time = min(SHORT_SECONDS, seconds) if stamps.has(key) else seconds
        complaint, executions = _run(build, fuzzer, time)
        if not complaint:
            stamps.add(key)
        return complaint, f"{fuzzer.name.removeprefix('fuzz_')} {time} s ({executions} runs)"

    with ThreadPoolExecutor(cores()) as pool:
        results = list(pool.map(run, fuzzers))
    if complaints := [complaint for complaint, _ in results if complaint]:
        raise StepFailed("\n".join(complaints))
    return ", ".join(remark for _, remark in results)


def _run(build: Path, fuzzer: Path, seconds: int) -> tuple[str, str]:
    found = build / "corpus" / fuzzer.name  # new inputs go to the first folder
    found.mkdir(parents=True, exist_ok=True)
    artifacts = build / "artifacts"
    artifacts.mkdir(exist_ok=True)
    seeds = _seeds(fuzzer.name.removeprefix("fuzz_"))
    dictionary = ROOT / "fuzz" / f"{fuzzer.name}.dict"
    done = subprocess.run(
        [
            str(fuzzer),
            f"-max_total_time={seconds}",
            "-timeout=10",
            "-rss_limit_mb=2048",
            "-print_final_stats=1",
            f"-artifact_prefix={artifacts}/{fuzzer.name}-",
            *([f"-dict={dictionary}"] if dictionary.exists() else []),
            str(found),
            *(str(folder) for folder in seeds),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        timeout=seconds + 300,
    )
    lines = done.stdout.splitlines()
    runs = next((line.split()[-1] for line in lines if "number_of_executed_units" in line), "?")
    if done.returncode == 0:
        return "", runs
    return f"{fuzzer.name}: exit code {done.returncode}\n" + "\n".join(lines[-60:]), runs


def _seeds(subject: str) -> list[Path]:
    return [ROOT / "fuzz" / "corpus" / subject, ROOT / "tests" / "data"]
