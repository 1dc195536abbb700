"""vram report --interactive on a real terminal (tmux): keys, sizes, signals, and the state of the terminal afterwards.

VRAM_BINARY names the program under test.
"""

import contextlib
import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fake_gpus import wait_until
from program import BINARY, ROOT, environment, vram, vram_json
from terminal import Terminal
from top_terminal import is_as_it_was, pid_of_top

LEAK = ROOT / "demo" / "leak.stacks.pickle.xz"
UNITS = ["B", "KiB", "MiB", "GiB", "TiB"]

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed (make setup)")


@contextlib.contextmanager
def browsing(
    folder: pathlib.Path, options: str = "", size: tuple[int, int] = (120, 40), **variables: str
) -> Iterator[Terminal]:
    variables = {**environment(), "BINARY": BINARY, "TERM": "screen", "TRACE": str(LEAK), **variables}
    terminal = Terminal(folder, variables, *size)
    try:
        terminal.run(f'stty -a > before; clear; "$BINARY" report "$TRACE" --interactive {options}; echo code $?')
        wait_until(lambda: terminal.shows("vram report  ", "rows"))
        yield terminal
    finally:
        terminal.close()


def bytes_of(value: str, unit: str) -> float:
    return float(value) * 1024.0 ** UNITS.index(unit)


def shown_rows(terminal: Terminal) -> list[tuple[float, int, str]]:
    """The bytes, blocks and name of each holder on the screen."""
    line = re.compile(
        r"^\s*([\d.]+) ([KMGT]?i?B)\s+\S+ %\s+([\d,]+)\s+[\d.]+ [KMGT]?i?B\s+(?:before|[\d.,]+ \S+|event [\d,]+)\s+(.+)$"
    )
    found = [line.match(each) for each in terminal.lines()]
    return [(bytes_of(m[1], m[2]), int(m[3].replace(",", "")), m[4]) for m in found if m]


def holders_of(state: dict[str, Any], by: str) -> list[dict[str, Any]]:
    return next(each["holders"] for each in state["breakdowns"] if each["by"] == by)


def are_equal(terminal: Terminal, holders: list[dict[str, Any]]) -> bool:
    rows = shown_rows(terminal)
    return len(rows) > 0 and all(
        name == holder["name"]
        and count == holder["count"]
        and size == pytest.approx(holder["requested_bytes"], rel=0.006)
        for (size, count, name), holder in zip(rows, holders, strict=False)
    )


def device_of(report: dict[str, Any]) -> dict[str, Any]:
    device: dict[str, Any] = report["devices"][0]
    return device


def test_numbers_are_those_of_the_report(tmp_path: pathlib.Path) -> None:
    peak = device_of(vram_json("report", LEAK, "--top", 0))["at_peak"]
    step = device_of(vram_json("report", LEAK, "--top", 0, "--at", "step:2"))["at"]
    with browsing(tmp_path) as terminal:
        wait_until(lambda: are_equal(terminal, holders_of(peak, "user_frame")))
        terminal.press("g")
        terminal.type("step:2")
        terminal.press("Enter")
        wait_until(lambda: terminal.shows(f"event {step['event']:,}"))
        wait_until(lambda: are_equal(terminal, holders_of(step, "user_frame")))
        terminal.press("p")
        wait_until(lambda: are_equal(terminal, holders_of(peak, "user_frame")))


def test_keys_lead_from_findings_to_moments_and_back(tmp_path: pathlib.Path) -> None:
    with browsing(tmp_path) as terminal:
        terminal.press("F2")
        wait_until(lambda: terminal.shows("FINDING", "leak"))
        terminal.press("Enter")
        wait_until(lambda: terminal.shows("the moment of: ", "HOLDER"))
        terminal.press("Escape")
        wait_until(lambda: not terminal.shows("the moment of: "))
        terminal.press("F4")
        terminal.type("no such holder")
        terminal.press("Enter")
        wait_until(lambda: terminal.shows("no row is as the filter says", "filter no such holder"))
        terminal.press("Escape")
        wait_until(lambda: not terminal.shows("filter no such holder"))
        terminal.press("F6", "F1")
        wait_until(lambda: terminal.shows("press any to go back"))
        terminal.press("x")
        wait_until(lambda: not terminal.shows("press any to go back"))
        terminal.press("q")
        is_as_it_was(terminal)


@pytest.mark.parametrize("size", [(80, 24), (200, 50), (30, 6)])
def test_a_resized_terminal_is_filled_anew(tmp_path: pathlib.Path, size: tuple[int, int]) -> None:
    with browsing(tmp_path, size=(100, 30)) as terminal:
        terminal.resize(*size)
        wait_until(lambda: len(terminal.lines()) == size[1] and terminal.lines()[-1].startswith("F1Help"))
        terminal.press("q")
        wait_until(lambda: terminal.lines()[-1] == "$")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_restores_the_terminal(tmp_path: pathlib.Path, number: signal.Signals) -> None:
    with browsing(tmp_path) as terminal:
        os.kill(pid_of_top(terminal), number)
        is_as_it_was(terminal)


def test_stopped_and_continued_it_draws_again(tmp_path: pathlib.Path) -> None:
    with browsing(tmp_path) as terminal:
        terminal.press("C-z")
        wait_until(lambda: terminal.state("alternate_on") == "0" and terminal.lines()[-1] == "$")
        terminal.run("clear; fg")
        wait_until(lambda: terminal.shows("vram report  ", "rows"))
        terminal.press("q")
        wait_until(lambda: terminal.lines()[-1] == "$" and terminal.state("alternate_on") == "0")
        assert terminal.state("cursor_flag") == "1"


class Orphan:
    """The program on a terminal of its own without a shell, as under docker run or ssh HOST COMMAND."""

    def __init__(self, *words: str, **variables: str) -> None:
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.execve(BINARY, [BINARY, *words], environment(TERM="xterm", **variables))
        self.output = b""

    def type(self, keys: bytes) -> None:
        os.write(self._terminal, keys)

    def read_until(self, is_done: Callable[[], bool]) -> None:
        os.set_blocking(self._terminal, False)

        def reads() -> bool:
            with contextlib.suppress(BlockingIOError):
                self.output += os.read(self._terminal, 1 << 16)
            return is_done()

        wait_until(reads)

    def state(self) -> str:
        return pathlib.Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]

    def close(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._terminal)


def test_it_does_not_stop_where_nothing_can_continue_it() -> None:
    program = Orphan("report", str(LEAK), "--interactive")
    try:
        program.read_until(lambda: b"F10" in program.output)
        program.output = b""
        program.type(b"\x1a")  # Ctrl-Z
        program.read_until(lambda: program.state() == "T" or b"F10" in program.output)
        assert program.state() != "T"
        program.type(b"q")
        program.read_until(lambda: b"\x1b[?1049l" in program.output)
    finally:
        program.close()


def test_words_are_in_the_codeset_of_the_terminal(tmp_path: pathlib.Path) -> None:
    locale = tmp_path / "zh_CN.GBK"
    with contextlib.suppress(FileNotFoundError):
        subprocess.run(["localedef", "-f", "GBK", "-i", "zh_CN", locale], stderr=subprocess.DEVNULL, timeout=120)
    if not locale.exists():
        pytest.skip("localedef or its GBK is not installed (package locales)")
    program = Orphan("report", str(LEAK), "--interactive", LC_ALL=locale.name, LOCPATH=str(tmp_path))
    try:
        program.read_until(lambda: b"F10" in program.output)
        program.type("/漢".encode("gbk"))
        program.read_until(lambda: "漢" in program.output.decode("gbk", errors="replace"))
        assert "帮助" in program.output.decode("gbk")
    finally:
        program.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1])
def test_a_signal_while_it_reads_restores_the_terminal(tmp_path: pathlib.Path, number: signal.Signals) -> None:
    os.mkfifo(tmp_path / "run.vtrace")  # without a writer, reading takes as long as the test
    terminal = Terminal(tmp_path, {**environment(), "BINARY": BINARY, "TERM": "screen"}, 100, 24)
    try:
        terminal.run('stty -a > before; clear; "$BINARY" report run.vtrace --interactive; echo code $?')
        wait_until(lambda: terminal.shows("reading run.vtrace"))
        os.kill(pid_of_top(terminal), number)
        is_as_it_was(terminal, 1 if number in (signal.SIGINT, signal.SIGTERM) else 128 + number)
    finally:
        terminal.close()


def test_without_colours_the_moment_is_seen(tmp_path: pathlib.Path) -> None:
    with browsing(tmp_path, NO_COLOR="1") as terminal:
        styled = terminal.styled()
        assert "\x1b[7m" in styled
        assert not re.search(r"\x1b\[(?:\d+;)*3[0-7]m", styled)


def test_a_terminal_that_cannot_place_text_is_an_error(tmp_path: pathlib.Path) -> None:
    terminal = Terminal(tmp_path, {**environment(), "BINARY": BINARY, "TRACE": str(LEAK), "TERM": "screen"})
    try:
        terminal.run('TERM=dumb "$BINARY" report "$TRACE" --interactive; echo code $?')
        wait_until(lambda: terminal.shows("code 3"))
        text = "".join(terminal.lines())
        assert "TERM='dumb'" in text
        assert "xterm-256color" in text
    finally:
        terminal.close()


def test_without_a_terminal_it_says_what_to_do() -> None:
    done = vram("report", LEAK, "--interactive")
    assert (done.returncode, done.stdout) == (3, "")
    assert "without --interactive prints the report" in done.stderr


def test_what_excludes_it_is_named(tmp_path: pathlib.Path) -> None:
    for words in (["--json"], ["--html", tmp_path / "x.html"], ["-o", tmp_path / "x.txt"], [LEAK]):
        done = vram("report", LEAK, "--interactive", *words)
        assert done.returncode == 2
        assert "--interactive" in done.stderr


def test_a_file_that_cannot_be_read_restores_the_terminal_first(tmp_path: pathlib.Path) -> None:
    (tmp_path / "empty.pickle").touch()
    variables = {**environment(), "BINARY": BINARY, "TERM": "screen"}
    terminal = Terminal(tmp_path, variables, 100, 24)
    try:
        terminal.run('stty -a > before; clear; "$BINARY" report empty.pickle --interactive; echo code $?')
        is_as_it_was(terminal, 2)
        assert terminal.shows("empty.pickle")
    finally:
        terminal.close()
