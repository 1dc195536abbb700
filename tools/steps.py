"""Runs named steps one after another, or some beside each other, times them, and says at the end how it went.

A step prints nothing while it goes well; when it fails, its output follows its name. A step that names what it depends on
is skipped where it passed with the same before. `Stamps` remember that, by a hash of everything that could change the
outcome.
"""

from __future__ import annotations

import hashlib
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from source_files import ROOT

# Seconds after which a command that hangs ends its step. Single tests have far shorter deadlines of their own.
DEADLINE = 3600


class StepFailed(Exception):
    """Carries the output that explains the failure."""


@dataclass(frozen=True)
class Step:
    name: str
    run: Callable[[], str]  # does it, and gives a remark for people ("14 files")
    inputs: Callable[[], Iterable[str | Path]] | None = None  # what the outcome depends on; None: always run


@dataclass(frozen=True)
class Together:
    """Steps that run beside each other: they wait more than they compute."""

    steps: tuple[Step, ...]


PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


def call(*command: str | Path, env: dict[str, str] | None = None, timeout: float = DEADLINE) -> str:
    """Runs a command from the root and gives what it printed, or fails the step with it.

    A command that does not end within `timeout` seconds is killed with all that it started.
    """
    shown = " ".join(str(word) for word in command)
    shown = shown if len(shown) < 400 else shown[:400] + " …"
    process = subprocess.Popen(
        [str(word) for word in command],
        cwd=ROOT,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        raise StepFailed(f"$ {shown}\n{output}\nended after its limit of {timeout:.0f} s") from None
    except BaseException:  # Ctrl-C: the command is in a session of its own, so it does not hear of it
        os.killpg(process.pid, signal.SIGKILL)
        raise
    if process.returncode != 0:
        raise StepFailed(f"$ {shown}\n{output}")
    return output


def last_line(output: str) -> str:
    lines = output.strip().splitlines()
    return lines[-1] if lines else ""


def run_steps(steps: Sequence[Step | Together], passed: Stamps | None = None) -> int:
    """Runs all of them, whatever fails; the last line printed is 'N passed, N failed, N skipped'."""
    outcomes: list[tuple[Step, str]] = []
    started = time.monotonic()
    for group in steps:
        together = group.steps if isinstance(group, Together) else (group,)
        if sys.stdout.isatty():
            print(f"{', '.join(step.name for step in together)} …", end="\r", flush=True)
        with ThreadPoolExecutor(len(together)) as threads:
            outcomes += threads.map(lambda step: (step, _outcome(step, passed)), together)
    minutes, seconds = divmod(int(time.monotonic() - started), 60)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_minutes = (used.ru_utime + used.ru_stime) / 60  # what the time would be on one core with nothing else to do
    names = {
        outcome: [step.name for step, ended in outcomes if ended == outcome] for outcome in (PASSED, FAILED, SKIPPED)
    }
    print(
        f"\n{minutes} min {seconds} s, {cpu_minutes:.1f} CPU-minutes"
        + (f"; failed: {', '.join(names[FAILED])}" if names[FAILED] else "")
    )
    if names[SKIPPED]:
        print(f"unchanged since they passed: {', '.join(names[SKIPPED])} (FRESH=1 runs them again)")
    print(", ".join(f"{len(found)} {outcome}" for outcome, found in names.items()))
    sys.stdout.flush()
    return 1 if names[FAILED] else 0


def _outcome(step: Step, passed: Stamps | None) -> str:
    begin = time.monotonic()
    try:
        key = digest([step.name, *step.inputs()]) if passed and step.inputs else ""
        if passed and key and passed.has(key):
            outcome, remark = SKIPPED, "skipped: nothing that it depends on has changed since it passed"
        else:
            outcome, remark = PASSED, step.run()
            if passed and key:
                passed.add(key)
    except StepFailed as failure:
        outcome, remark = FAILED, f"FAILED\n{failure}\n"
    print(f"{step.name:<11} {time.monotonic() - begin:6.1f} s  {remark}", flush=True)
    return outcome


class Stamps:
    """What has passed before: one empty file a key, in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def has(self, key: str) -> bool:
        return (self._folder / key).exists()

    def add(self, key: str) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / key).touch()


def shared_stamps(name: str) -> Stamps:
    """Stamps that all clones of this user share: their keys may hold no clone's path."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Stamps(cache / "vram-checks" / name)


def digest(parts: Iterable[str | Path]) -> str:
    """One hash over texts and over the contents of files."""
    whole = hashlib.sha256()
    for part in parts:
        content = part.read_bytes() if isinstance(part, Path) else part.encode()
        whole.update(len(content).to_bytes(8, "little") + content)
    return whole.hexdigest()
