"""Recordings in other formats, from standard input and in folders; screens that fit the terminal.

VRAM_BINARY names the program under test.
"""

import json
import pathlib
import shutil
import subprocess
import sys
import unicodedata
from typing import Any

import pytest
from program import BINARY, DEMOS, ROOT, environment, vram, vram_json

RANKS = [ROOT / f"tests/data/recordings/run.rank{rank}.vtrace" for rank in range(3)]
LEAK = ROOT / "demo/leak.stacks.pickle.xz"
WIDTHS = (60, 80, 100, 120)


def figures(recording: pathlib.Path, of: pathlib.Path) -> dict[str, Any]:
    """What an export keeps of a recording that holds its program from the beginning."""
    document = vram_json("report", recording)
    peak = {name: value for name, value in document["peak"].items() if not name.endswith("step")}
    counts = {name: document[name] for name in ("events", "allocations", "frees", "has_stacks", "duration_ns")}
    breakdowns = document["at_peak"]["breakdowns"] if of in DEMOS else []  # others have scopes, too
    holders = [each for each in breakdowns if each["by"] in ("user_frame", "size")]
    return {**counts, "peak": peak, "timeline": document["timeline"], "holders": holders}


@pytest.mark.parametrize("form", ["csv", "jsonl"])
@pytest.mark.parametrize("recording", [*DEMOS, *RANKS], ids=lambda path: path.name)
def test_an_export_is_read_back(recording: pathlib.Path, form: str, tmp_path: pathlib.Path) -> None:
    export, again, other = tmp_path / f"run.{form}", tmp_path / f"again.{form}", tmp_path / "run.vtrace"
    assert vram("convert", recording, export).returncode == 0
    expected = figures(recording, recording)
    assert figures(export, recording) == expected
    assert vram("convert", export, again).returncode == 0
    assert again.read_bytes() == export.read_bytes()
    assert vram("convert", export, other).returncode == 0
    assert figures(other, recording) == expected
    assert vram_json("replay", export)["results"][0]["completed"]


def test_times_may_be_any_numbers(tmp_path: pathlib.Path) -> None:
    """They are limited, instead of overflowing: a report of these ended with a segmentation fault."""
    run, html, timeline = (tmp_path / name for name in ("run.jsonl", "run.html", "run.pftrace"))
    times = (-(2**63), 2**63 - 1, None, 0)
    events = [
        {"device": 0, "device_kind": "gpu", "index": index, "time_ns": time_ns, "action": "alloc"}
        | {"address": hex(4096 + 512 * index), "size_bytes": 512, "stream": 0, "pool": [0, 0]}
        for index, time_ns in enumerate(times)
    ]
    run.write_text("".join(json.dumps(event) + "\n" for event in events))
    for words in (["report", run], ["report", run, "--html", html], ["convert", run, timeline], ["replay", run]):
        done = vram(*words)
        assert done.returncode == 0, (words, done.returncode, done.stderr)
    assert vram_json("report", run)["duration_ns"] == 2**62 - 1


@pytest.mark.parametrize("name", ["demo/unet_multiscale.pickle.xz", "tests/data/recordings/run.rank0.vtrace"])
def test_a_dash_is_standard_input(name: str, tmp_path: pathlib.Path) -> None:
    expected = vram_json("report", ROOT / name)["peak"]
    for words in (["report", "-", "--json"], ["convert", "-", str(tmp_path / "copy.vtrace")]):
        for given in ({"input": (ROOT / name).read_bytes()}, {"stdin": (ROOT / name).open("rb")}):
            done = subprocess.run(
                [BINARY, *words], capture_output=True, check=True, env=environment(), timeout=120, **given
            )
            if words[0] == "report":
                assert json.loads(done.stdout)["peak"] == expected
    assert vram_json("report", tmp_path / "copy.vtrace")["peak"] == expected


@pytest.mark.parametrize(
    "words", [["replay", "-"], ["tune", "-"], ["diff", "-", str(RANKS[0])], ["diff", str(RANKS[0]), "-"]]
)
def test_every_command_reads_a_recording_from_standard_input(words: list[str]) -> None:
    def printed(names: list[str], **given: Any) -> Any:
        done = subprocess.run(
            [BINARY, *names, "--json"], capture_output=True, check=True, env=environment(), timeout=120, **given
        )
        return json.loads(done.stdout)

    recording = RANKS[1] if words[0] == "diff" else LEAK
    piped = printed(words, input=recording.read_bytes())
    expected = printed([str(recording) if word == "-" else word for word in words])
    key = {"replay": "capacity_bytes", "tune": "conf", "diff": "devices"}[words[0]]
    assert piped[key] == expected[key]


def test_one_bad_file_costs_one_line(tmp_path: pathlib.Path) -> None:
    for rank in RANKS[:2]:
        shutil.copy(rank, tmp_path)
    (tmp_path / "run.rank2.vtrace").touch()
    done = vram("report", tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "run.rank2.vtrace" in done.stderr
    assert "RANKS  2 recordings" in done.stdout
    (tmp_path / "run.rank1.vtrace").write_bytes(b"")
    done = vram("report", tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 2)
    assert "PEAK" in done.stdout, "one that is left is explained"


def test_a_folder_of_other_programs_is_a_table_of_files(tmp_path: pathlib.Path) -> None:
    for path in [*DEMOS, RANKS[0]]:
        shutil.copy(path, tmp_path)
    done = vram("report", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "RANKS" not in done.stdout
    for path in [*DEMOS, RANKS[0]]:
        assert sum(path.name in line for line in done.stdout.splitlines()) == 1
    documents = vram_json("report", tmp_path)
    assert [pathlib.Path(each["path"]).name for each in documents] == sorted(path.name for path in [*DEMOS, RANKS[0]])


def width(line: str) -> int:
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in line)
    return len(line) + wide - sum(unicodedata.combining(c) > 0 for c in line)


@pytest.mark.parametrize("columns", WIDTHS)
def test_no_line_is_wider_than_the_terminal(columns: int) -> None:
    recordings: list[object] = [*DEMOS, *RANKS]
    demos: list[object] = [*DEMOS]
    commands: list[list[object]] = [
        *(["report", *options, path] for path in recordings for options in ([], ["--full", "--at", "peak"])),
        *([command, path] for command in ("replay", "tune") for path in demos),
        ["replay", RANKS[0]],
        ["tune", LEAK, "--capacity", "2GiB"],
        ["report", ROOT / "tests/data/recordings"],
        ["status", "--gpu", f"sim:{RANKS[0]}"],
        ["status", "-q", "--gpu", f"sim:{RANKS[0]}"],
    ]
    for bars in ("", "1"):
        for command in commands:
            done = vram(*command, COLUMNS=str(columns), CLICOLOR_FORCE=bars, NO_COLOR="1")
            assert done.returncode == 0, done.stderr
            for line in done.stdout.splitlines():
                # A line to be copied stays one.
                assert line.startswith("  export ") or width(line) <= columns, (command, line)


@pytest.mark.parametrize("recording", [*DEMOS, *RANKS], ids=lambda path: path.name)
def test_a_report_fits_one_screen(recording: pathlib.Path) -> None:
    short = vram("report", recording, COLUMNS="100").stdout.splitlines()
    full = vram("report", recording, "--full", COLUMNS="100").stdout.splitlines()
    assert len(short) <= 50
    assert any(line.startswith("--full adds") for line in short) == (len(short) < len(full))


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
