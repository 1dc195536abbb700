"""Programs of C++ tests count as passed only if they ran."""

import os
from pathlib import Path

import pytest

import unit
from steps import StepFailed

CTEST = """#!/bin/sh
while [ $# -gt 0 ]; do [ "$1" = --output-junit ] && report=$2; shift; done
cat "$0.report" > "$report" 2> /dev/null || rm -f "$report"
echo "100% tests passed, 0 tests failed out of 2"
exit "$(cat "$0.code")"
"""


@pytest.fixture
def ctest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ctest that reports what the test says; two programs to run."""
    (tmp_path / "bin").mkdir()
    file = tmp_path / "bin" / "ctest"
    file.write_text(CTEST)
    file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{file.parent}:{os.environ['PATH']}")
    (tmp_path / "build").mkdir()
    for name in ("a_test", "b_test"):
        (tmp_path / "build" / name).write_text(name)
    return file


def says(ctest: Path, code: int, **programs: str) -> None:
    """The exit code, and the status of a case of each program; none: nothing is reported."""
    Path(f"{ctest}.code").write_text(str(code))
    cases = "".join(f'<testcase name="{name}:A.B" status="{status}" time="1"/>' for name, status in programs.items())
    report = Path(f"{ctest}.report")
    report.write_text(f"<testsuite>{cases}</testsuite>") if cases else report.unlink(missing_ok=True)


def test_what_passed_is_not_run_again_and_what_failed_is(ctest: Path) -> None:
    build = ctest.parents[1] / "build"
    says(ctest, 8, a_test="run", b_test="fail")
    with pytest.raises(StepFailed):
        unit.check(build)
    says(ctest, 0, b_test="run")
    assert "1 programs as they were" in unit.check(build)
    assert unit.check(build) == "skipped: 2 programs that passed are as they were"
    (build / "a_test").write_text("changed")
    says(ctest, 0, a_test="run")
    assert "1 programs as they were" in unit.check(build)


def test_a_ctest_that_ends_before_its_tests_proves_nothing(ctest: Path) -> None:
    build = ctest.parents[1] / "build"
    says(ctest, 8, a_test="fail", b_test="fail")
    with pytest.raises(StepFailed):
        unit.check(build)
    says(ctest, 8)
    with pytest.raises(StepFailed):
        unit.check(build)
    says(ctest, 0, a_test="run", b_test="run")
    assert "as they were" not in unit.check(build)


def test_a_case_that_did_not_run_did_not_pass(ctest: Path) -> None:
    build = ctest.parents[1] / "build"
    says(ctest, 8, a_test="notrun", b_test="run")
    with pytest.raises(StepFailed):
        unit.check(build)
    says(ctest, 0, a_test="run")
    assert "1 programs as they were" in unit.check(build)


def test_without_programs_nothing_passes(tmp_path: Path) -> None:
    with pytest.raises(StepFailed, match="build it first"):
        unit.check(tmp_path)
