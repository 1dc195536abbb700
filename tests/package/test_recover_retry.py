"""vram.retry_on_oom: the sizes of its calls, and its errors."""

from __future__ import annotations

import sys
import weakref
from numbers import Integral
from typing import Any

import pytest
import torch

import vram
from vram._frameworks import Figures
from vram._frameworks._torch_training import TorchTraining
from vram.recover import _micro, _oom, _retry

pytestmark = pytest.mark.usefixtures("quick_collections")


def too_many(size: int, largest: int) -> None:
    if size > largest:
        raise torch.OutOfMemoryError(f"CUDA out of memory. {size} are too many")


def test_a_size_is_halved_to_multiples_of_8_and_below_8_to_anything() -> None:
    seen = []

    @vram.retry_on_oom
    def train(name: str, batch_size: int = 100) -> str:
        seen.append(batch_size)
        too_many(batch_size, 2)
        return name

    assert train("run") == "run"
    assert seen == [100, 48, 24, 8, 4, 2]
    seen.clear()
    assert train("again", 2) == "again"
    assert train("again", 50) == "again"
    assert seen == [2, 50, 24, 8, 4, 2]  # what the caller asks for is where each call starts


def test_shrink_minimum_and_argument() -> None:
    seen = []

    @vram.retry_on_oom(argument="tokens", shrink=lambda size: size - 100, min_size=700)
    def train(batch_size: int, tokens: int) -> None:
        seen.append((batch_size, tokens))
        too_many(tokens, 0)

    with pytest.raises(torch.OutOfMemoryError, match=r"train ran out .*minimum 700.* 1000: 0 bytes.* 700: 0 bytes"):
        train(4, tokens=1000)
    assert seen == [(4, 1000), (4, 900), (4, 800), (4, 700)]


def test_tries_are_bounded_and_an_argument_must_exist() -> None:
    seen = []

    def train(batch_size: int) -> None:
        seen.append(batch_size)
        too_many(batch_size, 0)

    with pytest.raises(torch.OutOfMemoryError, match="no more tries"):
        vram.retry_on_oom(max_attempts=3)(train)(1024)
    assert seen == [1024, 512, 256]
    with pytest.raises(ValueError, match="no argument 'size'"):
        vram.retry_on_oom(argument="size")(train)
    for name in ("multiple_of", "min_size", "max_attempts"):
        with pytest.raises(ValueError, match=f"expected {name} to be at least 1, got 0"):
            vram.retry_on_oom(**{name: 0})(train)  # type: ignore[call-overload]


def test_a_batch_is_cut_and_the_results_are_joined() -> None:
    seen = []

    @vram.retry_on_oom
    def infer(batch: dict[str, Any]) -> dict[str, Any]:
        seen.append(len(batch["x"]))
        too_many(len(batch["x"]), 4)
        return {"y": batch["x"] + 1, "names": [str(int(x)) for x in batch["x"]], "one": 1}

    expected = {"y": list(range(1, 11)), "names": [str(x) for x in range(10)], "one": 1}
    # The first time, one part is run again in two. The size is remembered: a batch is cut with the same result.
    for sizes in ([10, 5, 2, 2, 2, 2, 2, 1, 1], [2, 2, 2, 2, 2]):
        found = infer({"x": torch.arange(10)})
        assert {**found, "y": found["y"].tolist()} == expected
        assert seen == sizes
        seen.clear()


def test_results_that_are_no_tensors_are_joined_by_hand() -> None:
    @vram.retry_on_oom(join=sum)
    def count(batch: torch.Tensor) -> int:
        too_many(len(batch), 3)
        return len(batch)

    assert count(torch.zeros(10)) == 10


def test_nothing_of_a_failure_is_alive_at_the_next_call() -> None:
    failed: list[weakref.ref[torch.Tensor]] = []

    @vram.retry_on_oom
    def train(batch_size: int) -> int:
        assert [ref for ref in failed if ref() is not None] == []
        held = torch.zeros(batch_size)
        failed.append(weakref.ref(held))
        too_many(batch_size, 8)
        return batch_size

    assert train(64) == 8
    assert len(failed) == 4


def test_whoever_keeps_the_error_keeps_no_tensors() -> None:
    errors: list[BaseException] = []  # a logger's, a debugger's
    failed: list[weakref.ref[torch.Tensor]] = []

    def forward(batch_size: int) -> None:
        held = torch.zeros(batch_size)
        failed.append(weakref.ref(held))
        too_many(batch_size, 8)

    @vram.retry_on_oom
    def train(batch_size: int) -> int:
        assert [ref for ref in failed if ref() is not None] == []
        try:
            forward(batch_size)
        except torch.OutOfMemoryError as error:
            errors.append(error)
            raise torch.OutOfMemoryError("CUDA out of memory, said again") from error
        return batch_size

    assert train(64) == 8
    assert len(errors) == len(failed) - 1 == 3


def test_what_the_interpreter_remembers_of_an_older_failure_is_emptied(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        held = torch.zeros(10)
        alive.append(weakref.ref(held))
        too_many(1, 0)

    alive: list[weakref.ref[torch.Tensor]] = []
    try:
        fail()
    except torch.OutOfMemoryError as error:
        monkeypatch.setattr(sys, "last_value", error, raising=False)
    assert alive[0]() is not None
    _oom.free(TorchTraining(torch))
    assert alive[0]() is None


def test_random_numbers_begin_where_they_began() -> None:
    drawn = []

    @vram.retry_on_oom
    def train(batch_size: int) -> None:
        drawn.append(float(torch.rand(())))
        too_many(batch_size, 8)

    train(32)
    assert len(drawn) == 3
    assert len(set(drawn)) == 1


@pytest.mark.parametrize("from_scratch", [False, True])
def test_after_an_optimizers_step_only_what_starts_from_scratch_runs_again(from_scratch: bool) -> None:
    seen = []

    @vram.retry_on_oom(from_scratch=from_scratch)
    def train(batch_size: int) -> int:
        seen.append(batch_size)
        torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1).step()
        too_many(batch_size, 8)
        return batch_size

    if from_scratch:
        assert train(16) == 8
    else:
        with pytest.raises(torch.OutOfMemoryError, match="never run again"):
            train(16)
        assert seen == [16]


@pytest.mark.parametrize(
    "text", ["CUDA error: an illegal memory access was encountered", "CUDA error: device-side assert"]
)
def test_a_broken_device_is_not_out_of_memory(text: str) -> None:
    calls = []

    @vram.retry_on_oom
    def train(batch_size: int) -> None:
        calls.append(batch_size)
        raise RuntimeError(text)

    with pytest.raises(RuntimeError, match=text):
        train(64)
    assert calls == [64]


class FullCache(TorchTraining):
    """A device of which 100 bytes can be given back once."""

    def __init__(self) -> None:
        super().__init__(torch)
        self.reserved = 300
        self.broken = False

    def devices(self) -> list[int]:
        return [0]

    def figures(self, device: int) -> Figures:
        assert device == 0
        return Figures(allocated_bytes=200, reserved_bytes=self.reserved)

    def rng_state(self) -> Any:
        return torch.get_rng_state(), {}

    def synchronize(self, device: int) -> None:
        if self.broken:
            raise RuntimeError(f"CUDA error: an illegal memory access was encountered on {device}")

    def release_cache(self) -> None:
        self.reserved = 200


def test_the_same_size_is_tried_once_more_if_something_was_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    device = FullCache()
    monkeypatch.setattr(_retry, "training_framework", lambda: device)
    seen = []

    @vram.retry_on_oom
    def train(batch_size: int) -> None:
        seen.append(batch_size)
        too_many(batch_size, 0)

    with pytest.raises(torch.OutOfMemoryError, match=r"16: 200 bytes in tensors, 300 held: CUDA out of memory"):
        train(16)
    assert seen == [16, 16, 8, 4, 2, 1]


def test_a_device_that_broke_meanwhile_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    device = FullCache()
    device.broken = True
    monkeypatch.setattr(_retry, "training_framework", lambda: device)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        vram.retry_on_oom(lambda batch_size: too_many(batch_size, 0))(16)


class Thrashing(FullCache):
    """The allocator gives its cache back twice during each batch."""

    retries = 0

    def alloc_retries(self, device: int) -> int:
        assert device == 0
        self.retries += 1
        return self.retries * 2


def test_an_allocator_that_gives_its_cache_back_again_and_again_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    device, model = Thrashing(), torch.nn.Linear(2, 1)
    monkeypatch.setattr(_micro, "training_framework", lambda: device)
    batch = torch.ones(4, 2)
    assert vram.micro_batches(batch, lambda part: model(part).mean(), model=model).alloc_retries == 2
    with pytest.warns(UserWarning, match="cache back during this batch \\(retries: 2\\) .* fit, but only just"):
        vram.micro_batches(batch, lambda part: model(part).mean(), model=model)


@pytest.mark.parametrize("earlier", [False, True])
def test_gradients_of_a_failed_call_are_dropped_or_it_is_not_called_again(earlier: bool) -> None:
    weight = torch.nn.Parameter(torch.ones(1))
    if earlier:
        weight.grad = torch.ones(1)

    @vram.retry_on_oom
    def train(batch_size: int) -> int:
        (weight * batch_size).sum().backward()  # type: ignore[no-untyped-call]
        too_many(batch_size, 8)
        return batch_size

    if earlier:
        with pytest.raises(torch.OutOfMemoryError, match="zero_grad"):
            train(16)
    else:
        assert train(16) == 8
        assert weight.grad is not None
        assert weight.grad.tolist() == [8]


def test_what_fails_later_than_it_is_called_is_refused() -> None:
    async def later(batch_size: int) -> int:
        return batch_size

    def items(batch_size: int) -> Any:
        yield batch_size

    class Made:
        def __init__(self, batch_size: int) -> None: ...

    for function in (later, items, Made):
        with pytest.raises(TypeError, match="async, a generator or a class"):
            vram.retry_on_oom(function)

    for made in (lambda batch_size: items(batch_size), lambda batch_size: (size for size in [batch_size])):
        with pytest.raises(TypeError, match="async, a generator or a class"):
            vram.retry_on_oom(made)(8)


def test_sizes_of_other_integer_types_are_sizes() -> None:
    Integral.register(Wrapped)

    def train(batch_size: Any) -> int:
        too_many(int(batch_size), 8)
        return int(batch_size)

    assert vram.retry_on_oom(train)(Wrapped(16)) == 8


class Wrapped:
    """An integer as NumPy's are: no int."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __int__(self) -> int:
        return self.value

    def __eq__(self, other: object) -> bool:
        return self.value == other

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    "text",
    [
        "Triton Error [CUDA]: out of memory",
        "CUDA driver error: out of memory",
        "CUDA error: out of memory",
        "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
        "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling `cusolverDnCreate(handle)`",
        "CUDA error: CUSPARSE_STATUS_ALLOC_FAILED",
        "cuFFT error: CUFFT_ALLOC_FAILED",
    ],
)
def test_out_of_memory_in_other_words_is_known(text: str) -> None:
    def train(batch_size: int) -> int:
        if batch_size > 8:
            raise RuntimeError(text)
        return batch_size

    assert vram.retry_on_oom(train)(16) == 8


def test_an_error_that_the_caller_handles_keeps_its_frames() -> None:
    kept: list[Any] = []

    def fail() -> None:
        local = "mine"
        kept.append(local)
        raise torch.OutOfMemoryError("CUDA out of memory, before")

    handled: BaseException | None = None
    try:
        fail()
    except torch.OutOfMemoryError as error:
        handled = error
        vram.retry_on_oom(lambda batch_size: too_many(batch_size, 8))(16)
    assert handled is not None
    assert handled.__traceback__ is not None
    assert handled.__traceback__.tb_next is not None
    assert handled.__traceback__.tb_next.tb_frame.f_locals["local"] == "mine"
