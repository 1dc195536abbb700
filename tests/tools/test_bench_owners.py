"""bench/gpu/owners.py accepts tables of memory that add up and refuses others; the recording itself needs a GPU."""

import importlib.util
from typing import Any

from source_files import ROOT

SPEC = importlib.util.spec_from_file_location("owners", ROOT / "bench/gpu/owners.py")
assert SPEC
assert SPEC.loader
owners: Any = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(owners)


def rest(**changed: Any) -> dict[str, Any]:
    items: list[dict[str, Any]] = [
        {"kind": "allocator", "name": "PyTorch", "bytes": 3 << 30, "basis": "reserved"},
        {"kind": "context", "name": "CUDA", "bytes": 500 << 20, "basis": "growth"},
    ]
    used = sum(item["bytes"] for item in items)
    return {"total_bytes": 80 << 30, "used_bytes": used + (9 << 20), "items": items, "unnamed_bytes": 9 << 20} | changed


def test_a_table_that_adds_up_is_accepted() -> None:
    assert owners.check("run", rest()) == []


def test_a_missing_byte_is_refused() -> None:
    (wrong,) = owners.check("run", rest(unnamed_bytes=(9 << 20) - 1))
    assert "are not the" in wrong


def test_much_unnamed_memory_is_refused() -> None:
    unnamed = (80 << 30) // 50
    table = rest(unnamed_bytes=unnamed)
    table["used_bytes"] += unnamed - (9 << 20)
    (wrong,) = owners.check("run", table)
    assert "have no name" in wrong


def test_an_unknown_device_memory_is_refused() -> None:
    (wrong,) = owners.check("run", rest(total_bytes=None))
    assert "does not report" in wrong


def test_the_table_has_a_row_for_each_owner() -> None:
    assert list(owners.rows("run", rest())) == [
        "| run | allocator | PyTorch | 3,072.0 | reserved |",
        "| run | context | CUDA | 500.0 | growth |",
        "| run | unnamed | | 9.0 | 0.01% of the device |",
        "| run | used | | 3,581.0 | |",
    ]
