"""The runner of the test command: a failing step is shown, counted, and fails the whole."""

import pytest

from steps import StepFailed, call, digest, run_steps


def fails() -> str:
    raise StepFailed("what it printed")


def test_all_steps_run_and_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_steps([("first", fails), ("second", lambda: "3 files")]) == 1
    printed = capsys.readouterr().out
    assert "what it printed" in printed
    assert "3 files" in printed
    assert printed.splitlines()[-1] == "1 passed, 1 failed"


def test_success(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_steps([("only", lambda: "fine")]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 passed, 0 failed"


def test_a_failing_command_brings_its_output() -> None:
    with pytest.raises(StepFailed, match="heard"):
        call("sh", "-c", "echo heard; exit 3")
    assert call("echo", "well") == "well\n"


def test_digest_tells_boundaries_apart() -> None:
    assert digest(["ab", "c"]) != digest(["a", "bc"])
    assert digest(["ab", "c"]) == digest(["ab", "c"])
