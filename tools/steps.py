"""Runs named steps in sequence or in parallel, measures their time, and prints a summary.

A step that passes prints one line; if it fails, its output follows its name. A step that lists its inputs is skipped if it
passed before with the same inputs. `Stamps` stores this by a hash of everything that could change the outcome.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from source_files import ROOT

# Seconds after which a hanging command fails its step. Single tests have much shorter deadlines.
DEADLINE = 3600


class StepFailed(Exception):
    """Carries the output that explains the failure."""


@dataclass(frozen=True)
class Step:
    name: str
    run: Callable[[], str]  # runs the step and returns a remark for people ("14 files")
    inputs: Callable[[], Iterable[str | Path]] | None = None  # everything that the outcome depends on; None: always run


@dataclass(frozen=True)
class Together:
    """Lanes that run in parallel, because their steps leave cores idle; the steps of one lane run in sequence."""

    lanes: tuple[tuple[Step, ...], ...]


# The sessions of the running commands. Neither Ctrl-C nor the end of this program ends them.
RUNNING: set[int] = set()
# Set before these are ended: a thread that starts a command after that ends it again.
ENDING = threading.Event()

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


def call(*command: str | Path, env: dict[str, str] | None = None, timeout: float = DEADLINE) -> str:
    """Runs a command in the root folder and returns its output, or fails the step with it.

    A command that does not end within `timeout` seconds is killed with its children.
    """
    shown = " ".join(str(word) for word in command)
    shown = shown if len(shown) < 400 else shown[:400] + " …"
    with tempfile.TemporaryFile() as printed:  # not a pipe: a child that outlives the command would keep it open
        process = subprocess.Popen(
            [str(word) for word in command],
            cwd=ROOT,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        RUNNING.add(process.pid)
        if ENDING.is_set():
            os.killpg(process.pid, signal.SIGKILL)
        try:
            process.wait(timeout)
            late = ""
        except subprocess.TimeoutExpired:
            late = f"\nended after its limit of {timeout:.0f} s"
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(60)
        finally:
            RUNNING.discard(process.pid)
        printed.seek(0)
        output = printed.read().decode(errors="replace")
    if late or process.returncode != 0:
        raise StepFailed(f"$ {shown}\n{output}{late}")
    return output


def cores() -> int:
    """Returns the number of processor cores that this process may use."""
    return len(os.sched_getaffinity(0))


def is_fresh() -> bool:
    """Returns whether all steps run, even those that passed before."""
    return os.environ.get("FRESH", "0") not in ("", "0")


def last_line(output: str) -> str:
    lines = output.strip().splitlines()
    return lines[-1] if lines else ""


def run_steps(steps: Sequence[Step | Together], passed: Stamps | None = None) -> int:
    """Runs all steps, even after failures; the last line printed is 'N passed, N failed, N skipped'."""
    outcomes: list[tuple[Step, str]] = []
    for ending in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(ending) != signal.SIG_IGN:  # nohup ignores it
            signal.signal(ending, signal.default_int_handler)  # like Ctrl-C, so the commands end, too
    started = time.monotonic()
    for group in steps:
        lanes = group.lanes if isinstance(group, Together) else ((group,),)
        if sys.stdout.isatty():
            print(f"{', '.join(step.name for lane in lanes for step in lane)} …", end="\r", flush=True)
        threads = ThreadPoolExecutor(len(lanes))
        try:
            for ended in threads.map(lambda lane: [(step, _outcome(step, passed)) for step in lane], lanes):
                outcomes += ended
        except BaseException:
            ENDING.set()
            for pid in list(RUNNING):
                os.killpg(pid, signal.SIGKILL)
            raise
        finally:
            threads.shutdown(cancel_futures=True)
    minutes, seconds = divmod(int(time.monotonic() - started), 60)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_minutes = (used.ru_utime + used.ru_stime) / 60  # the time on one idle core
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
            outcome, remark = SKIPPED, "skipped: its inputs have not changed since it passed"
        else:
            outcome, remark = PASSED, step.run()
            # If an input changed while the step ran, the step may not have read the change.
            if passed and step.inputs and key == digest([step.name, *step.inputs()]):
                passed.add(key)
    except StepFailed as failure:
        outcome, remark = FAILED, f"FAILED\n{failure}\n"
    except Exception:  # a missing tool, a full disk: the other steps still run
        outcome, remark = FAILED, f"FAILED\n{traceback.format_exc()}\n"
    print(f"{step.name:<11} {time.monotonic() - begin:6.1f} s  {remark}", flush=True)
    return outcome


class Stamps:
    """The keys of steps that passed: one empty file per key, in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def has(self, key: str) -> bool:
        return not is_fresh() and (self._folder / key).exists()

    def add(self, key: str) -> None:
        with contextlib.suppress(OSError):  # if the folder is not writable, the next run repeats the step
            self._folder.mkdir(parents=True, exist_ok=True)
            (self._folder / key).touch()


def shared_stamps(name: str) -> Stamps:
    """Returns stamps that all clones of this user share; their keys must not depend on a clone's path."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Stamps(cache / "vram-checks" / name)


def digest(parts: Iterable[str | Path]) -> str:
    """Returns one hash of texts and of the contents of files."""
    whole = hashlib.sha256()
    for part in parts:
        content = part.read_bytes() if isinstance(part, Path) else part.encode()
        whole.update(len(content).to_bytes(8, "little") + content)
    return whole.hexdigest()
