"""vram status --watch on a real terminal (tmux): each screen replaces the previous one, and the terminal stays usable.

VRAM_BINARY names the program under test.
"""

import pathlib
import shutil
from collections.abc import Iterator

import pytest
from fake_gpus import Machine, wait_until
from program import BINARY, environment
from terminal import Terminal

FIRST, SECOND = 3_000_000_001, 3_000_000_002  # no kernel gives such pids

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed (make setup)")


def used_by(**sizes: int) -> str:
    pids = {"first": FIRST, "second": SECOND}
    lines = [f"process compute {pids[name]} {size}M" for name, size in sizes.items()]
    head = f"device 0\nname H200\nuuid GPU-0\ntotal 1000M\nused {sum(sizes.values())}M\nreserved 0"
    return "\n".join([head, *lines, ""])


@pytest.fixture(name="machine")
def fixture_machine(tmp_path: pathlib.Path) -> Machine:
    return Machine(tmp_path, used_by(first=100))


@pytest.fixture(name="terminal")
def fixture_terminal(machine: Machine, tmp_path: pathlib.Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path, {**environment(), **machine.environment, "BINARY": BINARY, "TERM": "screen"})
    terminal.run('stty -g > before; clear; "$BINARY" status --gpu nvml --watch 0.1')
    wait_until(lambda: terminal.shows(str(FIRST), "█ used"))
    yield terminal
    terminal.close()


def heads(terminal: Terminal) -> int:
    """Every screen begins with the time; two of them are one too many."""
    return sum(" UTC" in line for line in terminal.lines())


def test_each_screen_replaces_the_one_before(machine: Machine, terminal: Terminal) -> None:
    small = len(terminal.lines())
    machine.become(used_by(first=150, second=30))
    wait_until(lambda: terminal.shows(str(SECOND), "150 MiB") and len(terminal.lines()) == small + 1)
    assert heads(terminal) == 1
    assert not terminal.shows("100 MiB")
    machine.become(used_by(second=30))
    wait_until(lambda: not terminal.shows(str(FIRST)) and len(terminal.lines()) == small)  # nothing is left below
    assert heads(terminal) == 1


def test_a_resized_terminal_is_filled_anew(machine: Machine, terminal: Terminal) -> None:
    def device_line() -> str:
        return next((line for line in terminal.lines() if line.startswith("0 ")), "")

    wide = len(device_line())
    assert "· " in device_line()  # the bar
    terminal.resize(80, 24)
    wait_until(lambda: heads(terminal) == 1 and 0 < len(device_line()) <= 80 and terminal.shows("█ used"))
    assert len(device_line()) < wide
    terminal.resize(100, 5)
    wait_until(lambda: terminal.lines()[-1].endswith("more lines)"))
    terminal.resize(100, 24)
    wait_until(lambda: len(device_line()) == wide and heads(terminal) == 1)
    machine.become(used_by(second=30))
    wait_until(lambda: terminal.shows(str(SECOND)) and heads(terminal) == 1)


def test_ctrl_c_leaves_the_terminal_as_it_was(terminal: Terminal) -> None:
    terminal.press("C-c")
    wait_until(lambda: terminal.lines()[-1] == "$")
    assert heads(terminal) == 1  # the last screen stays
    assert terminal.shows(str(FIRST))
    assert (terminal.state("cursor_flag"), terminal.state("alternate_on"), terminal.state("cursor_x")) == (
        "1",
        "0",
        "2",
    )
    terminal.run("stty -g | cmp - before && echo as it was")
    wait_until(lambda: "as it was" in terminal.lines())


def test_a_hanging_driver_leaves_the_keys_alive(machine: Machine, terminal: Terminal) -> None:
    machine.become("hang nvmlDeviceGetUtilizationRates 600000\n" + used_by(first=100))
    wait_until(lambda: machine.last_call() == "nvmlDeviceGetUtilizationRates 0")
    terminal.press("C-c")
    wait_until(lambda: terminal.lines()[-1] == "$")


def test_a_narrow_pane_is_not_torn(machine: Machine, tmp_path: pathlib.Path) -> None:
    terminal = Terminal(
        tmp_path, {**environment(), **machine.environment, "BINARY": BINARY, "TERM": "screen"}, columns=60
    )
    terminal.run('unset COLUMNS; clear; "$BINARY" status --gpu nvml --watch 0.1')
    wait_until(lambda: terminal.shows(str(FIRST)))
    for memory in (150, 250, 350):
        machine.become(used_by(first=memory, second=30))
        wait_until(lambda memory=memory: terminal.shows(f"{memory} MiB"))  # type: ignore[misc]
        assert heads(terminal) == 1
    terminal.close()
