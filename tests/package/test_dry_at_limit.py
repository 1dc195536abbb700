"""Programs that can do with less than they ask for: convolutions run with other plans of cuDNN if a workspace cannot be had."""

# mypy: allow-untyped-calls

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from vram.dry import DryRun, _at_limit, _edited, _kernels, _least, _program, dry_run
from vram.dry._convolutions import Workspaces
from vram.dry._gpu import find_gpu
from vram.dry._tape import Smaller

MIB = 1 << 20


def train(steps: int = 3) -> None:
    model = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(32, 3, 224, 224, device="cuda")).mean().backward()
        optimizer.step()


def run_of(path: Path, limit_bytes: int | None = None, **options: Any) -> DryRun:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with dry_run("24GiB", path=path, torch_version="2.11.0", **options) as run:
            if limit_bytes is not None:
                torch.cuda.set_per_process_memory_fraction((limit_bytes + 1) / find_gpu("24GiB").total_bytes)
            train()
    return run


def test_less_than_the_peak_is_enough(tmp_path: Path) -> None:
    run = run_of(tmp_path / "dry.vtrace")
    outside = run.peak.device_bytes - run.peak.reserved_bytes
    assert run.fits.needed_bytes - outside < run.peak.requested_bytes - 100 * MIB


def test_the_program_runs_with_what_it_is_said_to_need_and_not_with_less(tmp_path: Path) -> None:
    """The dry run's own allocator, with a limit, against the replays that search for the least memory."""
    free = run_of(tmp_path / "free.vtrace")
    least = free.fits.needed_bytes - (free.peak.device_bytes - free.peak.reserved_bytes)
    assert run_of(tmp_path / "enough.vtrace", least).peak.reserved_bytes <= least
    with pytest.raises(torch.OutOfMemoryError):
        run_of(tmp_path / "less.vtrace", least - 4 * MIB)


def test_what_a_kernel_needs_at_least_is_requested_if_the_rest_cannot_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = 64 * MIB
    allocations = _kernels.Kernels.allocations

    def with_least(kernels: Any, call: Any) -> Any:
        found = allocations(kernels, call)
        return tuple(
            type(each)(**{**vars(each), "needed_bytes": (min(each.size_bytes, needed),)})
            if each.needed_bytes == (0,)
            else each
            for each in found
        )

    free = run_of(tmp_path / "free.vtrace")
    monkeypatch.setattr(_kernels.Kernels, "allocations", with_least)
    more = run_of(tmp_path / "more.vtrace")
    assert free.fits.needed_bytes < more.fits.needed_bytes <= free.fits.needed_bytes + needed
    least = more.fits.needed_bytes - (more.peak.device_bytes - more.peak.reserved_bytes)
    assert run_of(tmp_path / "enough.vtrace", least).peak.reserved_bytes <= least
    with pytest.raises(torch.OutOfMemoryError):
        run_of(tmp_path / "less.vtrace", least - 4 * MIB)


def test_plans_between_the_first_and_the_least_are_requested_in_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dry run's own allocator, with a limit, against a replay with this limit."""
    monkeypatch.setattr(
        Workspaces,
        "fallbacks_of",
        lambda found, *call: (found.bytes_of(*call) // 2, found.bytes_of(*call) // 4, MIB // 2, 0),
    )
    free = run_of(tmp_path / "free.vtrace")
    least = free.fits.needed_bytes - (free.peak.device_bytes - free.peak.reserved_bytes)
    refused = []
    for limit in (least, least + 64 * MIB, least + 128 * MIB):
        limited = run_of(tmp_path / "limited.vtrace", limit)
        _program.convert(limited.trace_path, tmp_path / "limited.jsonl")
        events = [json.loads(line) for line in (tmp_path / "limited.jsonl").read_text().splitlines()]
        refused.append([event["size_bytes"] for event in events if event["action"] == "oom"])
        replayed = _program.replay(free._path_at_limit, "torch", capacity=limit)
        assert replayed["completed"]
        assert replayed["caught_ooms"] == sum(size_bytes > MIB for size_bytes in refused[-1])
    assert len({*refused[0]}) > 2, "the first plans and some of the next ones"


def test_small_workspaces_take_no_segment_after_a_large_one_was_granted() -> None:
    event = {"device": 0, "action": "alloc", "stream": 0}
    trace = [
        {**event, "address": "0x10", "size_bytes": 300 * MIB},
        {**event, "address": "0x10", "size_bytes": 300 * MIB, "action": "free_completed"},
        {**event, "address": "0x20", "size_bytes": 1000},
    ]

    def rewritten(*sizes: int) -> list[tuple[str, int, str | None]]:
        events = _at_limit._rewritten(iter(trace), {(0, 0): Smaller(sizes, choice=7)})
        return [(each["action"], each["size_bytes"], each.get("user_metadata")) for each in events]

    assert rewritten(40 * MIB, 16) == [
        ("oom", 300 * MIB, "7"),
        ("oom", 40 * MIB, "7"),
        ("alloc", 16, "7"),
        ("free_completed", 16, None),
        ("alloc", 1000, None),
        ("alloc", 8, None),
    ]
    assert rewritten(40 * MIB, 0)[2:4] == [("alloc", 8, "7"), ("free_completed", 8, None)], "a choice ends with one"


def test_the_plan_that_pytorch_fell_back_to_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The dry run's own allocator, with a limit that is reached once, and a replay with this limit."""
    monkeypatch.setattr(Workspaces, "bytes_of", lambda *_: 256 * MIB)
    monkeypatch.setattr(Workspaces, "fallbacks_of", lambda *_: (64 * MIB, 0))
    total_bytes = find_gpu("24GiB").total_bytes

    def run(name: str, share: float) -> DryRun:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with dry_run("24GiB", path=tmp_path / f"{name}.vtrace", torch_version="2.11.0") as found:
                torch.cuda.set_per_process_memory_fraction(share)
                layer, image = nn.Conv2d(8, 8, 3, device="cuda"), torch.empty(8, 8, 64, 64, device="cuda")
                with torch.no_grad():
                    for mib in (100, 300, 100, 450, 100):
                        held = torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")
                        layer(image)
                        del held
        return found

    free = run("free", 1)
    limited = run("limited", 500 * MIB / total_bytes)
    _program.convert(limited.trace_path, tmp_path / "limited.jsonl")
    events = [json.loads(line) for line in (tmp_path / "limited.jsonl").read_text().splitlines()]
    large = [(each["action"], each["size_bytes"] // MIB) for each in events if each["size_bytes"] >= 64 * MIB]
    tried = [each for each in large if each[0] in ("alloc", "oom") and each[1] in (64, 256)]
    at_first, kept = [("alloc", 256)], ("alloc", 64)
    refused = [("oom", 64), ("oom", 256), ("oom", 64)]
    assert tried == [*at_first, ("oom", 256), kept, kept, *refused], (
        "and nothing but a plan without workspace from then on"
    )
    replayed = _program.replay(free._path_at_limit, "torch", capacity=500 * MIB)
    assert replayed["completed"]
    assert replayed["caught_ooms"] == 4


def test_a_change_of_blocks_keeps_what_the_program_can_do_without(tmp_path: Path) -> None:
    run = run_of(tmp_path / "dry.vtrace")
    changed = run.what_if(zero=1, world_size=2)
    assert changed.fits.needed_bytes <= run.fits.needed_bytes
    assert changed.fits.needed_bytes < changed.peak.requested_bytes


def test_a_change_of_blocks_keeps_choices_where_blocks_take_segments() -> None:
    event = {"device": 0, "stream": 0, "address": "0x0", "action": "oom", "category": "choice", "user_metadata": "7"}
    trace = [
        {**event, "size_bytes": 300 * MIB},
        {**event, "size_bytes": 200 * MIB},
        {**event, "size_bytes": 100 * MIB, "action": "alloc", "address": "0x10"},
    ]

    def rewritten(size_bytes: int) -> list[tuple[str, int]]:
        changed = _edited._Trace(trace, lambda *_: size_bytes).rewritten()
        return [(each["action"], each["size_bytes"] // MIB) for each in changed]

    assert rewritten(80 * MIB) == [("segment_alloc", 80), ("oom", 300), ("oom", 200), ("alloc", 80)]
    assert rewritten(0) == [], "a block that is not there is not requested"


def test_the_least_memory_of_each_trace_is_searched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[Path] = []
    plain = _least.least

    def least(trace: Path, allocator: str, device: int | None) -> _least.Least:
        searched.append(trace)
        return plain(trace, allocator, device)

    monkeypatch.setattr(_least, "least", least)
    run = run_of(tmp_path / "dry.vtrace")
    assert run.fits.needed_bytes
    assert run.relative_error
    assert sorted(searched) == sorted([run.trace_path, run._path_at_limit])


def test_products_of_matrices_can_do_with_nothing_less(tmp_path: Path) -> None:
    with dry_run("24GiB", path=tmp_path / "dry.vtrace") as run:
        nn.Linear(1024, 1024).cuda()(torch.empty(4096, 1024, device="cuda"))
    assert run.fits.needed_bytes >= run.peak.requested_bytes + (run.peak.device_bytes - run.peak.reserved_bytes)
    assert run.relative_error == pytest.approx(math.hypot(0.0003, (8 << 20) / run.fits.needed_bytes))
