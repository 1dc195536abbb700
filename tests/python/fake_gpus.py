"""GPUs for `vram status` that a test defines: the fake management library (tests/fake_nvml) and its scenario."""

import inspect
import json
import os
import pathlib
import select
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any

from program import BINARY, environment, vram

GENERATIONS = ("1", "2", "535", "3")
MIB = 1 << 20
PATIENCE_S = 60  # a machine may be busy; what is waited for comes in a fraction of it


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"waited {PATIENCE_S} s in vain: {inspect.getsource(holds).strip()}"
        time.sleep(0.02)


class Machine:
    """What the fake library of one generation shows: a scenario (tests/fake_nvml/README.md), to be changed at any time."""

    def __init__(self, folder: pathlib.Path, scenario: str, generation: str = "3") -> None:
        library = pathlib.Path(BINARY).parents[1] / f"tests/fake_nvml/{generation}/libnvidia-ml.so.1"
        self._scenario = folder / "scenario"
        self._calls = folder / "calls"
        self.environment = {
            "VRAM_NVML": str(library),
            "FAKE_NVML_SCENARIO": str(self._scenario),
            "FAKE_NVML_CALLS": str(self._calls),
        }
        self.become(scenario)

    def become(self, scenario: str) -> None:
        written = self._scenario.with_suffix(".new")
        written.write_text(scenario)
        written.rename(self._scenario)

    def last_call(self) -> str:
        """The library's function and the index of its device; "" before the first."""
        calls = self._calls.read_text().splitlines() if self._calls.exists() else []
        return calls[-1] if calls else ""

    def status(self, *options: str, **changes: str) -> "subprocess.CompletedProcess[str]":
        """This machine's GPUs may be real, too: only the library is asked."""
        return vram("status", "--gpu", "nvml", *options, **self.environment, **changes)

    def look(self) -> Any:
        done = self.status("--json")
        assert (done.returncode, done.stderr) == (0, "")
        return json.loads(done.stdout)


class Watch:
    """`vram status --watch 0.2 --json` over a pipe, document by document; ended as by Ctrl-C."""

    def __init__(self, machine: Machine) -> None:
        words = [BINARY, "status", "--gpu", "nvml", "--watch", "0.2", "--json"]
        self.process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=environment(**machine.environment)
        )
        self._unread = b""

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(timeout=60)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout=5)

    def until(self, holds: Callable[[Any], bool]) -> Any:
        """The first document that the condition holds of."""
        deadline = time.monotonic() + PATIENCE_S
        found = None
        while time.monotonic() < deadline:
            found = self._next(deadline)
            if found is not None and holds(found):
                return found
        raise AssertionError(f"nothing of the kind; the last document: {json.dumps(found)}")

    def _next(self, deadline: float) -> Any:
        assert self.process.stdout is not None
        pipe = self.process.stdout.fileno()
        while b"\n}\n" not in self._unread:  # the only brace at the beginning of a line is a document's last
            ready = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]
            if not ready:
                return None
            piece = os.read(pipe, 1 << 16)
            assert piece, f"the program has ended: {self.process.wait(timeout=60)}"
            self._unread += piece
        document, self._unread = self._unread.split(b"\n}\n", 1)
        return json.loads(document + b"}")
