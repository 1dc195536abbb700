"""vram free, the program, with processes that have status pages (asked_program: their PyTorch is a stand-in)."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import time
from typing import Any

import pytest
from asked_program import MIB, STAND_IN, environment, running
from fake_gpus import wait_until
from program import BINARY, started, vram
from program import environment as program_environment

BUILD = pathlib.Path(BINARY).parents[1]
pytestmark = pytest.mark.skipif(BUILD.name in {"asan", "tsan"}, reason="builds with sanitizers have no libvram.so")

# Steps for as long as the test wants.
TRAINING = f"""{STAND_IN}
board = vram.Board()
vram.step(); vram.step()
print("ready", flush=True)
while True:
    vram.step(); time.sleep(0.005)
"""
SLEEPING = TRAINING.replace("while True:", "time.sleep(600)\nwhile True:")


def free(board: pathlib.Path, *arguments: object, **changes: str) -> subprocess.CompletedProcess[str]:
    nothing = {"VRAM_NVML": "/nowhere/libnvidia-ml.so.1"}
    return vram("free", *arguments, **{**nothing, "VRAM_BOARD": str(board), **changes})


def free_json(board: pathlib.Path, *arguments: object, code: int = 0, **changes: str) -> Any:
    done = free(board, *arguments, "--json", **changes)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def board(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "board"


def kill_one(board: pathlib.Path) -> int:
    """A process that leaves its page behind."""
    body = "import os, vram\nvram.Board()\nprint(os.getpid(), flush=True)\nos._exit(1)"
    done = subprocess.run(
        [sys.executable, "-c", body], env=environment(board), capture_output=True, check=False, timeout=120
    )
    return int(done.stdout)


def test_listing_asks_nobody(board: pathlib.Path) -> None:
    with running(board, SLEEPING) as child:
        found = free_json(board)
        (process,) = found["processes"]
        assert process["pid"] == child.pid
        assert process["cached_bytes"] == 80 * MIB
        assert process["held_bytes"] == 150 * MIB  # no driver: as it posts
        assert process["can_be_asked"]
        assert not process["is_idle"]  # too small to matter, and too soon
        assert [device["number"] for device in process["devices"]] == [0, 1]
        assert found["answers"] == []
        assert "vram free --all' asks for 80 MiB" in free(board).stdout
        assert free_json(board)["processes"][0]["cached_bytes"] == 80 * MIB


def test_what_is_asked_for_comes_back(board: pathlib.Path) -> None:
    with running(board, TRAINING) as child:
        found = free_json(board, child.pid)
        assert found["freed_bytes"] == 80 * MIB
        assert found["answers"] == [{"pid": child.pid, "outcome": "answered", "freed_bytes": 80 * MIB, "why": None}]
        assert free_json(board)["processes"][0]["cached_bytes"] == 0
        done = free(board, child.pid)
        assert "0 B came back; 1 of 1 answered." in done.stdout
        done = free(board, "--all")
        assert done.returncode == 0
        assert "No process was asked" in done.stdout


def test_who_does_not_answer_is_not_waited_for(board: pathlib.Path) -> None:
    with running(board, SLEEPING) as silent, running(board, TRAINING) as training:
        began = time.monotonic()
        found = free_json(board, "--all", "--timeout", "0.5s", code=1)
        assert 0.4 < time.monotonic() - began < 10
        outcomes = {answer["pid"]: (answer["outcome"], answer["freed_bytes"]) for answer in found["answers"]}
        assert outcomes == {silent.pid: ("silent", None), training.pid: ("answered", 80 * MIB)}


def test_no_more_are_asked_than_needed(board: pathlib.Path) -> None:
    smaller = TRAINING.replace("100 << 20", "70 << 20")
    with running(board, TRAINING) as first, running(board, smaller) as second:
        found = free_json(board, "--all", "--bytes", "80MiB")
        assert [answer["pid"] for answer in found["answers"]] == [first.pid]
        found = free_json(board, "--all", "--bytes", "1GiB", code=1)  # there is not so much
        assert [answer["pid"] for answer in found["answers"]] == [second.pid]
        assert found["freed_bytes"] == 50 * MIB


def test_pages_of_the_dead_are_listed_and_removed_by_all(board: pathlib.Path) -> None:
    pid = kill_one(board)
    assert [page["pid"] for page in free_json(board)["dead_pages"]] == [pid]
    assert f"process {pid} has ended" in free(board).stdout
    assert (board / str(pid)).exists()
    done = free(board, pid)
    assert done.returncode == 2
    assert "has no status page" in done.stderr
    assert free_json(board, "--all")["pages_removed"] == 1
    assert list(board.iterdir()) == []


def test_an_owner_that_dies_while_it_is_asked(board: pathlib.Path) -> None:
    with running(board, SLEEPING) as child:
        page = board / str(child.pid)
        before = page.read_bytes()
        words = [BINARY, "free", str(child.pid), "--timeout", "60s", "--json"]
        variables = program_environment(VRAM_NVML="/nowhere/libnvidia-ml.so.1", VRAM_BOARD=str(board))
        with started(words, stdout=subprocess.PIPE, env=variables) as asking:
            wait_until(lambda: page.read_bytes() != before)  # there is the request; who sleeps writes nothing
            child.kill()
            found, _ = asking.communicate(timeout=60)
            assert asking.returncode == 1
        assert json.loads(found)["answers"][0]["outcome"] == "ended"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["x"], "PID"),
        (["1"], "process 1 has no status page"),
        (["1", "--all"], "--all and PID exclude each other"),
        (["--bytes", "1GiB"], "requires PID or --all"),
        (["--all", "--bytes", "much"], "--bytes"),
        (["--all", "--timeout", "2h"], "at most 1h"),
        (["--all", "--device", "-1"], "--device"),
    ],
)
def test_bad_usage(board: pathlib.Path, arguments: list[str], why: str) -> None:
    done = free(board, *arguments)
    assert done.returncode == 2
    assert why in done.stderr


def test_nobody_is_there(board: pathlib.Path) -> None:
    done = free(board)
    assert done.returncode == 0
    assert "No process can be asked" in done.stdout
    assert free_json(board, "--all")["answers"] == []


@pytest.fixture
def scenario(tmp_path: pathlib.Path) -> Any:
    """Writes a machine of two GPUs for the fake management library; the environment that shows it."""

    def write(*lines: str) -> dict[str, str]:
        file = tmp_path / "machine"
        file.write_text("\n".join(["devices 2", *lines]) + "\n")
        fake = BUILD / "tests/fake_nvml/3/libnvidia-ml.so.1"
        return {"FAKE_NVML_SCENARIO": str(file), "VRAM_NVML": str(fake)}

    return write


GPUS = ("device 0", "total 1000M", "used 500M", "device 1", "total 1000M", "used 500M")


def test_gpus_are_numbered_as_the_machine_does(board: pathlib.Path, scenario: Any) -> None:
    posts_one = TRAINING.replace("lambda: 2", "lambda: 1")  # of its own devices only number 0
    with running(board, posts_one) as child:
        machine = scenario(*GPUS, f"process compute {child.pid} 300M")
        (process,) = free_json(board, **machine)["processes"]
        assert process["held_bytes"] == 300 * MIB
        assert [(device["device"], device["number"]) for device in process["devices"]] == [(1, 0)]
        assert free_json(board, "--all", "--device", "0", **machine)["answers"] == []
        assert free_json(board, "--all", "--device", "1", **machine)["freed_bytes"] == 40 * MIB


def test_idle_holders_without_a_page(board: pathlib.Path, scenario: Any) -> None:
    """This process itself, which the fake driver says to hold memory and not to compute."""
    pid = os.getpid()
    idle = scenario(*GPUS, "utilization 0 0", f"process compute {pid} 300M")
    (process,) = free_json(board, **idle)["processes"]
    assert (process["pid"], process["is_idle"], process["can_be_asked"]) == (pid, True, False)
    assert "idle" in free(board, **idle).stdout
    busy = scenario(*GPUS, "utilization 40 0", f"process compute {pid} 300M max max 40")
    assert not free_json(board, **busy)["processes"][0]["is_idle"]
    small = scenario(*GPUS, "utilization 0 0", f"process compute {pid} 100M")
    assert not free_json(board, **small)["processes"][0]["is_idle"]
