#!/usr/bin/env python3
"""Golden tests: commands, and exactly what they print.

A case is a folder with a file `cmd`, and what is expected in `stdout`, `stderr` and `code` (absent: empty, empty, 0).
`cmd` holds one command a line, in which `vram` is the program under test; leading NAME=value words set its environment.
The lines run in order in a scratch folder of the case; a failing line ends the case. In `cmd`

    data, demo   are tests/data and demo: links in the scratch folder, so that their paths are the same everywhere
    | head N, | outline N, | json KEY...
             keep the first lines; every Nth line and a digest of each N; or only these (dotted) keys of what the line prints

    run.py [--rebaseline] [--jobs N] BINARY [CASE...]

runs every case (or those whose path contains a CASE), N at a time, prints a unified diff for each difference, the cases
that took longest, and ends with a plain count. --rebaseline writes what was printed as the new expectation. A command
that takes longer than TIMEOUT_S is ended, and its case fails.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import difflib
import hashlib
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TIMEOUT_S = 600  # under emulation, while a compiler runs, the slowest command takes over 120 s


SLOW_S = 1.0  # from so long on a case is listed at the end
MOST_SLOW = 5


class Outcome(NamedTuple):
    stdout: str
    stderr: str
    code: int


def environment() -> dict[str, str]:
    """The same screen everywhere: 100 columns, UTF-8, no colours."""
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    return {
        **kept,
        "HOME": "/nonexistent",
        "LANG": "C.UTF-8",
        "COLUMNS": "100",
        "TERM": "xterm",
        "ASAN_OPTIONS": "detect_leaks=0",
    }


def pick(document: object, dotted: str) -> object:
    for part in dotted.split("."):
        document = document[int(part)] if isinstance(document, list) else document[part]  # type: ignore[index]
    return document


def outline(lines: list[str], step: int) -> Iterator[str]:
    """A long text in few lines: where it differs from another, the outlines differ in the blocks concerned."""
    for first in range(0, len(lines), step):
        block = lines[first : first + step]
        digest = hashlib.sha256("".join(block).encode()).hexdigest()[:16]
        yield f"lines {first + 1} to {first + len(block)}: {digest}, of which the first is\n"
        yield block[0]


def filtered(stdout: str, words: list[str]) -> str:
    if words[0] == "head":
        return "".join(stdout.splitlines(keepends=True)[: int(words[1])])
    if words[0] == "outline":
        return "".join(outline(stdout.splitlines(keepends=True), int(words[1])))
    if words[0] == "json":
        document = json.loads(stdout)
        return "".join(f"{key} = {json.dumps(pick(document, key), ensure_ascii=False)}\n" for key in words[1:])
    raise SystemExit(f"unknown filter {words}")


def run_line(line: str, binary: str, folder: str) -> Outcome:
    command, *filters = [part.strip() for part in line.split(" | ")]
    words = shlex.split(command)
    variables = environment()
    while "=" in words[0]:
        name, value = words.pop(0).split("=", 1)
        variables[name] = value
    if words[0] == "vram":
        words[0] = binary
    done = subprocess.run(
        words, cwd=folder, env=variables, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S, check=False
    )
    stdout = done.stdout.decode("utf-8", "backslashreplace")
    for text in filters if done.stdout else []:
        stdout = filtered(stdout, text.split())
    return Outcome(stdout, done.stderr.decode("utf-8", "backslashreplace"), done.returncode)


def run_case(case: pathlib.Path, binary: str) -> Outcome:
    total = Outcome("", "", 0)
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(ROOT / "tests" / "data", os.path.join(folder, "data"))
        os.symlink(ROOT / "demo", os.path.join(folder, "demo"))
        for line in (case / "cmd").read_text().splitlines():
            if not line.strip() or line.startswith("#"):
                continue
            outcome = run_line(line, binary, folder)
            total = Outcome(total.stdout + outcome.stdout, total.stderr + outcome.stderr, outcome.code)
            if outcome.code != 0:
                break
        leftovers = sorted(name for name in os.listdir(folder) if ".tmp" in name)
    stderr = total.stderr + "".join(f"left behind: {name}\n" for name in leftovers)
    return Outcome(total.stdout, stderr, total.code)


def expected(case: pathlib.Path) -> Outcome:
    def read(name: str, default: str) -> str:
        file = case / name
        return file.read_bytes().decode() if file.exists() else default

    return Outcome(read("stdout", ""), read("stderr", ""), int(read("code", "0")))


def write_expected(case: pathlib.Path, outcome: Outcome) -> None:
    contents = (
        ("stdout", outcome.stdout),
        ("stderr", outcome.stderr),
        ("code", "" if outcome.code == 0 else f"{outcome.code}\n"),
    )
    for name, content in contents:
        if content:
            (case / name).write_bytes(content.encode())
        elif (case / name).exists():
            (case / name).unlink()


def differences(case: pathlib.Path, want: Outcome, got: Outcome) -> str:
    name = case.relative_to(HERE)
    text = ""
    for part in ("stdout", "stderr"):
        before, after = (getattr(side, part).splitlines(keepends=True) for side in (want, got))
        text += "".join(difflib.unified_diff(before, after, f"{name}/{part} (expected)", f"{name}/{part} (printed)"))
    if want.code != got.code:
        text += f"{name}: expected exit code {want.code}, got {got.code}\n"
    return text


class Checked(NamedTuple):
    case: pathlib.Path
    difference: str
    got: Outcome | None  # none: the case itself could not be run
    seconds: float


def check(case: pathlib.Path, binary: str) -> Checked:
    begin = time.monotonic()
    try:
        got = run_case(case, binary)
        difference = differences(case, expected(case), got)
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError, IndexError, TypeError) as error:
        got, difference = None, f"{case.relative_to(HERE)}: {type(error).__name__}: {error}\n"
    return Checked(case, difference, got, time.monotonic() - begin)


def slowest(checked: list[Checked]) -> str:
    slow = sorted((each for each in checked if each.seconds >= SLOW_S), key=lambda each: -each.seconds)
    return "".join(f"{each.seconds:6.1f} s  {each.case.relative_to(HERE)}\n" for each in slow[:MOST_SLOW])


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the golden tests.")
    parser.add_argument("--rebaseline", action="store_true", help="write what is printed as the new expectation")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count(), help="how many cases at a time (default: one a core)"
    )
    parser.add_argument("binary", help="the vram program")
    parser.add_argument("cases", nargs="*", help="only cases whose path contains one of these")
    options = parser.parse_args()
    binary = os.path.abspath(options.binary)
    cases = sorted(file.parent for file in HERE.glob("*/*/cmd"))
    cases = [case for case in cases if not options.cases or any(name in str(case) for name in options.cases)]
    failed, checked = 0, []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for each in pool.map(lambda case: check(case, binary), cases):
            checked.append(each)
            sys.stdout.write(each.difference)
            if each.difference and options.rebaseline and each.got is not None:
                write_expected(each.case, each.got)
            elif each.difference:
                failed += 1
    sys.stdout.write(slowest(checked))
    print(f"{len(cases) - failed} passed, {failed} failed")
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
