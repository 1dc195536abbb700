"""vram.watch() covers a training step: PyTorch's own hooks follow each storage to the end of its life, and everything
that is alive at the step's peak must have a name or be in one of the step's scopes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import marks
import pytest
import torch
from torch import nn
from torch.multiprocessing import reductions
from torch.nn.functional import cross_entropy
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

import vram
from vram import _marks

PHASES = ("forward", "backward", "recompute", "optimizer")
VOCABULARY, WIDTH, LENGTH, BATCH = 400, 32, 64, 4


def weak(storage: torch.UntypedStorage) -> Any:
    return reductions.StorageWeakRef(storage)  # type: ignore[no-untyped-call]


@dataclass
class Storage:
    alive: Any  # StorageWeakRef
    size: int
    path: str
    category: str = ""

    def kind(self) -> str:
        return self.category or next((phase for phase in PHASES if self.path.startswith(phase)), "")


@dataclass
class Follower(TorchDispatchMode):  # type: ignore[no-untyped-call]
    recorder: marks.Recorder
    storages: dict[int, Storage] = field(default_factory=dict)
    peak: list[Storage] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.recorder.on_name = self.name

    def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves((args, out)):
            if isinstance(tensor, torch.Tensor):
                self.see(tensor)
        living = self.living()
        if sum(each.size for each in living) > sum(each.size for each in self.peak):
            self.peak = living
        return out

    def see(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        known = self.storages.get(storage.data_ptr())
        if known is None or known.alive.expired():
            path = self.recorder.path()
            self.storages[storage.data_ptr()] = Storage(weak(storage), storage.nbytes(), path)

    def living(self) -> list[Storage]:
        return [each for each in self.storages.values() if not each.alive.expired()]

    def name(self, address: int, category: str) -> None:
        if address in self.storages:
            self.storages[address].category = category

    def share_named(self) -> float:
        return sum(each.size for each in self.peak if each.kind()) / sum(each.size for each in self.peak)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        mixed: torch.Tensor = x + self.mlp(self.norm2(x))
        return mixed


class Transformer(nn.Module):
    def __init__(self, is_checkpointed: bool) -> None:
        super().__init__()
        self.is_checkpointed = is_checkpointed
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(3))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.is_checkpointed else layer(x)
        logits: torch.Tensor = self.head(x)
        return logits


@pytest.fixture(params=marks.WAYS)
def recorder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[marks.Recorder]:
    yield marks.put_in_place(monkeypatch, request.param)
    _marks.end_trail()


def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    tokens = torch.randint(0, VOCABULARY, (BATCH, LENGTH))
    cross_entropy(model(tokens).flatten(0, 1).float(), tokens.flatten()).backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    optimizer.zero_grad()


@pytest.mark.parametrize("is_checkpointed", [False, True])
def test_names_cover_the_peak(recorder: marks.Recorder, is_checkpointed: bool) -> None:
    model = Transformer(is_checkpointed)
    optimizer = torch.optim.AdamW(model.parameters())
    with vram.watch(model, optimizer):
        for _ in range(3):
            with Follower(recorder) as follower:
                follower.storages.update(known(model, optimizer, recorder))
                step(model, optimizer)
            assert follower.share_named() >= 0.99
            kinds = {each.kind() for each in follower.peak}
    assert {"parameter", "optimizer state", "forward"} <= kinds


def known(model: nn.Module, optimizer: torch.optim.Optimizer, recorder: marks.Recorder) -> dict[int, Storage]:
    """What is there before the step, with the names that it was given."""
    tensors = [*model.parameters(), *tree_leaves([list(state.values()) for state in optimizer.state.values()])]
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage() for tensor in tensors}
    return {
        address: Storage(weak(storage), storage.nbytes(), "", recorder.names.get(address, ("", ""))[0])
        for address, storage in storages.items()
    }


def test_without_a_watch_nothing_is_covered(recorder: marks.Recorder) -> None:
    model = Transformer(is_checkpointed=False)
    optimizer = torch.optim.AdamW(model.parameters())
    with Follower(recorder) as follower:
        step(model, optimizer)
    assert follower.share_named() == 0
