"""`vram status` of machines as others recorded them: what their text says, and nothing that they do not say."""

import json
import pathlib
from typing import Any

import pytest
from program import vram
from recorded_gpus import TREES, unpack

KIB = 1 << 10
GIB = 1 << 30

# Device by device: address, used and total, and what each process has: of the device, of the host.
Uses = dict[int, tuple[int | None, int | None]]
EXPECTED: dict[str, list[tuple[str, int | None, int | None, Uses]]] = {
    "amdgpu_vega64": [
        ("0000:00:02.0", None, None, {}),
        ("0000:09:00.0", 1490378752, 8573157376, {}),
    ],
    "amdgpu_standard_keys": [("0000:08:00.0", None, None, {2217: (2068 * KIB, 8192 * KIB)})],
    "amdgpu_visible_keys": [("0000:83:00.0", None, None, {3766769: (76 * KIB, 44 * KIB)})],
    "amdgpu_all_regions": [
        ("0000:04:00.0", None, None, {1204: (544428 * KIB, 22528 * KIB), 1239: (44564 * KIB, 2392 * KIB)})
    ],
    "amdgpu_6.18_radeon890m": [("0000:c5:00.0", None, None, {7700: (5348 * KIB, 25258000 * KIB)})],
    "amdgpu_mi308x_cpx": [
        ("0000:0a:00.0", 28 * GIB, 192 * GIB, {8000: (23 * GIB, None), 8100: (5 * GIB, 2048 * KIB)}),
        ("0000:a4:00.0", 301989888, 192 * GIB, {}),
    ],
    "amdgpu_mi100_kfd": [("0000:23:00.0", None, None, {4444: (16 * GIB, None)})],
    "amdgpu_laptop_asleep": [("0000:03:00.0", None, None, {})],
    "i915_integrated": [("0000:00:02.0", None, None, {4000: (None, 6044 * KIB)})],
    "i915_arc_a310": [("0000:03:00.0", None, None, {5000: (12 * KIB, 520 * KIB)})],
    "i915_6.8_arc_a310_model": [("0000:3d:00.0", None, None, {5200: (2698140 * KIB, None)})],
    "xe_dg2": [("0000:03:00.0", None, None, {6000: (23992 * KIB, 192 * KIB)})],
    "xe_two_tiles": [("0000:4d:00.0", None, 128 * GIB, {1383: (128826120 * KIB, 264 * KIB)})],
    "xe_7.0_battlemage_g31": [("0000:03:00.0", None, None, {})],
    "xe_6.18_arc_b580": [("0000:0b:00.0", None, None, {})],
    "panfrost": [],
    "amdxdna_npu": [("0000:c5:00.0", None, None, {})],
}


def status(tree: str, folder: pathlib.Path, *options: str) -> tuple[int, str]:
    (path,) = [path for path in TREES if path.stem == tree]
    unpack(path, folder / tree)
    done = vram("status", "--gpu", "drm", *options, VRAM_DRM_ROOT=str(folder / tree))
    assert done.stderr == "" or done.returncode == 3
    return done.returncode, done.stdout


def uses_of(device: int, processes: list[Any]) -> Uses:
    found = {}
    for process in processes:
        for use in process["uses"]:
            if use["device"] == device:
                found[process["pid"]] = (use["used_bytes"], use["host_bytes"])
    return found


def test_each_tree_has_its_figures_here() -> None:
    assert {path.stem for path in TREES} == EXPECTED.keys()


@pytest.mark.parametrize("tree", EXPECTED)
def test_the_whole_program_tells_what_was_recorded(tree: str, tmp_path: pathlib.Path) -> None:
    code, text = status(tree, tmp_path, "--json")
    assert code == (0 if EXPECTED[tree] else 3)
    document = json.loads(text)
    found = [
        (
            device["pci_id"],
            device["memory"]["used_bytes"],
            device["memory"]["total_bytes"],
            uses_of(device["index"], document["processes"]),
        )
        for device in document["devices"]
    ]
    assert found == EXPECTED[tree]


def test_a_person_is_told_the_same(tmp_path: pathlib.Path) -> None:
    code, text = status("amdgpu_6.18_radeon890m", tmp_path)
    assert code == 0
    assert "7700" in text
    assert "24.1 GiB" in text  # 25258000 KiB


def test_a_recorded_sleeper_is_asleep(tmp_path: pathlib.Path) -> None:
    code, text = status("amdgpu_laptop_asleep", tmp_path)
    assert code == 0
    assert "asleep" in text
