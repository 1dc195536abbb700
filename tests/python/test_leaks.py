"""Leaks in recordings of real programs: those that were planted are found with their bytes a step, and no others.

VRAM_BINARY names the program under test.
"""

import json
import lzma
import pathlib
import pickle
from typing import Any

import pytest
from program import ROOT, vram, vram_json

LEAK = ROOT / "demo/leak.stacks.pickle.xz"
EVENTS_OF_A_STEP = 900
STEADY = [ROOT / "demo/unet_multiscale.pickle.xz", *sorted((ROOT / "tests/data/middle").glob("*.xz"))]


def leaks(recording: pathlib.Path) -> list[dict[str, Any]]:
    return [each for each in vram_json("report", recording)["growth"] if each["kind"] == "leak"]


@pytest.mark.parametrize("recording", STEADY, ids=lambda path: path.name)
def test_programs_that_do_not_leak_raise_no_alarm(recording: pathlib.Path) -> None:
    assert leaks(recording) == []


def kept_bytes(export: pathlib.Path, line: str) -> int:
    """What this line allocated before the last step and the program still had at its last allocation."""
    events = [json.loads(each) for each in export.read_text().splitlines()]
    end = max(i for i, each in enumerate(events) if each["action"] == "alloc")
    live: dict[str, dict[str, Any]] = {}
    for event in events[: end - EVENTS_OF_A_STEP]:
        if event["action"] == "alloc":
            live[event["address"]] = event
        elif event["action"] == "free_completed":
            live.pop(event["address"], None)
    for event in events[end - EVENTS_OF_A_STEP : end]:
        if event["action"] == "free_completed":
            live.pop(event["address"], None)
    return sum(each["size_bytes"] for each in live.values() if line in " ".join(each["stack"]))


def test_both_planted_leaks_are_found_with_their_bytes_a_step(tmp_path: pathlib.Path) -> None:
    """The program keeps a mean a step, and every third step a graph, of which the input is another line's."""
    export = tmp_path / "leak.jsonl"
    assert vram("convert", LEAK, export).returncode == 0
    means = kept_bytes(export, "workloads.py:251 hook")
    graphs = kept_bytes(export, "workloads.py:257 w_leak") + kept_bytes(export, "workloads.py:254 w_leak")
    graph_leak, means_leak = leaks(LEAK)
    assert means_leak["site"] == "workloads.py:251 hook"
    assert means_leak["per_step_bytes"] == pytest.approx(means / 29, rel=0.05)
    assert graph_leak["site"] == "workloads.py:257 w_leak and 1 other line"
    assert graph_leak["per_step_bytes"] == pytest.approx(graphs / 30, rel=0.05)
    for leak in (graph_leak, means_leak):
        assert leak["per_step_low_bytes"] <= leak["per_step_bytes"] <= leak["per_step_high_bytes"]
        assert leak["rise_p_value"] < 1e-9


def test_both_planted_leaks_are_found_without_stacks(tmp_path: pathlib.Path) -> None:
    """The hook also runs in the forward passes whose graphs are kept, with a smaller batch: those means are its leak."""
    export = tmp_path / "leak.jsonl"
    assert vram("convert", LEAK, export).returncode == 0
    means = kept_bytes(export, "workloads.py:251 hook")
    graphs = kept_bytes(export, "workloads.py:257 w_leak") + kept_bytes(export, "workloads.py:254 w_leak")
    snapshot = pickle.loads(lzma.decompress(LEAK.read_bytes()))
    for event in snapshot["device_traces"][0]:
        event["frames"] = []
    recording = tmp_path / "leak.pickle"
    recording.write_bytes(pickle.dumps(snapshot, protocol=4))
    graph_leak, means_leak = leaks(recording)
    assert means_leak["stack"] == graph_leak["stack"] == []
    assert means_leak["site"] == "blocks of 3 sizes, 16 KiB to 128 KiB"
    assert means_leak["per_step_bytes"] == pytest.approx(means / 29, rel=0.05)
    assert graph_leak["per_step_bytes"] == pytest.approx(graphs / 30, rel=0.05)


def test_a_recording_without_frees_has_no_verdict(tmp_path: pathlib.Path) -> None:
    export = tmp_path / "run.jsonl"
    assert vram("convert", LEAK, export).returncode == 0
    kept = [each for each in export.read_text().splitlines() if '"free_' not in each]
    export.write_text("\n".join(kept) + "\n")
    document = vram_json("report", export)
    assert document["leak_verdict"] == "no_frees"
    assert document["growth"] == []
    assert "No verdict on leaks: the recording contains no frees" in [each["title"] for each in document["findings"]]
