"""vram top on a real terminal (tmux): keys, mouse, sizes, signals, and the state of the terminal afterwards.

VRAM_BINARY names the program under test.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import asked_program
import pytest
from fake_gpus import Machine, wait_until
from program import BINARY, IS_SANITIZED, ROOT, environment, vram
from terminal import Terminal
from top_terminal import first_row, is_as_it_was, pid_of_top, rows, top, two_gpus

UNSEEN = 3_000_000_001  # no kernel gives such pids
HANGING = "hang nvmlDeviceGetMemoryInfo_v2 600000\n"  # longer than any test waits

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed (make setup)")
needs_library = pytest.mark.skipif(
    pathlib.Path(BINARY).parents[1].name in {"asan", "tsan"}, reason="builds with sanitizers have no libvram.so"
)


@pytest.fixture(name="children")
def fixture_children() -> Iterator[list[subprocess.Popen[bytes]]]:
    children = [subprocess.Popen(["sleep", str(1000 + number)]) for number in range(4)]
    yield children
    for child in children:
        child.kill()
        child.wait(timeout=60)


@pytest.fixture(name="machine")
def fixture_machine(children: list[subprocess.Popen[bytes]], tmp_path: pathlib.Path) -> Machine:
    return Machine(tmp_path, two_gpus(*(child.pid for child in children)))


def test_keys_change_what_is_shown(
    machine: Machine, children: list[subprocess.Popen[bytes]], tmp_path: pathlib.Path
) -> None:
    with top(machine, tmp_path) as terminal:
        wait_until(lambda: "400 MiB" in first_row(terminal))
        terminal.press("I")
        wait_until(lambda: "100 MiB" in first_row(terminal))
        terminal.press("N")
        wait_until(lambda: first_row(terminal).split()[0] == str(min(child.pid for child in children)))
        terminal.press("F4")
        terminal.type("gpu:1 mem>300M")
        terminal.press("Enter")
        wait_until(lambda: len(rows(terminal)) == 1 and "sleep 1003" in first_row(terminal))
        terminal.press("F4", *["BSpace"] * 20, "Enter", "g")
        wait_until(lambda: len(rows(terminal)) == 2 and terminal.shows("GPU 0 alone"))
        terminal.press("g", "g", "t")
        # This program is the parent of all four, and uses no GPU.
        wait_until(lambda: f"{os.getpid()}" in first_row(terminal) and "parent of 4" in first_row(terminal))
        terminal.press("F1")
        wait_until(lambda: terminal.shows("press any to go back"))
        terminal.press("x")
        wait_until(lambda: not terminal.shows("press any to go back"))
        terminal.press("q")
        is_as_it_was(terminal)


def test_the_mouse_sorts_and_selects(
    machine: Machine, children: list[subprocess.Popen[bytes]], tmp_path: pathlib.Path
) -> None:
    by_pid = sorted(child.pid for child in children)
    with top(machine, tmp_path) as terminal:
        assert terminal.state("mouse_any_flag") == "1"

        def titles() -> int:
            return next(i for i, line in enumerate(terminal.lines()) if "PID" in line)

        def click(column: int, row: int) -> None:
            for button in " #":  # pressed, let go
                terminal.type(f"\x1b[M{button}{chr(33 + column)}{chr(33 + row)}")

        def the_second_is_selected() -> bool:
            # Rows move where a remark comes or goes between the look at the screen and the click: then once more.
            click(3, titles() + 2)
            terminal.press("F9")
            wait_until(lambda: terminal.shows("Send a signal to"))
            if terminal.shows(f"│ {by_pid[1]} "):
                return True
            terminal.press("Escape")
            wait_until(lambda: not terminal.shows("Send a signal to"))
            return False

        click(1, titles())
        wait_until(lambda: terminal.shows("by pid") and [int(row.split()[0]) for row in rows(terminal)] == by_pid)
        wait_until(the_second_is_selected)


@pytest.mark.parametrize("size", [(80, 24), (200, 50), (30, 6), (120, 40)])
def test_a_resized_terminal_is_filled_anew(machine: Machine, tmp_path: pathlib.Path, size: tuple[int, int]) -> None:
    with top(machine, tmp_path, size=(100, 30)) as terminal:
        terminal.resize(*size)

        def fits() -> bool:
            lines = terminal.lines()
            has_bar = size[1] < 8 or lines[-1].startswith("F1Help")
            return len(lines) <= size[1] and has_bar and sum("vram top" in line for line in lines) == 1

        wait_until(fits)
        terminal.press("q")
        wait_until(lambda: terminal.lines()[-1] == "$")


def test_a_process_is_ended_after_a_question(
    machine: Machine, children: list[subprocess.Popen[bytes]], tmp_path: pathlib.Path
) -> None:
    with top(machine, tmp_path) as terminal:
        wait_until(lambda: "400 MiB" in first_row(terminal))
        terminal.press("F9")
        wait_until(lambda: terminal.shows("Send a signal to", f"{children[3].pid}", "SIGTERM"))
        terminal.press("Enter")  # the first choice sends nothing
        wait_until(lambda: not terminal.shows("Send a signal to"))
        terminal.press("k", "Down", "Enter")
        wait_until(lambda: terminal.shows(f"signal {signal.SIGTERM.value} sent to {children[3].pid}"))
        assert children[3].wait(timeout=30) == -signal.SIGTERM
        assert all(child.poll() is None for child in children[:3])


def test_a_number_that_was_given_again_is_not_signalled(
    machine: Machine, children: list[subprocess.Popen[bytes]], tmp_path: pathlib.Path
) -> None:
    with top(machine, tmp_path, "--period 1h") as terminal:
        wait_until(lambda: "400 MiB" in first_row(terminal))
        terminal.press("F9", "Down")
        children[3].kill()
        children[3].wait(timeout=60)
        terminal.press("Enter")
        wait_until(lambda: terminal.shows(f"process {children[3].pid} has ended"))


def test_readonly_has_no_such_keys(machine: Machine, tmp_path: pathlib.Path) -> None:
    with top(machine, tmp_path, "--readonly") as terminal:
        assert not terminal.shows("Kill")
        terminal.press("F9", "k", "F8", "I")
        wait_until(lambda: "100 MiB" in first_row(terminal))
        assert not terminal.shows("Send a signal to")


def test_a_command_line_can_do_no_harm(machine: Machine, tmp_path: pathlib.Path) -> None:
    """Wide characters keep their columns; what a terminal would obey is shown, not obeyed."""
    name = "显存\x1b[2J\x1b]0;owned\x07显e\u0301\u202egnp.exe"
    child = subprocess.Popen([name, "1000"], executable=shutil.which("sleep"))
    try:
        machine.become(two_gpus(child.pid))
        with top(machine, tmp_path) as terminal:
            # Each glyph of two columns is one character of tmux's line.
            wait_until(lambda: "显存\\x1b[2J\\x1b]0;owned\\x07显e\u0301\\u202egnp.exe 1000" in first_row(terminal))
            terminal.press("F1", "x", "I")
            wait_until(lambda: "显存\\x1b[2J" in first_row(terminal))
            assert terminal.shows("F10Quit", "vram top")
            assert "owned" not in terminal.state("pane_title")
    finally:
        child.kill()
        child.wait(timeout=60)


@needs_library
def test_a_process_that_is_asked_gives_memory_back(machine: Machine, tmp_path: pathlib.Path) -> None:
    board = tmp_path / "board"
    body = f"""{asked_program.STAND_IN}
from vram.monitoring._board import post_step
board = vram.Board()
post_step(1, 1000)
print("ready", flush=True)
while True:
    time.sleep(0.05)
    post_step(2, 1000)
"""
    with asked_program.running(board, body) as child:
        machine.become(two_gpus(child.pid))
        with top(machine, tmp_path, VRAM_BOARD=str(board)) as terminal:
            wait_until(lambda: str(child.pid) in first_row(terminal))
            terminal.press("F8")
            wait_until(lambda: terminal.shows("Ask to give cached memory back", str(child.pid)))
            terminal.press("Down", "Enter")
            wait_until(lambda: terminal.shows("80 MiB came back from 1 of 1 asked"))


def test_a_hanging_driver_leaves_the_keys_alive(
    machine: Machine, children: list[subprocess.Popen[bytes]], tmp_path: pathlib.Path
) -> None:
    with top(machine, tmp_path) as terminal:
        wait_until(lambda: len(rows(terminal)) == 4)
        machine.become(HANGING + two_gpus(children[0].pid))
        wait_until(lambda: terminal.shows("driver call hangs for"))
        terminal.press("I")
        wait_until(lambda: "100 MiB" in first_row(terminal))
        terminal.press("F2")
        wait_until(lambda: terminal.shows("number of the process"))
        terminal.press("Escape", "q")
        is_as_it_was(terminal)


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP"])
def test_signals_end_it_and_give_the_terminal_back(machine: Machine, tmp_path: pathlib.Path, name: str) -> None:
    with top(machine, tmp_path) as terminal:
        os.kill(pid_of_top(terminal), getattr(signal, f"SIG{name}"))
        is_as_it_was(terminal)


def test_even_a_crash_gives_the_terminal_back(machine: Machine, tmp_path: pathlib.Path) -> None:
    with top(machine, tmp_path) as terminal:
        os.kill(pid_of_top(terminal), signal.SIGSEGV)
        is_as_it_was(terminal, 128 + signal.SIGSEGV)


def test_it_can_be_stopped_and_goes_on(machine: Machine, tmp_path: pathlib.Path) -> None:
    with top(machine, tmp_path) as terminal:
        terminal.press("C-z")
        wait_until(lambda: terminal.state("alternate_on") == "0" and terminal.lines()[-1] == "$")
        terminal.run("fg")
        wait_until(lambda: terminal.shows("vram top", "F10Quit"))
        terminal.press("I")
        wait_until(lambda: "100 MiB" in first_row(terminal))


def test_it_lets_go_of_the_driver_when_asked(machine: Machine, tmp_path: pathlib.Path) -> None:
    with top(machine, tmp_path, "--period 1h") as terminal:
        wait_until(lambda: len(rows(terminal)) == 4)
        os.kill(pid_of_top(terminal), signal.SIGUSR1)
        wait_until(lambda: terminal.shows("released the drivers"))
        terminal.press("r")
        wait_until(lambda: terminal.shows("nvml: let go on request"))


@pytest.mark.parametrize(("options", "variables"), [("", {}), ("--no-color", {}), ("", {"NO_COLOR": "1"})])
def test_colours_can_be_had_or_not(
    machine: Machine, tmp_path: pathlib.Path, options: str, variables: dict[str, str]
) -> None:
    with top(machine, tmp_path, options, (120, 40), **variables) as terminal:
        wait_until(lambda: len(rows(terminal)) == 4)
        is_coloured = re.search(r"\x1b\[([0-9;]*;)?(3[0-7]|9[0-7])m", terminal.styled()) is not None
        assert is_coloured == (not options and not variables)


def test_without_utf8_it_is_ascii(machine: Machine, tmp_path: pathlib.Path) -> None:
    with top(machine, tmp_path, LANG="C") as terminal:
        wait_until(lambda: len(rows(terminal)) == 4)
        assert all(line.isascii() for line in terminal.lines())
        assert terminal.shows("#")


@pytest.mark.skipif(IS_SANITIZED, reason="of the program as it is shipped")
def test_a_terminal_that_nobody_knows_is_an_error(machine: Machine, tmp_path: pathlib.Path) -> None:
    terminal = Terminal(tmp_path, {**environment(), **machine.environment, "BINARY": BINARY, "TERM": "screen"})
    try:
        terminal.run('TERM=no-such "$BINARY" top; echo code $?')
        wait_until(lambda: terminal.shows("code 3"))
        text = "".join(terminal.lines())
        assert "TERM='no-such'" in text
        assert "xterm-256color" in text
    finally:
        terminal.close()


def test_without_a_terminal_it_says_what_to_do(machine: Machine) -> None:
    done = vram("top", "--gpu", "nvml", **machine.environment)
    assert (done.returncode, done.stdout) == (3, "")
    assert "--once" in done.stderr


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (120, 40), (200, 50)])
def test_once_is_a_screen_on_paper(tmp_path: pathlib.Path, columns: int, lines: int) -> None:
    machine = Machine(tmp_path, two_gpus(UNSEEN, UNSEEN + 1))
    size = {"COLUMNS": str(columns), "LINES": str(lines)}
    done = vram("top", "--once", "--gpu", "nvml", **machine.environment, **size)
    assert (done.returncode, done.stderr) == (0, "")
    expected = (ROOT / f"tests/data/top/once_{columns}x{lines}.txt").read_text().splitlines()
    assert done.stdout.splitlines()[1:] == expected[1:]  # the first line has the time
    assert len(expected) == lines
    if columns == 120:  # as without any size
        assert vram("top", "--once", "--gpu", "nvml", **machine.environment).stdout.count("\n") == lines


def test_once_has_colours_where_they_are_wanted(tmp_path: pathlib.Path) -> None:
    machine = Machine(tmp_path, two_gpus(UNSEEN))
    coloured = machine.environment | {"CLICOLOR_FORCE": "1"}
    assert "\x1b[" in vram("top", "--once", "--gpu", "nvml", **coloured).stdout
    assert "\x1b" not in vram("top", "--once", "--gpu", "nvml", "--no-color", **coloured).stdout
    assert "\x1b" not in vram("top", "--once", "--gpu", "nvml", NO_COLOR="1", **coloured).stdout


def test_once_shows_what_the_filter_says(machine: Machine, children: list[subprocess.Popen[bytes]]) -> None:
    done = vram("top", "--once", "--gpu", "nvml", "--pid", children[1].pid, **machine.environment)
    assert "sleep 1001" in done.stdout
    assert "1 of 4 rows" in done.stdout
    assert "sleep 1000" not in done.stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--period", "0.01s"], "0.1s to 1h"),
        (["--period", "2h"], "0.1s to 1h"),
        (["--sort", "beauty"], "memory"),
        (["--filter", "usr:ann"], "user:"),
        (["--pid", "x"], "--pid"),
        (["--gpu", "abacus"], "nvml"),
    ],
)
def test_wrong_options_are_explained(options: list[str], said: str) -> None:
    done = vram("top", "--once", *options)
    assert done.returncode == 2
    assert said in done.stderr


def test_a_key_is_answered_while_the_first_look_hangs(machine: Machine, tmp_path: pathlib.Path) -> None:
    machine.become(HANGING + two_gpus())
    terminal = Terminal(tmp_path, {**environment(), **machine.environment, "BINARY": BINARY, "TERM": "screen"})
    try:
        terminal.run('"$BINARY" top --gpu nvml --no-settings; echo code $?')
        wait_until(lambda: terminal.shows("taking the first sample of the machine"))
        began = time.monotonic()
        terminal.press("q")
        wait_until(lambda: terminal.shows("code 0"))
        print(f"ended after {time.monotonic() - began:.3f} s", file=sys.stderr)
    finally:
        terminal.close()
