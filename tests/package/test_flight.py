"""The flight recorder in Python programs: its files, and what it leaves when they end in one way or another."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import BINARY, ROOT

import vram
from vram._library import library
from vram._prototypes import EVENT_ALLOC, EVENT_FREE, EVENT_OOM, Event

# A block of each step stays for two steps. It ends when its standard input does.
PROGRAM = """
import ctypes, os, signal, sys, time
import vram
from vram._library import library
from vram._prototypes import EVENT_ALLOC, EVENT_FREE, EVENT_OOM, Event

def event(kind, step):
    library().vram_record_event(ctypes.byref(Event(kind=kind, address=(step + 1) << 20, size_bytes=1024 + step)))

def run(steps, first=0):
    for step in range(first, first + steps):
        vram.step()
        event(EVENT_ALLOC, step)
        if step >= 2:
            event(EVENT_FREE, step - 2)
"""


def event(kind: int, address: int, size: int = 512) -> None:
    library().vram_record_event(ctypes.byref(Event(kind=kind, address=address, size_bytes=size)))


def events(file: Path) -> list[dict[str, object]]:
    exported = file.with_suffix(".jsonl")
    subprocess.run([BINARY, "convert", file, exported, "--force"], check=True, capture_output=True, timeout=60)
    return [json.loads(line) for line in exported.read_text().splitlines()]


def alive(file: Path) -> set[object]:
    blocks: set[object] = set()
    for each in events(file):
        if each["action"] == "alloc":
            blocks.add(each["address"])
        elif each["action"] == "free_completed":
            blocks.remove(each["address"])
    return blocks


@pytest.fixture
def begin(tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    def begin(text: str, **variables: str) -> subprocess.Popen[str]:
        script = tmp_path / "program.py"
        script.write_text(PROGRAM + textwrap.dedent(text))
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT / "python"),
            "VRAM_BOARD": str(tmp_path / "board"),
            **variables,
        }
        return subprocess.Popen(
            [sys.executable, script], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    return begin


def names(folder: Path) -> list[str]:
    return sorted(file.name.replace(f".{os.getpid()}.", ".PID.") for file in folder.iterdir())


def test_a_dump_has_the_last_steps(tmp_path: Path) -> None:
    with vram.flight_recorder(tmp_path, steps=5, stacks=None) as recorder:
        assert vram.is_recording()
        for step in range(40):
            vram.step()
            event(EVENT_ALLOC, step + 1 << 20)
            if step > 0:
                event(EVENT_FREE, step << 20)
        file = recorder.dump()
    assert len(alive(file)) == 1
    assert 5 <= sum(each["action"] == "alloc" for each in events(file)) <= 12
    assert not vram.is_recording()
    with pytest.raises(vram.VramError, match="was stopped"):
        recorder.dump()


def test_a_failed_request_has_its_file_before_the_program_learns_of_it(tmp_path: Path) -> None:
    with vram.flight_recorder(tmp_path, stacks=None, max_files=2):
        for attempt in range(3):
            event(EVENT_ALLOC, attempt + 1 << 20)
            event(EVENT_OOM, 0, 1 << 30)
            library().vram_flight_settle()
            word = "oom" if attempt == 0 else f"oom-{attempt + 1}"
            file = tmp_path / f"flight.{os.getpid()}.{word}.vtrace"
            assert events(file)[-1]["action"] == "oom"
            file.with_suffix(".jsonl").unlink()
    assert names(tmp_path) == ["flight.PID.oom-2.vtrace", "flight.PID.oom-3.vtrace"]


def test_there_is_one_and_a_recording_makes_it_rest(tmp_path: Path) -> None:
    with vram.flight_recorder(tmp_path / "flights", stacks=None) as recorder:
        event(EVENT_ALLOC, 1 << 20)
        with pytest.raises(vram.VramError, match="running already"):
            vram.flight_recorder(tmp_path / "others")
        with vram.record(tmp_path / "run.vtrace"):
            event(EVENT_ALLOC, 2 << 20)
            with pytest.raises(vram.VramError, match="no flight recorder"):
                recorder.dump()
        event(EVENT_ALLOC, 3 << 20)
        assert len(alive(recorder.dump())) == 1
    assert len(alive(tmp_path / "run.vtrace")) == 1
    assert not (tmp_path / "others").exists()


def test_a_recording_that_cannot_start_lets_it_continue(tmp_path: Path) -> None:
    with vram.flight_recorder(tmp_path, stacks=None) as recorder:
        with pytest.raises(vram.VramError):
            vram.record(tmp_path)
        event(EVENT_ALLOC, 1 << 20)
        assert len(alive(recorder.dump())) == 1


def test_invalid_arguments_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(vram.VramError):
        vram.flight_recorder(file)
    assert file.read_text() == "mine"
    endless = ({"minutes": float("inf")}, {"minutes": float("nan")}, {"minutes": 1e9}, {"growth": "x"})
    for wrong in ({"steps": 0}, {"minutes": -1}, {"max_files": 0}, {"stacks": "all"}, {"max_bytes": "x"}, *endless):
        with pytest.raises(ValueError, match=r"at least 1|from 1 to|more than 0|stacks|'x' is no size|292 years"):
            vram.flight_recorder(tmp_path, **wrong)
    with pytest.raises(vram.VramError, match="3 MiB"):
        vram.flight_recorder(tmp_path, max_bytes="1MiB")
    assert not vram.is_recording()


@pytest.mark.parametrize(
    ("end", "code"), [("pass", 0), ("sys.exit(3)", 3), ("raise ValueError", 1), ("vram.flight_recorder", 0)]
)
def test_a_program_that_ends_by_itself_leaves_nothing(
    end: str, code: int, begin: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    program = begin(f"run(5)\nassert vram.is_recording()\n{end}", VRAM_FLIGHT=str(tmp_path / "flights"))
    program.communicate(timeout=60)
    assert program.returncode == code
    assert list((tmp_path / "flights").iterdir()) == []


def test_sigterm_writes_a_file_and_the_programs_handler_runs(
    begin: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    program = begin(
        """
        def handler(number, frame):
            print("mine", flush=True)
            sys.exit(7)
        signal.signal(signal.SIGTERM, handler)
        recorder = vram.flight_recorder(sys.argv[0] + ".flights", stacks="python")
        run(5)
        print("ready", flush=True)
        while True:
            time.sleep(0.01)
        """
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "ready\n"
    program.send_signal(signal.SIGTERM)
    assert program.communicate(timeout=60)[0] == "mine\n"
    assert program.returncode == 7
    (file,) = (tmp_path / "program.py.flights").iterdir()
    assert file.name == f"flight.{program.pid}.sigterm.vtrace"
    assert len(alive(file)) == 2


def test_a_crash_of_the_interpreter_writes_a_file(begin: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    program = begin("run(5)\nctypes.string_at(0)", VRAM_FLIGHT=str(tmp_path / "flights"))
    program.communicate(timeout=60)
    assert program.returncode == -signal.SIGSEGV
    assert len(alive(tmp_path / "flights" / f"flight.{program.pid}.crash.vtrace")) == 2


def test_the_stack_of_a_request_names_its_line(begin: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    program = begin(
        """
        def one(step):
            stack = library().vram_try_capture_stack()
            library().vram_record_event(ctypes.byref(
                Event(kind=EVENT_ALLOC, address=(step + 1) << 20, size_bytes=512, stack=stack)))

        def other(step):
            one(step)

        def steps():
            while True:
                one((yield))

        class Object:
            def __del__(self):
                one(self.step)

        def drop(step):
            made = Object()
            made.step = step
            del made

        def order(step):
            sorted([step], key=lambda step: one(step) or step)

        generator = steps()
        next(generator)
        ways = [one, other, generator.send, drop, order]
        for step in range(300):
            ways[step % len(ways)](step)
        os.kill(os.getpid(), signal.SIGTERM)
        """,
        VRAM_FLIGHT=str(tmp_path / "flights"),
    )
    program.communicate(timeout=60)
    recorded = events(tmp_path / "flights" / f"flight.{program.pid}.sigterm.vtrace")
    assert len(recorded) == 300
    expected = [["one"], ["one", "other"], ["one", "steps"], ["one", "__del__", "drop"], ["one", "<lambda>", "order"]]
    for step, each in enumerate(recorded):
        functions = [str(frame).rsplit(" ", 1)[-1].rsplit(".", 1)[-1] for frame in each["stack"]]  # type: ignore[attr-defined]
        assert functions == [*expected[step % len(expected)], "<module>"]


def test_a_running_process_is_recorded_on_request(begin: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    program = begin(
        """
        print("ready", flush=True)
        step = 0
        while os.path.exists(sys.argv[0]):
            run(1, step)
            step += 1
            time.sleep(0.005)
        """,
        VRAM_FLIGHT=str(tmp_path / "flights"),
    )
    assert program.stdout is not None
    program.stdout.readline()
    board = {**os.environ, "VRAM_BOARD": str(tmp_path / "board")}
    for chosen in (["--steps", "3"], ["--seconds", "0.2"], []):
        out = tmp_path / f"asked{len(chosen)}{chosen[:1]}.vtrace"
        asked = subprocess.run(
            [BINARY, "record", "--pid", str(program.pid), *chosen, "-o", out],
            env=board,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert asked.returncode == 0, asked.stderr
        assert len(alive(out)) in (2, 3)
    assert {file.suffix for file in (tmp_path / "board").iterdir()} == {""}, "the answer was taken away"
    (tmp_path / "program.py").unlink()
    program.communicate(timeout=60)
