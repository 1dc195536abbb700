"""vram status and a real process: the figures of the kernel and of the process, and hostile text of the process.

VRAM_BINARY names the program under test.
"""

import os
import pathlib
import pwd
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from fake_gpus import MIB, Machine
from poster import Poster, skip_without_library

# What a terminal would act on, in C0 and C1, an end of a line, text that runs backwards, and bytes that are no text.
EVIL = b"\x1b]0;owned\x07\x1b[31m\r\n\x7f\xc2\x9b2Jred\xe2\x80\xae\xff\xfe"


@pytest.fixture(name="poster")
def fixture_poster(request: pytest.FixtureRequest) -> Iterator[Poster]:
    skip_without_library()
    poster = Poster(*getattr(request, "param", ("--name a\nb", "forward")))
    yield poster
    poster.close()


def used_by(pid: int, extra: str = "") -> str:
    return f"device 0\nname NVIDIA H200\nuuid GPU-0\ntotal 1000M\nused 300M\nreserved 50M\n{extra}\nprocess compute {pid} 200M\n"


def test_a_real_process_and_what_it_says_of_itself(poster: Poster, tmp_path: pathlib.Path) -> None:
    machine = Machine(tmp_path, used_by(poster.pid))
    process = machine.look()["processes"][0]
    assert process["pid"] == poster.pid
    assert process["start_ticks"] == poster.start_ticks()
    assert (process["parent_pid"], process["uid"]) == (os.getpid(), os.geteuid())
    assert process["user"] == pwd.getpwuid(os.geteuid()).pw_name
    assert process["command"] == f"{sys.executable} - --name a b forward"
    assert (process["step"], process["step_ns"], process["scope"]) == (12, 5_000_000, "forward")
    assert process["uses"][0]["used_bytes"] == 200 * MIB
    assert process["uses"][0]["allocator"] == {
        "allocated_bytes": 60 * MIB,
        "reserved_bytes": 100 * MIB,
        "cached_bytes": 40 * MIB,
        "peak_bytes": 90 * MIB,
        "num_alloc_retries": 3,
        "num_ooms": 1,
        "num_device_alloc": 412,
        "num_device_free": 57,
    }
    text = machine.status().stdout
    assert "allocated 60 MiB, reserved 100 MiB, cached 40 MiB, retries 3, OOMs 1, step 5 ms, in forward" in text
    assert "a cleaning would give 40 MiB back" in text


def test_a_killed_process_speaks_no_more(poster: Poster, tmp_path: pathlib.Path) -> None:
    machine = Machine(tmp_path, used_by(poster.pid))
    assert machine.look()["processes"][0]["scope"] == "forward"
    poster.kill()
    process = machine.look()["processes"][0]
    assert (process["scope"], process["uses"][0]["allocator"]) == (None, None)
    poster.bury()
    process = machine.look()["processes"][0]
    assert (process["command"], process["scope"], process["uses"][0]["allocator"]) == (None, None, None)
    assert process["uses"][0]["used_bytes"] == 200 * MIB  # the driver has not noticed yet


def test_pages_in_a_folder_that_is_named(tmp_path: pathlib.Path) -> None:
    skip_without_library()
    board = tmp_path / "board"
    poster = Poster("a", "forward", board)
    try:
        machine = Machine(tmp_path, used_by(poster.pid))
        assert machine.look()["processes"][0]["scope"] is None
        machine.environment["VRAM_BOARD"] = str(board)
        assert machine.look()["processes"][0]["scope"] == "forward"
    finally:
        poster.close()


def test_a_page_speaks_for_nobody_but_its_process(poster: Poster, tmp_path: pathlib.Path) -> None:
    with subprocess.Popen(["sleep", "600"]) as silent:
        forged = poster.page.with_name(str(silent.pid))
        try:
            forged.write_bytes(poster.page.read_bytes())
            forged.chmod(0o600)
            process = Machine(tmp_path, used_by(silent.pid)).look()["processes"][0]
        finally:
            forged.unlink(missing_ok=True)
            silent.kill()
    assert (process["command"], process["scope"], process["uses"][0]["allocator"]) == ("sleep 600", None, None)


@pytest.mark.parametrize("poster", [(EVIL, "\x1b[2Jscope")], indirect=True)
@pytest.mark.parametrize("form", [(), ("-q",), ("--json",), ("--csv",)], ids=lambda form: "".join(form) or "text")
def test_control_characters_reach_no_terminal(poster: Poster, form: tuple[str, ...], tmp_path: pathlib.Path) -> None:
    machine = Machine(tmp_path, used_by(poster.pid, "name GPU\x1b[5m\x9b2J"))
    for columns in ("100", "240"):
        text = machine.status(*form, COLUMNS=columns).stdout
        assert "owned" in text
        assert "scope" in text
        if form == ("--csv",):
            text = text.replace("\r\n", "\n")
        assert re.findall(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", text) == []
