"""The least memory of a program is that of several traces that differ a little, because an allocator without room divides it differently then."""

# mypy: allow-untyped-calls

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from vram.dry import _varied, dry_run

MIB = 1 << 20
plain_write = _varied.write


def events(count: int, size_bytes: int) -> list[dict[str, Any]]:
    births = [
        {"device": 0, "action": "alloc", "address": f"0x{i + 1:x}", "size_bytes": size_bytes} for i in range(count)
    ]
    return [*births, *({**each, "action": "free_completed"} for each in births[: count // 2])]


def variants(found: list[dict[str, Any]], folder: Path) -> list[list[dict[str, Any]]]:
    trace = folder / "trace.jsonl"
    trace.write_text("".join(json.dumps(each) + "\n" for each in found))
    return [[json.loads(line) for line in path.read_text().splitlines()] for path in _varied.write(trace, folder)]


def test_a_few_large_blocks_are_a_little_larger_from_birth_to_death(tmp_path: Path) -> None:
    plain = events(1000, 2 * MIB)
    found = variants(plain, tmp_path)
    assert len(found) == _varied.VARIANTS
    assert len({json.dumps(each) for each in found}) == _varied.VARIANTS
    for varied in found:
        more = {new["address"]: new["size_bytes"] - old["size_bytes"] for new, old in zip(varied, plain, strict=True)}
        assert all(new["size_bytes"] - 2 * MIB == more[new["address"]] for new in varied)
        assert 1 <= sum(each > 0 for each in more.values()) <= 30
        assert all(0 <= each < 4096 and each % 512 == 0 for each in more.values())


def test_small_blocks_stay_as_they_are(tmp_path: Path) -> None:
    plain = events(1000, 1000)
    assert variants(plain, tmp_path) == [plain] * _varied.VARIANTS


def train() -> None:
    x = torch.randn(64, 1024, device="cuda")
    layer = torch.nn.Linear(1024, 1024).cuda()
    for _ in range(2):
        layer(x).sum().backward()


def larger(trace: Path, folder: Path) -> Iterator[Path]:
    for path in plain_write(trace, folder):
        found = [json.loads(line) for line in path.read_text().splitlines()]
        path.write_text("".join(json.dumps({**each, "size_bytes": 3 * each["size_bytes"]}) + "\n" for each in found))
        yield path
        return


@pytest.mark.parametrize(("allocator", "grows"), [("torch", True), ("torch:expandable_segments=True", False)])
def test_the_least_memory_is_that_of_all_variants(
    allocator: str, grows: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = []
    for name, write in (("plain", plain_write), ("larger", larger)):
        monkeypatch.setattr(_varied, "write", write)
        with dry_run("24GiB", path=tmp_path / f"{name}.vtrace", allocator=allocator) as run:
            train()
        needed.append(run._least_bytes(run.trace_path))
    assert (needed[1] > 2 * needed[0]) == grows
