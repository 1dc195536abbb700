"""vram.Cleaner's decisions, on a framework whose figures the tests set: grades run if that is worthwhile, and not otherwise."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import vram
from vram import Cleaned, Cleaner, Cleaning, Grade
from vram._frameworks import DeviceMemory, Figures, Tensor
from vram.clean import _cleaner, _host

GIB = 1 << 30
MIB = 1 << 20
WAIT = 10  # occasions of the first wait, and calls for which freed memory is observed


@dataclass
class FakeFramework:
    """One device of 80 GiB; tensors have 10 GiB of it, the cache 20."""

    name: str = "fake"
    allocated: int = 10 * GIB
    cache: int = 20 * GIB
    workspaces: int = 0  # a part of allocated
    others: int = 45 * GIB  # 5 GiB, 6 %, are free
    pinned: int = 0
    why_not: str | None = None
    done: list[str] = field(default_factory=list)
    knows_free: bool = True

    def devices(self) -> list[int]:
        return [0]

    def figures(self, device: int) -> Figures:
        assert device == 0
        return Figures(self.allocated, self.allocated + self.cache)

    def device_memory(self, device: int) -> DeviceMemory | None:
        assert device == 0
        used = self.allocated + self.cache + self.others
        return DeviceMemory(80 * GIB - used, 80 * GIB) if self.knows_free else None

    def release_cache(self) -> None:
        self.done.append("cache")
        self.cache = 0

    def clear_workspaces(self) -> str | None:
        self.done.append("workspaces")
        self.allocated, self.cache = self.allocated - self.workspaces, self.cache + self.workspaces
        self.workspaces = 0
        return None

    def pinned_bytes(self) -> int | None:
        return self.pinned

    def release_host_cache(self) -> str | None:
        self.done.append("host")
        self.pinned = 0
        return None

    def unavailable_reason(self) -> str | None:
        return self.why_not

    def tensor_classes(self) -> tuple[type, ...]:
        return (FakeFramework,)

    def tensor(self, item: object) -> Tensor | None:
        raise AssertionError(f"find_cycles() is replaced: no code asks for {type(item)}")

    def current_device(self) -> int | None:
        return 0

    def storage_users(self, item: object) -> int | None:
        del item
        return None

    def pci_id(self, device: int) -> str | None: ...
    def reset_peaks(self, device: int) -> None: ...
    def synchronize(self, device: int) -> None: ...
    def is_out_of_memory(self, error: BaseException) -> bool:
        return isinstance(error, MemoryError)

    def hidden_base(self, item: object) -> object | None:
        return item

    def hidden_gradient(self, item: object) -> object | None:
        return item


@dataclass
class Clock:
    """Does not advance, unless a test advances it."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(name="clock")
def _clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(_cleaner, "_clock", clock)
    return clock


@pytest.fixture(name="fake")
def _fake(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> FakeFramework:
    del clock
    fake = FakeFramework()
    monkeypatch.setattr(_cleaner, "used_frameworks", lambda: [fake])

    def find(**_: Any) -> list[vram.Cycle]:
        fake.done.append("cycles")
        return []

    monkeypatch.setattr("vram.clean._work.find_cycles", find)
    _set_host(monkeypatch, free=1 * GIB, available=2 * GIB)
    return fake


def _set_host(monkeypatch: pytest.MonkeyPatch, free: int, available: int) -> None:
    monkeypatch.setattr(_host, "host_memory", lambda: _host.HostMemory(free, available, 64 * GIB, 3 * GIB, GIB))


def _of(report: Cleaning, grade: Grade) -> Cleaned:
    return next(cleaned for cleaned in report.grades if cleaned.grade == grade)


def test_a_paying_cleaning_happens_and_says_what_it_freed(fake: FakeFramework) -> None:
    cache = _of(Cleaner(step="cache").step(), Grade.CACHE)
    assert (cache.skipped, cache.device_bytes, cache.host_bytes) == (None, 20 * GIB, 0)
    assert "cache" in fake.done
    assert str(cache) == "cache: freed 20 GiB on the device in 0.0 ms"


def test_a_cache_that_nobody_needs_is_left(fake: FakeFramework) -> None:
    fake.others = 0  # 50 GiB are free
    cleaner = Cleaner(step="cache")
    assert _of(cleaner.step(), Grade.CACHE).skipped == "50 GiB of 80 GiB of the device are free"
    assert "cache" not in fake.done
    assert _of(cleaner.step(force=True), Grade.CACHE).device_bytes == 20 * GIB


def test_the_share_that_must_be_free_can_be_set(fake: FakeFramework) -> None:
    fake.others = 0
    assert _of(Cleaner(step="cache", min_free_fraction=0.7).step(), Grade.CACHE).skipped is None


def test_what_would_bring_little_is_left(fake: FakeFramework) -> None:
    fake.cache, fake.others = 64 * MIB - 1, 69 * GIB
    assert _of(Cleaner(step="cache").step(), Grade.CACHE).skipped == "no more than 64 MiB would come back"
    fake.cache = 64 * MIB
    assert _of(Cleaner(step="cache").step(), Grade.CACHE).skipped is None
    assert fake.done.count("cache") == 1


def test_a_device_that_does_not_tell_what_is_free_is_left(fake: FakeFramework) -> None:
    fake.knows_free = False
    assert _of(Cleaner(step="cache").step(), Grade.CACHE).skipped == "fake does not report free memory"


def test_a_useless_cleaning_is_not_repeated_soon_and_ever_less_often(fake: FakeFramework) -> None:
    """The program takes its cache back in each step."""
    cleaner = Cleaner(step="cache")
    cleaned_at = []
    for step in range(200):
        fake.cache = 20 * GIB
        if _of(cleaner.step(), Grade.CACHE).skipped is None:
            cleaned_at.append(step)
    assert cleaned_at == [0, 10, 10 + 20, 10 + 20 + 40, 10 + 20 + 40 + 80]


def test_the_reason_for_waiting_is_told(fake: FakeFramework) -> None:
    cleaner = Cleaner(step="cache")
    cleaner.step()
    fake.cache = 10 * GIB  # half of it
    fake.others += 10 * GIB
    assert _of(cleaner.step(), Grade.CACHE).skipped == (
        "what the last one freed was reserved again 1 call later; it waits for 9 more occasions"
    )


def test_a_cleaning_that_lasts_is_repeated_when_needed(fake: FakeFramework) -> None:
    cleaner = Cleaner(step="cache")
    for _ in range(3):
        fake.cache, fake.others = 20 * GIB, 45 * GIB
        assert _of(cleaner.step(), Grade.CACHE).skipped is None
        for _ in range(WAIT):  # another process takes it; little is freed
            fake.cache, fake.others = 0, 65 * GIB
            assert _of(cleaner.step(), Grade.CACHE).skipped == "no more than 0 B would come back"
    assert fake.done.count("cache") == 3


def test_a_cleaning_that_lasts_makes_the_waits_short_again(fake: FakeFramework) -> None:
    cleaner = Cleaner(step="cache")

    def cleaned(cache: int) -> bool:
        fake.cache, fake.others = cache, 65 * GIB - cache
        return _of(cleaner.step(), Grade.CACHE).skipped is None

    assert cleaned(20 * GIB)
    assert [cleaned(20 * GIB) for _ in range(10)] == [False] * 9 + [True]  # useless once: 10
    assert not any(cleaned(0) for _ in range(WAIT))  # this one lasts
    assert cleaned(20 * GIB)
    assert [cleaned(20 * GIB) for _ in range(10)] == [False] * 9 + [True]  # not 20


def test_steps_watch_what_an_epoch_cleaned(fake: FakeFramework) -> None:
    cleaner = Cleaner(step=None, epoch="cache")
    cleaner.epoch()
    fake.cache = 20 * GIB
    cleaner.step()
    assert str(_of(cleaner.epoch(), Grade.CACHE).skipped).startswith(
        "what the last one freed was reserved again 1 call "
    )


def test_an_expensive_cleaning_waits_until_its_share_of_the_time(
    fake: FakeFramework, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(**_: Any) -> list[vram.Cycle]:
        fake.done.append("cycles")
        fake.allocated -= GIB
        clock.now += 0.25
        return []

    monkeypatch.setattr("vram.clean._work.find_cycles", slow)
    cleaner = Cleaner(step="cycles")
    assert _of(cleaner.step(), Grade.CYCLES).ms == 250
    fake.allocated += GIB
    clock.now += 24.9
    assert _of(cleaner.step(), Grade.CYCLES).skipped == (
        "the last one took 250 ms, and no more than 1% of the time goes here"
    )
    clock.now += 0.2
    assert _of(cleaner.step(), Grade.CYCLES).device_bytes == GIB


def test_cycles_are_searched_only_when_tensors_hold_more_than_before(fake: FakeFramework) -> None:
    cleaner = Cleaner(step="cycles")
    assert _of(cleaner.step(), Grade.CYCLES).skipped is None  # for the first time: nothing is known
    for _ in range(2 * WAIT):
        assert _of(cleaner.step(), Grade.CYCLES).skipped == "no more than 0 B would come back"
    fake.allocated += 64 * MIB
    assert _of(cleaner.step(), Grade.CYCLES).skipped is None
    assert fake.done == ["cycles", "cycles"]


def test_growth_counts_from_the_least_since_the_last_search(fake: FakeFramework) -> None:
    cleaner = Cleaner(step="cycles")
    cleaner.step()
    fake.allocated -= 5 * GIB
    for _ in range(WAIT):
        cleaner.step()
    fake.allocated += GIB  # less than at the search, more than since
    assert _of(cleaner.step(), Grade.CYCLES).skipped is None


def test_a_search_that_found_nothing_is_not_repeated_for_each_growth(fake: FakeFramework) -> None:
    cleaner = Cleaner(step="cycles")
    for _ in range(100):
        fake.allocated += GIB // 10  # of its own: a growing cache of the program
        cleaner.step()
    assert fake.done.count("cycles") == 4  # at the calls 1, 11, 31, 71


def test_cycles_that_come_again_are_broken_each_time(fake: FakeFramework, monkeypatch: pytest.MonkeyPatch) -> None:
    def find(**_: Any) -> list[vram.Cycle]:
        fake.done.append("cycles")
        fake.allocated = 10 * GIB
        return []

    monkeypatch.setattr("vram.clean._work.find_cycles", find)
    cleaner = Cleaner(step="cycles")
    fake.allocated += GIB
    cleaner.step()
    for _ in range(20):
        fake.allocated += GIB
        assert _of(cleaner.step(), Grade.CYCLES).device_bytes == GIB


def test_workspaces_go_first_to_the_cache_and_from_there_to_the_device(fake: FakeFramework) -> None:
    fake.workspaces = 1 * GIB
    report = Cleaner(epoch="workspaces").epoch()
    assert [cleaned.grade for cleaned in report.grades] == [Grade.CYCLES, Grade.WORKSPACES, Grade.CACHE]
    assert (_of(report, Grade.WORKSPACES).device_bytes, _of(report, Grade.CACHE).device_bytes) == (GIB, 21 * GIB)
    assert report.device_bytes == 21 * GIB  # each byte once
    assert fake.done == ["cycles", "workspaces", "cache"]


def test_the_grade_is_the_highest(fake: FakeFramework) -> None:
    cleaner = Cleaner(step=None, epoch=Grade.CYCLES, end="cache")
    assert cleaner.step(force=True).grades == ()
    assert [cleaned.grade for cleaned in cleaner.epoch(force=True).grades] == [Grade.CYCLES]
    assert [cleaned.grade for cleaned in cleaner.end(force=True).grades] == [Grade.CYCLES, Grade.CACHE]
    assert fake.done == ["cycles", "cycles", "cache"]


def test_at_the_end_nobody_has_to_need_it(fake: FakeFramework) -> None:
    fake.others = 0
    with Cleaner(step=None, end="cache") as cleaner:
        assert fake.done == []
    assert cleaner.last is not None
    assert (cleaner.last.occasion, cleaner.last.device_bytes) == ("end", 20 * GIB)


def test_an_error_is_left_to_pass(fake: FakeFramework) -> None:
    with pytest.raises(KeyError), Cleaner(end="cache"):
        raise KeyError
    assert fake.done == []


def test_nothing_is_freed_while_a_graph_is_captured_not_even_by_force(fake: FakeFramework) -> None:
    fake.why_not = "a CUDA graph is being captured"
    report = Cleaner(end="host").end(force=True)
    assert {cleaned.skipped for cleaned in report.grades} == {"a CUDA graph is being captured"}
    assert fake.done == []


def test_pinned_memory_goes_back_where_the_host_is_short(fake: FakeFramework, monkeypatch: pytest.MonkeyPatch) -> None:
    cleaner = Cleaner(epoch="host")
    fake.pinned = 3 * GIB
    host = _of(cleaner.epoch(), Grade.HOST)
    assert (host.host_bytes, host.device_bytes) == (3 * GIB, 0)
    fake.pinned = 3 * GIB
    _set_host(monkeypatch, free=GIB, available=32 * GIB)
    assert _of(Cleaner(epoch="host").epoch(), Grade.HOST).skipped == "32 GiB of 64 GiB of the host are free"


def test_the_page_cache_is_touched_only_when_asked(fake: FakeFramework) -> None:
    assert fake.done == []
    page_cache = _of(Cleaner(end="page_cache").end(force=True), Grade.PAGE_CACHE)
    assert page_cache.skipped == "not configured: pass files= or drop_caches=True"


def test_pages_of_named_files_are_dropped(fake: FakeFramework, tmp_path: Path) -> None:
    del fake
    file = tmp_path / "weights"
    file.write_bytes(os.urandom(4 * MIB))
    os.sync()  # what is not on disk yet would stay
    before = _host.cached_bytes([file])
    report = _of(Cleaner(end="page_cache", files=[file], min_bytes="1MiB").end(), Grade.PAGE_CACHE)
    if before < MIB:
        pytest.skip("this file system does not say what it keeps")
    assert (before, report.host_bytes) == (4 * MIB, 4 * MIB - _host.cached_bytes([file]))
    assert file.stat().st_size == 4 * MIB


def test_a_file_that_is_not_there_is_told(fake: FakeFramework, tmp_path: Path) -> None:
    del fake
    report = _of(Cleaner(end="page_cache", files=[tmp_path / "gone"]).end(), Grade.PAGE_CACHE)
    assert "name files that are there" in str(report.skipped)


def test_the_kernels_own_caches_count_as_what_may_come_back(
    fake: FakeFramework, monkeypatch: pytest.MonkeyPatch
) -> None:
    del fake
    dropped: list[int] = []
    monkeypatch.setattr(_host, "drop_caches", lambda: dropped.append(1))
    report = _of(Cleaner(end="page_cache", drop_caches=True, min_bytes=4 * GIB).end(), Grade.PAGE_CACHE)
    assert (report.skipped, dropped) == (None, [1])  # 3 GiB of pages and 1 GiB of entries and inodes


def test_what_the_system_refuses_is_told(fake: FakeFramework, monkeypatch: pytest.MonkeyPatch) -> None:
    del fake

    def refuse() -> None:
        raise PermissionError(13, "Permission denied", "/proc/sys/vm/drop_caches")

    monkeypatch.setattr(_host, "drop_caches", refuse)
    report = _of(Cleaner(end="page_cache", drop_caches=True).end(), Grade.PAGE_CACHE)
    assert str(report.skipped).startswith("the system refused ([Errno 13] Permission denied")


def test_without_a_gpu_nothing_is_done_and_the_report_says_so() -> None:
    report = Cleaner(epoch="host").epoch(force=True)
    assert [cleaned.skipped for cleaned in report.grades] == ["no GPU is in use"] * 4
    assert str(report).splitlines()[0] == "cleaning at epoch:"


def test_wrong_settings_are_errors() -> None:
    grades = "'cycles', 'cache', 'workspaces', 'host', 'page_cache', None"
    with pytest.raises(ValueError, match=f"expected step to be one of {grades}, got 'all'"):
        Cleaner(step="all")
    with pytest.raises(ValueError, match=r"expected epoch to be one of .*, got 3"):
        Cleaner(epoch=3)  # type: ignore[arg-type]
    with pytest.raises(
        ValueError, match="expected min_free_fraction to be a fraction, more than 0 and at most 1, got 10"
    ):
        Cleaner(min_free_fraction=10)
    with pytest.raises(ValueError, match="no size"):
        Cleaner(min_bytes="much")
