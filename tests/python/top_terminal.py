"""vram top on a real terminal (tmux), for tests: two devices, the rows of its list, the files that it leaves."""

import contextlib
import pathlib
from collections.abc import Iterator

from fake_gpus import Machine, wait_until
from program import BINARY, environment
from terminal import Terminal

OFTEN = "--period 0.1"


def two_gpus(*processes: int) -> str:
    """The first process has 100 MiB of device 0, the next 200 MiB of device 1, the next 300 MiB of device 0, …"""
    lines = ["devices 2", "version 580.95.05"]
    for device in range(2):
        lines += [f"device {device}", "name H200", f"uuid GPU-{device}", "total 10000M", "used 5000M", "reserved 100M"]
        lines += ["utilization 50 10", "celsius 40", "milliwatts 300000", "power-limit 700000"]
        lines += [f"process compute {pid} {100 + 100 * i}M" for i, pid in enumerate(processes) if i % 2 == device]
    return "\n".join([*lines, ""])


@contextlib.contextmanager
def top(
    machine: Machine, folder: pathlib.Path, options: str = OFTEN, size: tuple[int, int] = (120, 40), **variables: str
) -> Iterator[Terminal]:
    config = {"XDG_CONFIG_HOME": str(folder / "config")}  # not the config folder of the user who runs the tests
    variables = {**environment(), **machine.environment, **config, "BINARY": BINARY, "TERM": "screen", **variables}
    terminal = Terminal(folder, variables, *size)
    try:
        terminal.run(f'stty -a > before; clear; "$BINARY" top --gpu nvml {options}; echo code $?')
        wait_until(lambda: terminal.shows("PID", "vram top"))
        yield terminal
    finally:
        terminal.close()


def rows(terminal: Terminal) -> list[str]:
    """The list of processes: what is below its titles."""
    lines = terminal.lines()
    titles = next((i for i, line in enumerate(lines) if line.strip().startswith("PID")), len(lines))
    return [line for line in lines[titles + 1 : -2] if line.strip()]


def first_row(terminal: Terminal) -> str:
    return next(iter(rows(terminal)), "")


def is_as_it_was(terminal: Terminal, code: int = 0) -> None:
    wait_until(lambda: terminal.shows(f"code {code}"))
    wait_until(lambda: terminal.lines()[-1] == "$")
    assert (terminal.state("cursor_flag"), terminal.state("alternate_on")) == ("1", "0")
    assert terminal.state("mouse_any_flag") == "0"
    terminal.run("stty -a | cmp - before && echo as it was")
    wait_until(lambda: "as it was" in terminal.lines())


def pid_of_top(terminal: Terminal) -> int:
    shell = int(terminal.state("pane_pid"))
    words = pathlib.Path(f"/proc/{shell}/task/{shell}/children").read_text().split()
    return int(words[0])
