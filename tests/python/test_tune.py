"""vram tune as users run it: a replay of its recommendation gives the promised result, in every output format.

VRAM_BINARY names the program under test.
"""

import itertools
import pathlib
from typing import Any

import pytest
from program import DEMOS, vram, vram_json

FIGURES = (
    "completed",
    "peak_reserved_bytes",
    "peak_active_bytes",
    "peak_allocated_bytes",
    "peak_requested_bytes",
    "device_allocs",
    "device_frees",
    "retries",
    "driver_time_ns",
)


def tune(path: object, *arguments: object) -> Any:
    return vram_json("tune", path, *arguments)


def replay(path: object, conf: str, *arguments: object) -> Any:
    allocator = f"torch:{conf}" if conf else "torch"
    return vram_json("replay", path, "--allocator", allocator, *arguments)["results"][0]


@pytest.fixture(name="demo", params=DEMOS, ids=lambda path: path.name)
def fixture_demo(request: pytest.FixtureRequest) -> pathlib.Path:
    path = request.param
    assert isinstance(path, pathlib.Path)
    return path


def test_what_it_exports_gives_the_same_figures_when_replayed(demo: pathlib.Path) -> None:
    document = tune(demo)
    assert document["schema"] == "vram.tune/1"
    assert document["conf"] == document["settings"][0]["conf"]
    candidates = document["settings"]
    for candidate in (candidates[0], candidates[len(candidates) // 2], candidates[-1], document["recorded"]):
        again = replay(demo, candidate["conf"])
        assert [again[key] for key in FIGURES] == [candidate[key] for key in FIGURES]


def test_the_recommendation_is_never_worse_than_the_recorded_settings(demo: pathlib.Path) -> None:
    document = tune(demo)
    best, own = document["settings"][0], document["recorded"]
    assert own["is_recorded"]
    assert own == document["settings"][own["rank"] - 1]
    assert best["completed"]
    assert best["peak_reserved_bytes"] <= own["peak_reserved_bytes"]
    assert best["peak_reserved_bytes"] >= document["peak_live_bytes"]
    assert document["verdict"] == ("recorded_is_best" if own["tier"] == 0 else "better")


def test_ranks_follow_what_counts(demo: pathlib.Path) -> None:
    capacity = replay(demo, "")["peak_reserved_bytes"] - (200 << 20)
    document = tune(demo, "--capacity", f"{capacity}B")
    candidates = document["settings"]
    assert [c["rank"] for c in candidates] == list(range(1, len(candidates) + 1))
    assert [c["tier"] for c in candidates] == sorted(c["tier"] for c in candidates)
    completed = [c["completed"] for c in candidates]
    assert completed == sorted(completed, reverse=True)
    for before, after in itertools.pairwise(candidates):
        if before["tier"] == after["tier"]:
            assert before["setting_count"] <= after["setting_count"]
    assert len({c["conf"] for c in candidates}) == len(candidates)
    assert len(candidates) + len(document["others"]) == document["replays"]
    assert all((c["oom"] is None) == c["completed"] for c in candidates)


def test_the_number_of_threads_changes_nothing(demo: pathlib.Path) -> None:
    one, four = (vram("tune", demo, "--json", "--jobs", jobs) for jobs in (1, 4))
    assert one.returncode == 0
    assert one.stdout == four.stdout


def test_a_capacity_below_what_is_alive_names_who_holds_it(demo: pathlib.Path) -> None:
    live = tune(demo)["peak_live_bytes"]
    document = tune(demo, "--capacity", f"{live - 1}B")
    assert document["verdict"] == "cannot_fit"
    assert document["conf"] is None
    sizes = [holder["requested_bytes"] for holder in document["holders"]]
    assert len(sizes) == 3
    assert sizes == sorted(sizes, reverse=True)
    screen = vram("tune", demo, "--capacity", f"{live - 1}B").stdout
    assert "No setting and no allocator can help" in screen
    assert all(holder["name"] in screen for holder in document["holders"])
    assert tune(demo, "--capacity", f"{live}B")["verdict"] != "cannot_fit"


def test_the_screen_has_the_line_to_export(demo: pathlib.Path) -> None:
    conf = tune(demo)["conf"]
    lines = [line.strip() for line in vram("tune", demo).stdout.splitlines()]
    assert f"export PYTORCH_CUDA_ALLOC_CONF={conf}" in lines
    assert any("recorded" in line and "(default)" in line for line in lines)


def test_top_lists_more_or_all(demo: pathlib.Path) -> None:
    document = tune(demo)
    screen = "".join(vram("tune", demo, "--top", 0).stdout.split())
    for candidate in document["settings"]:
        assert (candidate["conf"] or "(default)") in screen
    assert len(vram("tune", demo, "--top", 3).stdout) < len(vram("tune", demo).stdout)


def test_a_converted_recording_tunes_the_same(demo: pathlib.Path, tmp_path: pathlib.Path) -> None:
    copy = tmp_path / "copy.vtrace"
    assert vram("convert", demo, copy).returncode == 0
    before, after = tune(demo), tune(copy)
    for key in ("settings", "others", "recorded", "conf", "verdict", "replays", "peak_live_bytes"):
        assert after[key] == before[key]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--capacity", "0"),
        ("--capacity", "much"),
        ("--capacity", "16"),
        ("--gpu", "Voodoo"),
        ("--jobs", "x"),
        ("--top", "-1"),
        ("--device", "9"),
    ],
)
def test_a_bad_option_is_one_line_and_2(demo: pathlib.Path, arguments: tuple[str, str]) -> None:
    done = vram("tune", demo, *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("vram: error: ")
    assert done.stderr.count("\n") == 1


def test_a_file_is_whole(demo: pathlib.Path, tmp_path: pathlib.Path) -> None:
    out = tmp_path / "tune.json"
    done = vram("tune", demo, "--json", "-o", out)
    assert (done.returncode, done.stdout) == (0, "")
    assert out.read_text() == vram("tune", demo, "--json").stdout
