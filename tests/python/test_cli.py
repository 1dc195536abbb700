"""The program as users run it: round trips, screens on terminals, closed pipes, outputs that are complete or absent.

VRAM_BINARY names the program under test.
"""

import json
import os
import pathlib
import pty
import re
import select
import stat
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from program import BINARY, DEMOS, ROOT, environment, started, vram

FIXTURES = sorted(file for file in (ROOT / "tests/data/snapshots").glob("*") if file.is_file())
# What a path or a container changes in a report; everything else must survive a conversion.
OF_THE_FILE = ("path", "format", "file_bytes")


def report(path: object, *arguments: str) -> Any:
    done = vram("report", path, "--json", "--top", "0", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def is_readable(path: pathlib.Path) -> bool:
    return vram("report", path, "--json").returncode == 0


def on_a_terminal(*arguments: object, columns: int = 100, **changes: str) -> tuple[str, str]:
    """What the program writes when its outputs are terminals: (standard output, standard error)."""
    out, out_end = pty.openpty()
    err, err_end = pty.openpty()
    words = [BINARY, *map(str, arguments)]
    process = subprocess.Popen(
        words,
        stdout=out_end,
        stderr=err_end,
        stdin=subprocess.DEVNULL,
        env=environment(COLUMNS=str(columns), **changes),
    )
    os.close(out_end)
    os.close(err_end)
    text = {out: b"", err: b""}
    for descriptor, piece in pieces([out, err]):
        text[descriptor] += piece
    assert process.wait(timeout=60) == 0
    return text[out].decode().replace("\r\n", "\n"), text[err].decode().replace("\r\n", "\n")


def pieces(descriptors: list[int]) -> Iterator[tuple[int, bytes]]:
    still_open = list(descriptors)
    while still_open:
        ready = select.select(still_open, [], [], 60)[0]
        assert ready, "waited 60 s for the program to write something or to end"
        for descriptor in ready:
            try:
                piece = os.read(descriptor, 65536)
            except OSError:  # Linux says EIO when the other end of a terminal is gone
                piece = b""
            if piece:
                yield descriptor, piece
            else:
                still_open.remove(descriptor)
                os.close(descriptor)


@pytest.fixture(name="demo", params=DEMOS, ids=lambda path: path.name)
def fixture_demo(request: pytest.FixtureRequest) -> pathlib.Path:
    path = request.param
    assert isinstance(path, pathlib.Path)
    return path


# What PyTorch's own counters said at the end of these programs.
MEASURED = {
    "unet_multiscale.pickle.xz": (15_962_232_252, 27_011_317_760),
    "leak.stacks.pickle.xz": (3_664_595_996, 3_984_588_800),
}


@pytest.mark.parametrize("name", MEASURED)
def test_peaks_are_what_pytorch_measured(name: str) -> None:
    peak = report(ROOT / "demo" / name)["peak"]
    assert (peak["requested_bytes"], peak["reserved_bytes"]) == MEASURED[name]


@pytest.mark.parametrize("recording", DEMOS + FIXTURES, ids=lambda path: path.name)
def test_a_converted_recording_reports_the_same(recording: pathlib.Path, tmp_path: pathlib.Path) -> None:
    if not is_readable(recording):
        pytest.skip("made to be refused")
    copy = tmp_path / "copy.vtrace"
    done = vram("convert", recording, copy)
    assert done.returncode == 0, done.stderr
    before, after = report(recording), report(copy)
    for document in (before, after):
        for key in OF_THE_FILE:
            del document[key]
    assert after == before


def test_every_holder_is_listed_and_the_sums_are_the_peak(demo: pathlib.Path) -> None:
    document = report(demo)
    state = document["at_peak"]
    assert state["requested_bytes"] == document["peak"]["requested_bytes"]
    for breakdown in state["breakdowns"]:
        assert sum(holder["requested_bytes"] for holder in breakdown["holders"]) == state["requested_bytes"], breakdown[
            "by"
        ]


def test_waste_and_use_add_up_to_what_is_reserved(demo: pathlib.Path) -> None:
    waste = report(demo)["waste"]
    wasted = sum(waste[f"{part}_bytes"] for part in ("pending", "rounding", "releasable", "stranded", "private_pool"))
    assert 0 < wasted < waste["reserved_bytes"]


def test_the_state_at_the_peak_is_the_peak(demo: pathlib.Path) -> None:
    document = report(demo, "--at", "peak")
    assert document["at"] == document["at_peak"]
    event = document["peak"]["event"]
    assert report(demo, "--at", f"event:{event}")["at"] == document["at_peak"]


def test_the_state_at_a_step_is_that_steps_peak(demo: pathlib.Path) -> None:
    step = report(demo)["steps"]["items"][3]
    state = report(demo, "--at", "step:3")["at"]
    assert state["step"] == 3
    assert state["event"] == step["peak_event"]
    assert state["requested_bytes"] == step["peak_requested_bytes"]


def test_several_recordings_are_an_array(demo: pathlib.Path) -> None:
    one = vram("report", demo, "--json").stdout
    two = vram("report", demo, demo, "--json").stdout
    assert json.loads(two) == [json.loads(one)] * 2


def test_one_bad_recording_does_not_hide_the_others(demo: pathlib.Path) -> None:
    done = vram("report", "missing", demo)
    assert done.returncode == 2
    assert demo.name in done.stdout
    assert done.stderr.count("\n") == 1


def test_json_is_whole_or_absent(demo: pathlib.Path, tmp_path: pathlib.Path) -> None:
    out = tmp_path / "report.json"
    before = '{"schema": "vram.report/1"}'
    out.write_text(before)
    assert vram("report", demo, "missing", "--json", "-o", out).returncode == 2
    assert out.read_text() == before
    assert vram("report", demo, "missing", "--json").stdout == ""
    assert vram("report", demo, "--json", "-o", out).returncode == 0
    assert out.read_text() == vram("report", demo, "--json").stdout
    assert os.listdir(tmp_path) == ["report.json"]


def test_a_failed_conversion_leaves_what_was_there(demo: pathlib.Path, tmp_path: pathlib.Path) -> None:
    out = tmp_path / "run.vtrace"
    out.write_bytes(b"\x89vtrace\nbefore")
    bad = tmp_path / "bad.pickle"
    bad.write_bytes(b"not a pickle")
    assert vram("convert", bad, out).returncode == 2
    assert out.read_bytes() == b"\x89vtrace\nbefore"
    same = tmp_path / "same.vtrace"
    assert vram("convert", demo, same).returncode == 0
    content = same.read_bytes()
    assert vram("convert", same, same).returncode == 2
    assert same.read_bytes() == content
    assert sorted(os.listdir(tmp_path)) == ["bad.pickle", "run.vtrace", "same.vtrace"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_one_line(demo: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "secret.pickle"
    path.write_bytes(demo.read_bytes())
    path.chmod(stat.S_IWUSR)
    done = vram("report", path)
    assert done.returncode == 2
    assert re.fullmatch(r"vram: error: .*secret\.pickle.*\n", done.stderr)


def test_a_reader_that_leaves_is_no_error(demo: pathlib.Path) -> None:
    words = [BINARY, "report", str(demo), "--json", "--top", "0"]
    with started(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(1)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_disk_is_an_error(demo: pathlib.Path) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [BINARY, "report", str(demo)],
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment(),
            check=False,
            text=True,
            timeout=120,
        )
    assert done.returncode == 2
    assert done.stderr.startswith("vram: error: cannot write to standard output")


def test_colours_are_for_terminals(demo: pathlib.Path) -> None:
    assert "\x1b[" in on_a_terminal("report", demo)[0]
    assert "\x1b[" not in on_a_terminal("report", demo, NO_COLOR="1")[0]
    assert "\x1b[" not in on_a_terminal("report", demo, TERM="dumb")[0]
    assert "\x1b[" not in vram("report", demo).stdout
    assert "\x1b[" in vram("report", demo, CLICOLOR_FORCE="1").stdout


def test_colours_change_nothing_but_colours(demo: pathlib.Path) -> None:
    coloured = re.sub(r"\x1b\[[0-9;]*m", "", on_a_terminal("report", demo)[0])
    assert coloured == on_a_terminal("report", demo, NO_COLOR="1")[0]


@pytest.mark.parametrize("columns", [72, 80, 100, 120])
def test_the_screen_fits_the_terminal(demo: pathlib.Path, columns: int) -> None:
    screen = on_a_terminal("report", demo, columns=columns, NO_COLOR="1")[0]
    assert max(map(len, screen.splitlines())) <= columns


def test_without_utf8_the_screen_is_ascii(demo: pathlib.Path) -> None:
    assert vram("report", demo, LANG="C").stdout.isascii()
    assert vram("report", demo, LC_ALL="POSIX", LANG="C.UTF-8").stdout.isascii()
    assert not vram("report", demo).stdout.isascii()


def test_progress_leaves_nothing_behind(demo: pathlib.Path) -> None:
    err = on_a_terminal("report", demo)[1]
    assert err == "" or err.endswith("\r\x1b[K")
    assert vram("report", demo).stderr == ""


def test_the_version_is_the_projects() -> None:
    declared = re.search(r"project\(vram VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())
    assert declared is not None
    said = vram("--version").stdout
    commit, build_type = r"(commit [0-9a-f]{7,40}(-dirty)?|unknown commit)", r"\w+(, sanitizers [\w,-]+)?"
    assert re.fullmatch(rf"vram {re.escape(declared.group(1))} \({commit}, {build_type}\)\n", said), said


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
