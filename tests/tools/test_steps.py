"""The runner of the test command shows and counts failures, ends hanging commands, and skips only unchanged steps."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import steps
from source_files import ROOT
from steps import Stamps, Step, StepFailed, Together, call, digest, run_steps


def fails() -> str:
    raise StepFailed("what it printed")


def fine() -> str:
    return "3 files"


def test_all_steps_run_and_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_steps([Step("first", fails), Step("second", fine)]) == 1
    printed = capsys.readouterr().out
    assert "what it printed" in printed
    assert "3 files" in printed
    assert printed.splitlines()[-1] == "1 passed, 1 failed, 0 skipped"


def test_success(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_steps([Step("only", fine)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 passed, 0 failed, 0 skipped"


def test_a_step_is_skipped_only_while_what_it_depends_on_is_as_it_was_when_it_passed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "source"
    source.write_text("one")
    runs = []

    def step() -> str:
        runs.append(source.read_text())
        if runs[-1] == "broken":
            raise StepFailed("broken")
        return ""

    steps = [Step("it", step, lambda: [source])]
    passed = Stamps(tmp_path / "passed")
    assert run_steps(steps, passed) == 0
    assert run_steps(steps, passed) == 0
    assert runs == ["one"]
    assert "unchanged since they passed: it" in capsys.readouterr().out
    source.write_text("broken")
    assert run_steps(steps, passed) == 1
    assert run_steps(steps, passed) == 1
    assert runs == ["one", "broken", "broken"]
    assert run_steps(steps, None) == 1
    assert run_steps([Step("it", step)], passed) == 1
    assert len(runs) == 5


def test_what_changes_while_a_step_runs_is_not_taken_for_passed(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("broken")
    step = Step("it", lambda: str(source.write_text("good")), lambda: [source])
    passed = Stamps(tmp_path / "passed")
    assert run_steps([step], passed) == 0
    source.write_text("broken")
    assert run_steps([Step("it", fails, lambda: [source])], passed) == 1


def test_any_error_is_a_failure_and_the_others_run(capsys: pytest.CaptureFixture[str]) -> None:
    def breaks() -> str:
        return call("/nonexistent/tool")

    assert run_steps([Step("broken", breaks), Step("other", fine)]) == 1
    printed = capsys.readouterr().out
    assert "FileNotFoundError" in printed
    assert printed.splitlines()[-1] == "1 passed, 1 failed, 0 skipped"


def test_fresh_runs_what_passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passed = Stamps(tmp_path / "passed")
    passed.add("key")
    for value, kept in (("1", False), ("0", True), ("", True)):
        monkeypatch.setenv("FRESH", value)
        assert passed.has("key") == kept


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_who_ends_a_run_ends_its_commands(tmp_path: Path, ending: signal.Signals) -> None:
    program = (
        "import signal; from steps import Step, call, run_steps\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's background jobs ignore it
        f"run_steps([Step('it', lambda: call('sh', '-c', 'echo $$ > {tmp_path}/pid; exec sleep 600'))])"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tools")}
    with subprocess.Popen([sys.executable, "-c", program], env=environment, stderr=subprocess.DEVNULL) as run:
        deadline = time.monotonic() + 60
        while not (pid := (tmp_path / "pid").read_text() if (tmp_path / "pid").exists() else ""):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        run.send_signal(ending)
        try:
            assert run.wait(timeout=60) != 0
        finally:
            run.kill()
    assert not Path(f"/proc/{int(pid)}").exists()


def test_a_command_that_begins_while_the_run_is_ended_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    ending = threading.Event()
    ending.set()
    monkeypatch.setattr(steps, "ENDING", ending)
    begin = time.monotonic()
    with pytest.raises(StepFailed):
        call("sleep", "600")
    assert time.monotonic() - begin < 60


def test_steps_together_run_at_the_same_time(capsys: pytest.CaptureFixture[str]) -> None:
    both = threading.Barrier(2)

    def meets() -> str:
        both.wait(timeout=60)
        return ""

    lanes = (Step("one", meets),), (Step("other", meets),), (Step("third", fails),)
    assert run_steps([Together(lanes)]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "2 passed, 1 failed, 0 skipped"


def test_steps_of_one_lane_run_in_sequence_after_failures_too(capsys: pytest.CaptureFixture[str]) -> None:
    ran: list[str] = []
    other_ran = threading.Event()

    def noted(name: str, wait: bool = False) -> Callable[[], str]:
        def run() -> str:
            if wait:
                assert other_ran.wait(60)
            ran.append(name)
            if name == "other":
                other_ran.set()
            return ""

        return run

    lane = (Step("first", noted("first", wait=True)), Step("fails", fails), Step("last", noted("last")))
    assert run_steps([Together((lane, (Step("other", noted("other")),)))]) == 1
    assert ran == ["other", "first", "last"]
    assert capsys.readouterr().out.splitlines()[-1] == "3 passed, 1 failed, 0 skipped"


def test_a_failing_command_brings_its_output() -> None:
    with pytest.raises(StepFailed, match="heard"):
        call("sh", "-c", "echo heard; exit 3")
    assert call("echo", "well") == "well\n"


def test_a_command_that_hangs_is_ended_with_what_it_started() -> None:
    begin = time.monotonic()
    with pytest.raises(StepFailed, match=r"heard(.|\n)*ended after its limit of 1 s"):
        call("sh", "-c", "echo heard; setsid sleep 30 & wait", timeout=1)
    assert time.monotonic() - begin < 20


def test_digest_tells_boundaries_apart() -> None:
    assert digest(["ab", "c"]) != digest(["a", "bc"])
    assert digest(["ab", "c"]) == digest(["ab", "c"])
