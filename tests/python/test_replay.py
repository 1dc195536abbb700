"""vram replay as its users run it: exact on the bundled recordings, at every capacity, in every form.

VRAM_BINARY names the program under test.
"""

import json
import pathlib
from typing import Any

import pytest
from program import DEMOS, vram, vram_json

EXPANDABLE = "torch:expandable_segments=True"
PAGE = 2 << 20  # the driver's granularity
# What PyTorch's own counters said at the end of these programs.
MEASURED = {
    "unet_multiscale.pickle.xz": (15_962_232_252, 27_011_317_760),
    "leak.stacks.pickle.xz": (3_664_595_996, 3_984_588_800),
}


def replay(path: object, *arguments: object) -> Any:
    return vram_json("replay", path, *arguments)


def one(path: object, *arguments: object) -> Any:
    results = replay(path, *arguments)["results"]
    assert len(results) == 1
    return results[0]


@pytest.fixture(name="demo", params=DEMOS, ids=lambda path: path.name)
def fixture_demo(request: pytest.FixtureRequest) -> pathlib.Path:
    path = request.param
    assert isinstance(path, pathlib.Path)
    return path


def test_its_own_settings_give_what_was_recorded(demo: pathlib.Path) -> None:
    report = json.loads(vram("report", demo, "--json").stdout)
    document = replay(demo)
    own = document["recorded"]
    assert (own["peak_requested_bytes"], own["peak_reserved_bytes"]) == MEASURED[demo.name]
    assert own["peak_active_bytes"] == report["peak"]["active_bytes"]
    assert own["completed"]
    assert not own["model"]
    assert own["retries"] == 0
    assert own["device_frees"] == report["device_frees"]
    assert document["events"] == report["events"]
    assert document["duration_ns"] == report["duration_ns"]


def test_the_bare_command_answers_the_usual_question(demo: pathlib.Path) -> None:
    document = replay(demo)
    own, expandable = document["results"]
    assert own == document["recorded"]
    assert own["is_recorded"]
    assert expandable["allocator"] == EXPANDABLE
    assert not expandable["is_recorded"]
    saved = own["peak_reserved_bytes"] - expandable["peak_reserved_bytes"]
    assert saved > 0
    screen = " ".join(vram("replay", demo).stdout.split())
    assert "less than the recording's own settings (torch)" in screen


def test_results_come_in_the_order_asked_for(demo: pathlib.Path) -> None:
    document = replay(demo, "--allocator", EXPANDABLE, "--allocator", "torch:max_split_size_mb=128")
    assert [result["allocator"] for result in document["results"]] == [EXPANDABLE, "torch:max_split_size_mb=128"]
    assert document["recorded"]["allocator"] == "torch"
    assert document["results"][0] == one(demo, "--allocator", EXPANDABLE)


@pytest.mark.parametrize("allocator", ["torch", EXPANDABLE])
def test_a_capacity_is_never_exceeded(demo: pathlib.Path, allocator: str) -> None:
    free = one(demo, "--allocator", allocator)
    live, reserved = free["peak_requested_bytes"], free["peak_reserved_bytes"]
    at_peak = one(demo, "--allocator", allocator, "--capacity", f"{reserved}B")
    assert at_peak["completed"]
    assert at_peak["peak_reserved_bytes"] == reserved
    below_live = one(demo, "--allocator", allocator, "--capacity", f"{live - PAGE}B")
    assert not below_live["completed"]
    assert below_live["peak_reserved_bytes"] <= live - PAGE
    oom = below_live["oom"]
    assert oom["reserved_bytes"] <= live - PAGE
    assert oom["requested_bytes"] > oom["largest_free_bytes"]
    assert oom["event"] < replay(demo)["events"]


@pytest.mark.parametrize("allocator", ["torch", EXPANDABLE])
def test_the_smallest_capacity_suffices_and_less_does_not(demo: pathlib.Path, allocator: str) -> None:
    found = one(demo, "--allocator", allocator, "--min-capacity")
    smallest = found["min_capacity_bytes"]
    assert found["peak_active_bytes"] <= smallest <= found["peak_reserved_bytes"]
    there = one(demo, "--allocator", allocator, "--capacity", f"{smallest}B")
    assert there["completed"]
    assert there["retries"] == found["min_capacity_retries"]
    assert not one(demo, "--allocator", allocator, "--capacity", f"{smallest - PAGE}B")["completed"]
    assert one(demo, "--allocator", allocator)["min_capacity_bytes"] is None


def test_the_figures_agree_with_each_other(demo: pathlib.Path) -> None:
    for result in replay(demo)["results"]:
        assert result["utilization"] == pytest.approx(result["peak_requested_bytes"] / result["peak_reserved_bytes"])
        assert sum(call["time_ns"] for call in result["driver_calls"]) == result["driver_time_ns"]
        curve = result["curve"]
        assert max(point["reserved_bytes"] for point in curve) == result["peak_reserved_bytes"]
        assert max(point["requested_bytes"] for point in curve) == result["peak_requested_bytes"]
        assert [point["time_ns"] for point in curve] == sorted(point["time_ns"] for point in curve)


def test_a_converted_recording_replays_the_same(demo: pathlib.Path, tmp_path: pathlib.Path) -> None:
    copy = tmp_path / "copy.vtrace"
    assert vram("convert", demo, copy).returncode == 0
    before, after = replay(demo), replay(copy)
    for key in ("results", "recorded", "events", "requests", "duration_ns", "device"):
        assert after[key] == before[key]


def test_running_out_of_memory_is_a_result(demo: pathlib.Path) -> None:
    done = vram("replay", demo, "--capacity", "512MiB")
    assert done.returncode == 0
    assert done.stderr == ""
    assert "out of memory at event" in " ".join(done.stdout.split())


@pytest.mark.parametrize("spec", ["nonsense", "torch:nonsense=1", "torch:max_split_size_mb=many", ""])
def test_a_bad_spec_is_one_line_and_2(demo: pathlib.Path, spec: str) -> None:
    done = vram("replay", demo, "--allocator", spec)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("vram: error: --allocator: ")
    assert done.stderr.count("\n") == 1


def test_a_bad_spec_lists_what_there_is(demo: pathlib.Path) -> None:
    assert "torch" in vram("replay", demo, "--allocator", "nonsense").stderr
    keys = vram("replay", demo, "--allocator", "torch:nonsense=1").stderr
    for key in (
        "expandable_segments",
        "max_split_size_mb",
        "max_non_split_rounding_mb",
        "roundup_power2_divisions",
        "garbage_collection_threshold",
        "large_segment_size_mb",
    ):
        assert key in keys


def test_a_file_is_whole_or_absent(demo: pathlib.Path, tmp_path: pathlib.Path) -> None:
    out = tmp_path / "replay.json"
    assert vram("replay", demo, "--allocator", "nonsense", "--json", "-o", out).returncode == 2
    assert not out.exists()
    done = vram("replay", demo, "--json", "-o", out)
    assert (done.returncode, done.stdout) == (0, "")
    assert out.read_text() == vram("replay", demo, "--json").stdout
