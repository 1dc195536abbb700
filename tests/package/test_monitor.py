"""vram.monitor with a framework whose counters the tests set, and with real PyTorch without a GPU."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import pytest

import vram
import vram.tensorflow
from vram._frameworks import Figures
from vram.monitoring import _peaks, _region
from vram.monitoring._measurement import DeviceUse, Measurement

MIB = 1 << 20


class Counters:
    """A framework whose device has PyTorch's counters: one peak for all, since the last reset."""

    name = "counted"

    def __init__(self) -> None:
        self.allocated = self.peak = 0
        self.reserved = 100
        self.waits = self.retries = self.ooms = 0

    def allocate(self, size: int) -> None:
        self.allocated += size
        self.peak = max(self.peak, self.allocated)

    def spike(self, size: int) -> None:
        self.allocate(size)
        self.allocate(-size)

    def devices(self) -> list[int]:
        return [0, 1]

    def current_device(self) -> int | None:
        return 0

    def figures(self, device: int) -> Figures:
        if device != 0:
            return Figures(0, 0, 0, 0)
        return Figures(self.allocated, self.reserved, self.peak, self.reserved, self.retries, self.ooms, 0, 0)

    def pci_id(self, device: int) -> str | None:  # noqa: ARG002
        return None

    def reset_peaks(self, device: int) -> None:
        if device == 0:
            self.peak = self.allocated

    def synchronize(self, device: int) -> None:  # noqa: ARG002
        self.waits += 1

    def release_cache(self) -> None: ...

    def is_out_of_memory(self, error: BaseException) -> bool:  # noqa: ARG002
        return False


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Counters:
    counters = Counters()
    monkeypatch.setattr(_region, "used_framework", lambda: counters)
    monkeypatch.setattr(_peaks, "used_framework", lambda: counters)
    monkeypatch.setattr(_peaks, "_counters", _peaks._Counters())
    return counters


@pytest.fixture
def seen() -> Iterator[list[Measurement]]:
    found: list[Measurement] = []
    sink = vram.add_sink(found.append)
    yield found
    vram.remove_sink(sink)


def test_a_region_has_change_peak_and_fragmentation(gpu: Counters) -> None:
    gpu.allocate(10)
    gpu.spike(500)  # before the region: not its peak
    with vram.monitor("x") as region:
        gpu.allocate(15)
        gpu.spike(50)
    assert region.result is not None
    assert region.result.devices == (
        DeviceUse(
            device=0,
            allocated_bytes=25,
            reserved_bytes=100,
            allocated_delta_bytes=15,
            reserved_delta_bytes=0,
            peak_allocated_bytes=75,
            peak_reserved_bytes=100,
            num_alloc_retries=0,
            num_ooms=0,
            num_device_alloc=0,
            num_device_free=0,
        ),
    )
    assert region.result.devices[0].fragmentation == 0.75
    assert region.result.peak_bytes == 75


def test_nested_regions_keep_each_others_peaks_and_the_users(gpu: Counters) -> None:
    gpu.spike(700)
    with vram.monitor("outer") as outer:
        gpu.spike(90)
        with vram.monitor("inner") as inner:
            gpu.spike(40)
        with vram.monitor("second") as second:
            gpu.spike(60)
    assert [r.result and r.result.peak_bytes for r in (outer, inner, second)] == [90, 40, 60]
    assert vram.peaks() == vram.Peaks(700, 100)
    gpu.reset_peaks(0)  # the program's own
    gpu.spike(30)
    with vram.monitor("later"):
        gpu.spike(20)
    assert vram.peaks(0).allocated_bytes == 30
    assert vram.peaks(7) == vram.Peaks(None, None)


def test_regions_that_overlap_keep_their_peaks(gpu: Counters) -> None:
    """Neither lies within the other, as regions of two threads may lie."""
    first, second = vram.monitor("first"), vram.monitor("second")
    one = first.__enter__()
    gpu.spike(80)
    two = second.__enter__()
    gpu.spike(50)
    first.__exit__(None, None, None)
    gpu.spike(70)
    second.__exit__(None, None, None)
    assert one.result is not None
    assert two.result is not None
    assert (one.result.peak_bytes, two.result.peak_bytes) == (80, 70)


def test_without_resets_a_peak_is_known_only_if_it_rose(gpu: Counters) -> None:
    gpu.spike(100)
    quiet = vram.monitor("quiet", reset_peaks=False)
    with quiet as low:
        gpu.spike(60)
    with quiet as high:
        gpu.spike(130)
    assert low.result is not None
    assert high.result is not None
    assert (low.result.peak_bytes, high.result.peak_bytes) == (None, 130)
    assert gpu.peak == 130


def test_regions_of_many_threads_end_with_nothing_left(gpu: Counters, seen: list[Measurement]) -> None:
    both = vram.monitor("both")  # one object in all threads

    def work() -> None:
        for _ in range(200):
            with both:
                gpu.peak = max(gpu.peak, 33)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads)
    assert len(seen) == 800
    assert {one.call for one in seen} == set(range(1, 801))
    assert all(not counter.waiting for counter in _peaks._counters.by_device.values())


def test_waiting_for_the_gpu_is_a_choice(gpu: Counters, seen: list[Measurement]) -> None:
    with vram.monitor("x"):
        pass
    assert gpu.waits == 0
    with vram.monitor("x", synchronize=True):
        pass
    assert gpu.waits == 4  # two devices, two ends
    assert [one.is_synchronized for one in seen] == [False, True]


def test_functions_are_measured_and_errors_pass(gpu: Counters, seen: list[Measurement]) -> None:
    @vram.monitor
    def step(size: int) -> int:
        """Doc."""
        gpu.spike(size)
        if size > 10:
            raise ValueError(size)
        return size

    assert step(5) == 5
    with pytest.raises(ValueError, match="11"):
        step(11)
    assert step.__doc__ == "Doc."
    assert [(one.name.split(".")[-1], one.call, one.error, one.peak_bytes) for one in seen] == [
        ("step", 1, None, 5),
        ("step", 2, "ValueError", 11),
    ]
    assert "ended by ValueError" in str(seen[1])


def test_every_nth_is_measured(seen: list[Measurement]) -> None:
    @vram.monitor("tenth", every=10)
    def step() -> None: ...

    for _ in range(25):
        step()
    assert [one.call for one in seen] == [1, 11, 21]
    sampled = vram.monitor("second", every=2)
    regions = []
    for _ in range(3):
        with sampled as region:
            regions.append(region)
    assert [region.result is not None for region in regions] == [True, False, True]


def test_generators_are_regions_from_first_to_last(seen: list[Measurement]) -> None:
    @vram.monitor("numbers")
    def numbers() -> Iterator[int]:
        got = yield 1
        yield got or 2

    made = numbers()
    assert next(made) == 1
    assert seen == []
    assert made.send(7) == 7  # type: ignore[attr-defined]
    assert list(made) == []
    assert [(one.name, one.error) for one in seen] == [("numbers", None)]
    left = numbers()
    next(left)
    left.close()  # type: ignore[attr-defined]
    assert [(one.call, one.error) for one in seen] == [(1, None), (2, None)]


def test_coroutines_and_their_generators(seen: list[Measurement]) -> None:
    one = vram.monitor("wait")

    @one
    async def wait(seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    @vram.monitor("stream")
    async def stream() -> AsyncIterator[object]:
        try:
            got = yield 1
            yield got
        except KeyError:
            yield "caught"

    async def main() -> None:
        assert list(await asyncio.gather(wait(0.03), wait(0.01))) == [0.03, 0.01]
        made = stream()
        assert [await made.asend(None), await made.asend("sent")] == [1, "sent"]  # type: ignore[attr-defined]
        assert await made.athrow(KeyError()) == "caught"  # type: ignore[attr-defined]
        await made.aclose()  # type: ignore[attr-defined]

        async def inside(seconds: float) -> None:
            with shared as region:
                await asyncio.sleep(seconds)
            assert region.result is not None
            assert region.result.duration_ns >= seconds * 0.9e9

        shared = vram.monitor("shared")
        await asyncio.gather(inside(0.03), inside(0.01))

    asyncio.run(main())
    assert [(m.name, m.call, m.error) for m in seen] == [
        ("wait", 2, None),
        ("wait", 1, None),
        ("stream", 1, None),
        ("shared", 2, None),
        ("shared", 1, None),
    ]
    assert seen[1].duration_ns > seen[0].duration_ns


def test_without_a_gpu_nothing_is_known_and_said_so(seen: list[Measurement]) -> None:
    import torch  # noqa: F401  real, built without CUDA

    with vram.monitor("x"):
        pass
    assert (seen[0].devices, seen[0].peak_bytes, seen[0].unknown_reason) == ((), None, "torch uses no GPU")
    assert str(seen[0]).endswith("; GPU memory unknown: torch uses no GPU")
    assert vram.peaks() == vram.Peaks(None, None)


def test_the_line_has_units(gpu: Counters, caplog: pytest.LogCaptureFixture) -> None:
    gpu.reserved = 8 * MIB
    gpu.allocate(1 * MIB)
    with caplog.at_level(logging.INFO, "vram"), vram.monitor("x"):
        gpu.allocate(3 * MIB)
        gpu.spike(2 * MIB)
    line = caplog.messages[-1]
    assert line.startswith("x: ")
    assert line.endswith("; GPU 0: +3 MiB, now 4 MiB of 8 MiB reserved (50% unused), peak 6 MiB")
    assert str(DeviceUse(3)) == "GPU 3: memory unknown"
    assert str(Measurement("x", 1, 0, 999_600, unknown_reason="y")) == "x: 1000 us; GPU memory unknown: y"


def test_retries_and_ooms_of_the_region_are_counted(gpu: Counters, seen: list[Measurement]) -> None:
    gpu.retries, gpu.ooms = 5, 1
    with vram.monitor("x"):
        gpu.retries += 2
        gpu.ooms += 1
    with vram.monitor("y"):
        gpu.retries = 0  # as torch.cuda.reset_accumulated_memory_stats() does
    first, second = (measurement.devices[0] for measurement in seen)
    assert (first.num_alloc_retries, first.num_ooms, first.num_device_alloc) == (2, 1, 0)
    assert str(first).endswith(", retries 2, OOMs 1")
    assert (second.num_alloc_retries, second.num_ooms) == (None, 0)
    assert "retr" not in str(second)


def test_who_is_not_listened_to_is_not_measured(gpu: Counters, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(device: int) -> Figures:
        raise AssertionError(device)

    monkeypatch.setattr(gpu, "figures", refuse)

    @vram.monitor
    def step() -> int:
        return 1

    assert step() == 1  # the logger's level is not INFO, and there is no other sink


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="expected every to be at least 1, got 0"):
        vram.monitor("x", every=0)
    with pytest.raises(TypeError, match="not 3"):
        vram.monitor(3)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="next to the function itself"):
        vram.monitor("x")(classmethod(print))  # type: ignore[type-var]


def test_a_gpu_that_fails_hides_no_error_of_the_program(gpu: Counters, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(device: int) -> Figures:
        raise RuntimeError(f"device {device} is lost")

    measured = vram.monitor("x")
    region = measured.__enter__()
    monkeypatch.setattr(gpu, "figures", fail)
    assert measured.__exit__(KeyError, KeyError(), None) is None  # type: ignore[func-returns-value]
    assert region.result is not None
    assert region.result.error == "KeyError"
    assert region.result.unknown_reason == "GPU 0 failed: RuntimeError: device 0 is lost"
    assert not any(counter.waiting for counter in _peaks._counters.by_device.values())


def test_a_callback_of_what_is_not_installed_is_an_error() -> None:
    with pytest.raises(vram.VramError, match=r"expected no_such_one or no_such_other for its callback, .*; install it"):
        vram.callbacks._module("no_such_one", "no_such_other")


def test_a_region_that_another_thread_ends_hides_no_error_of_the_program(seen: list[Measurement]) -> None:
    monitor, errors = vram.monitor("handed over"), []
    monitor.__enter__()

    def end() -> None:
        try:
            monitor.__exit__(None, None, None)
            monitor.__exit__(None, None, None)  # once more than it began
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=end)
    thread.start()
    thread.join(timeout=60)
    assert errors == []
    assert [measurement.name for measurement in seen] == ["handed over"]
    with monitor as region:  # what this thread's stack still says of the first is no open region
        pass
    assert region.result is not None
    assert len(seen) == 2


def test_a_class_is_not_decorated() -> None:
    with pytest.raises(TypeError, match="decorate methods of"):

        @vram.monitor
        class Trainer: ...


def test_regions_do_not_lower_the_peaks_that_keras_is_told(gpu: Counters) -> None:
    received: list[vram.tensorflow.KerasFigures] = []
    figures = vram.tensorflow._Figures(cast(Any, gpu), received.append, every=0)
    gpu.spike(500)
    figures.begin_epoch(0)
    gpu.spike(90)
    with vram.monitor("x"):  # resets the counter
        gpu.spike(10)
    figures.end_epoch()
    assert received[0].devices[0].peak_allocated_bytes == 90
    assert vram.peaks() == vram.Peaks(500, 100)
