"""Runs named steps one after another, times them, and says at the end how it went.

A step prints nothing while it goes well; when it fails, its output follows its name. `Stamps` remember what has passed,
by a hash of everything that could change the outcome.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from source_files import ROOT


class StepFailed(Exception):
    """Carries the output that explains the failure."""


Step = Callable[[], str]  # does it, and gives a remark for people ("14 files, 2 looked at")


def call(*command: str | Path, env: dict[str, str] | None = None) -> str:
    """Runs a command from the root and gives what it printed, or fails the step with it."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=ROOT,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        shown = " ".join(str(word) for word in command)
        raise StepFailed(f"$ {shown if len(shown) < 400 else shown[:400] + ' …'}\n{done.stdout}")
    return done.stdout


def last_line(output: str) -> str:
    lines = output.strip().splitlines()
    return lines[-1] if lines else ""


def run_steps(steps: Sequence[tuple[str, Step]]) -> int:
    """Runs all of them, whatever fails; the last line printed is 'N passed, N failed'."""
    failed: list[str] = []
    started = time.monotonic()
    for name, step in steps:
        if sys.stdout.isatty():
            print(f"{name} …", end="\r", flush=True)
        begin = time.monotonic()
        try:
            remark, ok = step(), True
        except StepFailed as failure:
            remark, ok = f"FAILED\n{failure}", False
            failed.append(name)
        print(f"{name:<8} {time.monotonic() - begin:6.1f} s  {remark}", flush=True)
        if not ok:
            print(flush=True)
    minutes, seconds = divmod(int(time.monotonic() - started), 60)
    print(f"\n{minutes} min {seconds} s" + (f"; failed: {', '.join(failed)}" if failed else ""))
    print(f"{len(steps) - len(failed)} passed, {len(failed)} failed")
    sys.stdout.flush()
    return 1 if failed else 0


class Stamps:
    """What has passed before: one empty file a key, kept for all clones of this user (keys hold no clone's path)."""

    def __init__(self, name: str) -> None:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        self._folder = cache / "vram-checks" / name

    def has(self, key: str) -> bool:
        return (self._folder / key).exists()

    def add(self, key: str) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / key).touch()


def digest(parts: Iterable[str | Path]) -> str:
    """One hash over texts and over the contents of files."""
    whole = hashlib.sha256()
    for part in parts:
        content = part.read_bytes() if isinstance(part, Path) else part.encode()
        whole.update(len(content).to_bytes(8, "little") + content)
    return whole.hexdigest()
