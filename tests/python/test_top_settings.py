"""The settings that vram top stores: $XDG_CONFIG_HOME/vram/top.toml, on a real terminal (tmux).

VRAM_BINARY names the program under test.
"""

import os
import pathlib
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from fake_gpus import Machine, wait_until
from program import vram
from terminal import Terminal
from top_terminal import OFTEN, first_row, is_as_it_was, rows, top, two_gpus

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed (make setup)")


@pytest.fixture(name="machine")
def fixture_machine(tmp_path: pathlib.Path) -> Iterator[Machine]:
    children = [subprocess.Popen(["sleep", str(1000 + number)]) for number in range(2)]
    yield Machine(tmp_path, two_gpus(*(child.pid for child in children)))
    for child in children:
        child.kill()
        child.wait(timeout=60)


def file_of(folder: pathlib.Path) -> pathlib.Path:
    return folder / "config/vram/top.toml"


def kept(folder: pathlib.Path) -> dict[str, Any]:
    return tomllib.loads(file_of(folder).read_text())


def written(folder: pathlib.Path, text: str) -> pathlib.Path:
    file_of(folder).parent.mkdir(parents=True, exist_ok=True)
    file_of(folder).write_text(text)
    return file_of(folder)


def is_drawn(terminal: Terminal) -> None:
    wait_until(lambda: len(rows(terminal)) >= 2 and terminal.shows("MiB"))


def leave(terminal: Terminal, *keys: str) -> None:
    terminal.press(*keys, "q")
    wait_until(lambda: terminal.shows("code 0"))


def test_what_keys_change_is_there_again(machine: Machine, tmp_path: pathlib.Path) -> None:
    with top(machine, tmp_path, "") as terminal:
        is_drawn(terminal)
        terminal.press("N", "I", "o", "t", "+", "F2", "Down", "Space", "Escape")
        wait_until(lambda: terminal.shows("every 2 s") and not terminal.shows("USER"))
        terminal.press("F4")
        terminal.type("gpu:1")
        terminal.press("Enter", "g")
        wait_until(lambda: terminal.shows("GPU 0 alone"))
        terminal.press("v")
        wait_until(lambda: terminal.shows("OF THE GPU"))
        terminal.press("q")
        is_as_it_was(terminal)
    assert kept(tmp_path) == {
        "sort": "pid",
        "inverted": True,
        "tree": True,
        "allocators": True,
        "plots": "power",
        "period": "2000ms",
        "hidden": ["user"],
    }
    assert (file_of(tmp_path).stat().st_mode & 0o777, file_of(tmp_path).parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert [file.name for file in file_of(tmp_path).parent.iterdir()] == ["top.toml"]
    with top(machine, tmp_path, "") as terminal:
        # All devices and processes again: that was asked at a moment.
        wait_until(lambda: terminal.shows("every 2 s", "by pid", "parent of 2", "GPU 0", "GPU 1", "OF THE GPU"))
        terminal.press("v")
        wait_until(lambda: terminal.shows("300 W • 40 C") and not terminal.shows("USER"))


def test_options_win_and_are_not_kept(machine: Machine, tmp_path: pathlib.Path) -> None:
    before = written(tmp_path, 'sort = "pid"\ninverted = true\nperiod = "5s"\n')
    with top(machine, tmp_path, "--period 0.2 --sort memory --tree") as terminal:
        wait_until(lambda: terminal.shows("every 200 ms", "by memory", "parent of 2"))
        leave(terminal)
    assert before.read_text() == 'sort = "pid"\ninverted = true\nperiod = "5s"\n'  # no key changed anything
    with top(machine, tmp_path, "--period 0.2") as terminal:
        is_drawn(terminal)
        leave(terminal, "v")
    assert kept(tmp_path) == {"sort": "pid", "inverted": True, "period": "5000ms", "allocators": True}


def test_without_settings_nothing_is_read_or_written(machine: Machine, tmp_path: pathlib.Path) -> None:
    text = 'sort = "pid"\nperiod = "5s"\n'
    file = written(tmp_path, text)
    with top(machine, tmp_path, "--no-settings") as terminal:
        wait_until(lambda: terminal.shows("every 1 s", "by memory"))
        leave(terminal, "v", "N")
    assert file.read_text() == text
    config = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    once = vram("top", "--once", "--gpu", "nvml", **machine.environment, **config)
    assert "by memory" in once.stdout
    assert once.stderr == ""


def test_the_folder_is_below_the_home(machine: Machine, tmp_path: pathlib.Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with top(machine, tmp_path, OFTEN, HOME=str(home), XDG_CONFIG_HOME="not/absolute") as terminal:
        is_drawn(terminal)
        leave(terminal, "t")
    assert tomllib.loads((home / ".config/vram/top.toml").read_text()) == {"tree": True}


HOSTILE = {
    "no TOML": b"[[[[",
    "unknown": b'sorting = "pid"\n',
    "a value": b'sort = "\\u001b[2J"\n',
    "bytes": bytes(range(256)),
    "huge": b"# " + b"x" * (1 << 20),
    "deep": b"a = " + b"[" * 30_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_file_that_is_wrong_is_left_alone(machine: Machine, tmp_path: pathlib.Path, text: bytes) -> None:
    file = written(tmp_path, "")
    file.write_bytes(text)
    with top(machine, tmp_path, OFTEN) as terminal:
        wait_until(lambda: terminal.shows("cannot load settings"))
        is_drawn(terminal)
        terminal.press("N")
        wait_until(lambda: terminal.shows("by pid"))
        terminal.press("q")
        wait_until(lambda: terminal.shows("cannot save settings", "code 0"))
        is_as_it_was(terminal)
    assert file.read_bytes() == text


def test_what_is_no_file_holds_nothing_up(machine: Machine, tmp_path: pathlib.Path) -> None:
    written(tmp_path, "").unlink()
    os.mkfifo(file_of(tmp_path))
    with top(machine, tmp_path, OFTEN) as terminal:
        wait_until(lambda: terminal.shows("cannot load settings"))
        leave(terminal, "t")
        assert terminal.shows("cannot save settings")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a folder away")
def test_nothing_is_put_into_another_users_folder(machine: Machine, tmp_path: pathlib.Path) -> None:
    """With sudo the home may be theirs, and a file of root's there would be one that they can't read."""
    folder = file_of(tmp_path).parent
    folder.mkdir(parents=True)
    os.chown(folder, 65534, 65534)
    with top(machine, tmp_path, OFTEN) as terminal:
        is_drawn(terminal)
        leave(terminal, "t")
        assert terminal.shows("cannot save settings")
    assert list(folder.iterdir()) == []


def test_a_link_stays_one(machine: Machine, tmp_path: pathlib.Path) -> None:
    """People keep such files elsewhere."""
    file = written(tmp_path, "")
    real = tmp_path / "dotfiles.toml"
    file.rename(real)
    file.symlink_to(real)
    with top(machine, tmp_path, OFTEN) as terminal:
        is_drawn(terminal)
        leave(terminal, "t")
    assert file.is_symlink()
    assert tomllib.loads(real.read_text()) == {"tree": True}


def test_of_two_the_last_one_wins(machine: Machine, tmp_path: pathlib.Path) -> None:
    """Each keeps what it changed; where both did, it is the word of the one that ended last."""
    (tmp_path / "second").mkdir()
    config = str(tmp_path / "config")
    with (
        top(machine, tmp_path, OFTEN) as first,
        top(machine, tmp_path / "second", OFTEN, XDG_CONFIG_HOME=config) as second,
    ):
        for terminal in (first, second):
            is_drawn(terminal)
        leave(second, "N", "t")
        wait_until(lambda: file_of(tmp_path).exists())
        leave(first, "P")
    assert kept(tmp_path) == {"sort": "busy", "inverted": False, "tree": True}


def test_a_signal_is_an_end_like_another(machine: Machine, tmp_path: pathlib.Path) -> None:
    with top(machine, tmp_path, OFTEN) as terminal:
        is_drawn(terminal)
        terminal.press("I")
        wait_until(lambda: "100 MiB" in first_row(terminal))
        terminal.press("C-c")
        is_as_it_was(terminal)
    assert kept(tmp_path)["inverted"] is True
