"""A simulated GPU and training step: the figures that PyTorch's caching allocator would report."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import vram
from vram._frameworks import Figures
from vram.recover import _find

MIB, GIB = 1 << 20, 1 << 30


class OutOfMemory(RuntimeError):
    pass


def segments(block_bytes: float) -> int:
    """What PyTorch's allocator takes for one more block of this size: small ones share segments."""
    if block_bytes >= 10 * MIB:
        return math.ceil(block_bytes / (2 * MIB)) * 2 * MIB
    share = 2 * MIB if block_bytes < MIB else 20 * MIB
    return math.ceil(share / max(1, share // max(512, block_bytes)))


@dataclass
class Model:
    """In bytes."""

    parameters: int
    state: int  # of the optimizer
    blocks: Sequence[float]  # saved for backward, of one sample
    transient: float = 0.0  # of one sample, besides those at the peak
    backward: float = 0.0  # of one sample, what the beginning of backward adds
    constant: int = 0  # workspaces
    step_temporary: int = 0  # of the optimizer
    kept_by_grads_end: float = 0.2  # part of the activations that is there when the last gradient is
    fragmentation: float = 0.0  # part of the activations that the allocator holds beyond them
    state_made: bool = False
    grads_stay: bool = False  # until the next step begins
    bends_at: int | None = None  # from there each sample needs
    bends_by: float = 1.0  # times as much

    def activations(self, batch_size: int) -> tuple[int, int]:
        """In tensors, and in segments."""
        effective = float(batch_size)
        if self.bends_at is not None and batch_size > self.bends_at:
            effective += (batch_size - self.bends_at) * (self.bends_by - 1)
        sizes = [block * effective for block in (*self.blocks, self.transient)]
        tensors = sum(math.ceil(size / 512) * 512 for size in sizes)
        return tensors, int(sum(segments(size) for size in sizes) + tensors * self.fragmentation)


@dataclass
class SimulatedTraining:
    """See Training. One device; `step` is the trial."""

    model: Model
    capacity: int
    elsewhere: int = 0  # held by other processes
    name: str = "simulated"
    steps: list[int] = field(default_factory=list)
    ooms: int = 0

    def __post_init__(self) -> None:
        self._hooks: list[tuple[Callable[[], None], Callable[[], None]]] = []
        self._backward_hooks: list[Callable[[], None]] = []
        self._made = self.model.state_made
        self._grads = 0
        self._allocated = self.model.parameters + self._made * self.model.state
        self._reserved = self._round(self._allocated)
        self._peak = (self._allocated, self._reserved)

    @staticmethod
    def _round(size: float) -> int:
        return math.ceil(size / (20 * MIB)) * 20 * MIB

    def _touch(self, allocated: int, reserved: int) -> None:
        if reserved > self.capacity - self.elsewhere:
            self.ooms += 1
            raise OutOfMemory(f"CUDA out of memory: {reserved} bytes")
        self._reserved = max(self._reserved, reserved)
        self._peak = (max(self._peak[0], allocated), max(self._peak[1], self._reserved))

    def find_batch_size(self, trial: Any = None, **options: Any) -> vram.BatchSize:
        """vram.find_batch_size() with this training in PyTorch's place."""
        with mock.patch.object(_find, "training_framework", return_value=self):
            return vram.find_batch_size(trial or self.step, **options)

    def step(self, batch_size: int) -> None:
        model, self._grads = self.model, 0
        self.steps.append(batch_size)
        fixed = model.parameters + self._made * model.state
        tensors, held = model.activations(batch_size)
        try:
            self._touch(fixed + model.constant + tensors, self._round(fixed) + model.constant + held)
            self._allocated = fixed + tensors - int(batch_size * model.transient)
            for begins in self._backward_hooks:
                begins()
            backward = tensors + int(batch_size * model.backward)
            self._touch(
                fixed + model.constant + backward, self._round(fixed) + model.constant + held + backward - tensors
            )
            kept = int(tensors * model.kept_by_grads_end)
            ends = fixed + model.parameters + kept  # gradients take from the cache what activations have left
            self._touch(ends, max(self._reserved, self._round(fixed + model.parameters) + kept))
            self._allocated = fixed + model.parameters
            for optimizer_begins, _ in self._hooks:
                optimizer_begins()
            new = 0 if self._made else model.state
            self._made = True
            total = self._allocated + new + model.step_temporary
            self._touch(total, max(self._reserved, self._round(total)))
            self._allocated += new
            for _, ends_step in self._hooks:
                ends_step()
        finally:
            self._grads = model.parameters if model.grads_stay else 0
            self._allocated = model.parameters + self._made * model.state + self._grads

    def devices(self) -> list[int]:
        return [0]

    def current_device(self) -> int | None:
        return 0

    def figures(self, device: int) -> Figures:
        assert device == 0
        return Figures(self._allocated, self._reserved, *self._peak)

    def pci_id(self, device: int) -> str | None:  # noqa: ARG002
        return None

    def reset_peaks(self, device: int) -> None:
        assert device == 0
        self._peak = (self._allocated, self._reserved)

    def synchronize(self, device: int) -> None:
        assert device == 0

    def release_cache(self) -> None:
        self._reserved = self._round(self._allocated)

    def is_out_of_memory(self, error: BaseException) -> bool:
        return isinstance(error, OutOfMemory)

    def rng_state(self) -> Any:
        return None

    def restore_rng(self, state: Any) -> None:
        assert state is None

    def optimizer_steps(self, begins: Callable[[], None], ends: Callable[[], None]) -> AbstractContextManager[None]:
        @contextmanager
        def hooked() -> Iterator[None]:
            self._hooks.append((begins, ends))
            yield
            self._hooks.remove((begins, ends))

        return hooked()

    def backward_passes(self, begins: Callable[[], None]) -> AbstractContextManager[None]:
        @contextmanager
        def hooked() -> Iterator[None]:
            self._backward_hooks.append(begins)
            yield
            self._backward_hooks.remove(begins)

        return hooked()

    def silent(self, reason: str) -> AbstractContextManager[Any]:
        del reason
        return nullcontext()

    def out_of_memory(self, text: str) -> BaseException:
        return OutOfMemory(text)

    def concatenate(self, parts: Sequence[Any]) -> Any:
        raise NotImplementedError

    def free_bytes(self, device: int) -> int:
        assert device == 0
        return self.capacity - self.elsewhere - self._reserved

    def alloc_retries(self, device: int) -> int:
        assert device == 0
        return 0

    def fits(self, batch_size: int, budget: int) -> bool:
        """Once everything is made: a fresh simulation, so that asking changes nothing."""
        model = Model(**{**vars(self.model), "state_made": True})
        fresh = SimulatedTraining(model, min(budget, self.capacity - self.elsewhere))
        try:
            fresh.step(batch_size)
        except OutOfMemory:
            return False
        return True

    def largest(self, budget: int) -> int:
        low, high = 0, 1
        while self.fits(high, budget):
            low, high = high, high * 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.fits(middle, budget) else (low, middle)
        return low


def random_model(rng: random.Random, *, bends: bool = False) -> tuple[Model, int]:
    """And the capacity of a GPU on which between 8 and some thousand samples fit."""
    while True:
        capacity = rng.choice([8, 16, 24, 40, 80, 141]) * GIB
        parameters = int(capacity * 10 ** rng.uniform(-3, -0.75))
        layers = rng.randint(4, 120)
        sample = capacity * 10 ** rng.uniform(-3.7, -1.3)
        weights = [rng.uniform(0.2, 1) for _ in range(layers)]
        model = Model(
            parameters=parameters,
            state=int(parameters * rng.choice([0, 1, 2, 2, 2])),
            blocks=[sample * weight / sum(weights) for weight in weights],
            transient=sample * rng.uniform(0, 0.5),
            backward=sample * rng.uniform(0, 0.5),
            constant=rng.choice([0, 8 * MIB, 32 * MIB, 300 * MIB]),
            step_temporary=int(parameters * rng.uniform(0, 1)),
            kept_by_grads_end=rng.uniform(0, 0.4),
            fragmentation=rng.uniform(0, 0.01),
            state_made=rng.random() < 0.3,
            grads_stay=rng.random() < 0.5,
        )
        simulated = SimulatedTraining(model, capacity)
        largest = simulated.largest(capacity)
        if largest >= 8:
            if bends:
                model.bends_at, model.bends_by = rng.randint(8, largest), rng.choice([0.5, 0.8, 1.3, 2.0])
            return model, capacity
