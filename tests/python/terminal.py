"""A real terminal (tmux) for tests: what a user sees and types."""

import itertools
import pathlib
import shlex
import subprocess

from fake_gpus import wait_until
from program import environment

NUMBERS = itertools.count()


class Terminal:
    """A shell in tmux: what is on its screen is what a person sees."""

    def __init__(self, folder: pathlib.Path, variables: dict[str, str], columns: int = 100, rows: int = 24) -> None:
        # A separate socket: a server that is ending keeps its socket for a while.
        self._socket = folder / f"tmux{next(NUMBERS)}"
        shell = ["env", *(f"{name}={value}" for name, value in variables.items()), "PS1=$ ", "sh"]
        size = ("-x", str(columns), "-y", str(rows))
        self._tmux("-f", "/dev/null", "new-session", "-d", "-c", str(folder), *size, shlex.join(shell))
        wait_until(lambda: self.lines() == ["$"])

    def _tmux(self, *words: str) -> str:
        words = ("tmux", "-S", str(self._socket), *words)
        return subprocess.run(words, capture_output=True, text=True, check=True, env=environment(), timeout=120).stdout

    def run(self, command: str) -> None:
        self._tmux("send-keys", command, "Enter")

    def press(self, *keys: str) -> None:
        for key in keys:
            self._tmux("send-keys", key)

    def type(self, text: str) -> None:
        """As it is: no name of a key, and no Enter."""
        self._tmux("send-keys", "-l", text)

    def styled(self) -> str:
        """The screen with its escape codes."""
        return self._tmux("capture-pane", "-p", "-e")

    def shows(self, *texts: str) -> bool:
        screen = "\n".join(self.lines())
        return all(text in screen for text in texts)

    def resize(self, columns: int, rows: int) -> None:
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def lines(self) -> list[str]:
        return [line.rstrip() for line in self._tmux("capture-pane", "-p").rstrip("\n").split("\n")]

    def state(self, name: str) -> str:
        return self._tmux("display-message", "-p", f"#{{{name}}}").strip()

    def close(self) -> None:
        self._tmux("kill-server")
