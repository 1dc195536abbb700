"""A real process with a status page, for tests of its readers."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest
from program import BINARY, ROOT

POSTER = """
import sys, time, vram
from vram._frameworks import Figures
from vram.monitoring import _board
from vram.monitoring._board import post_step
mib = 1 << 20
class Counted:
    devices = staticmethod(lambda: [0])
    figures = staticmethod(lambda _: Figures(60 * mib, 100 * mib, 90 * mib, None, 3, 1, 412, 57))
_board.used_framework = lambda: Counted
board = vram.Board()
use = vram.DeviceUse(0, 60 * mib, 100 * mib, 0, 0, 90 * mib)
board(vram.Measurement(sys.argv[2], 1, 0, 0, devices=(use,)))
post_step(12, 5_000_000)
print("posted", flush=True)
time.sleep(600)
"""


def skip_without_library() -> None:
    if pathlib.Path(BINARY).parents[1].name in {"asan", "tsan"}:
        pytest.skip("builds with sanitizers have no libvram.so")


class Poster:
    """A real process with its own status page, and with texts that the test chooses."""

    def __init__(self, word: str | bytes, scope: str, board: pathlib.Path | None = None) -> None:
        self.words: list[str | bytes] = [sys.executable, "-", word, scope]
        changed = {
            "PYTHONPATH": str(ROOT / "python"),
            "VRAM_LIBRARY": str(pathlib.Path(BINARY).with_name("libvram.so")),
        }
        variables = {name: value for name, value in os.environ.items() if name != "VRAM_BOARD"}
        if board:
            variables["VRAM_BOARD"] = str(board)
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(self.words, stdin=pipe, stdout=pipe, text=True, env={**variables, **changed})
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(POSTER)
        self.process.stdin.close()
        assert self.process.stdout.readline() == "posted\n"

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def page(self) -> pathlib.Path:
        return pathlib.Path(f"/dev/shm/vram-{os.geteuid()}/{self.pid}")

    def start_ticks(self) -> int:
        return int(pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[19])

    def kill(self) -> None:
        """It can't take its page away any more; until `bury` the kernel still has its number."""
        self.process.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)

    def bury(self) -> None:
        self.process.wait(timeout=60)

    def close(self) -> None:
        if self.process.returncode is None:
            self.kill()
            self.bury()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.page.unlink(missing_ok=True)
