"""The buffers of models: what normalises, averages or counts keeps its state there, and moves it with each forward.

Each micro-batch begins with the buffers as they were before the batch, as the whole would. If all leave the same in them
(a count, the vectors of a spectral norm), that is what the whole would leave. If not, they hold something of the samples
(running statistics): only where the user allows a difference do they then become the mean of what the parts left.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from vram._error import VramError
from vram._texts import tr
from vram.recover._changed import version_of
from vram.recover._remembered import Remembered

_ALWAYS_SAVED_BYTES = 1 << 20  # larger ones only at a model's first batch, and once they have moved


@dataclass
class _Buffer:
    name: str
    module: Any
    key: str
    tensor: Any
    version: int
    saved: Any = None

    @property
    def is_other(self) -> bool:
        """Another tensor is in its place."""
        return self.module._buffers.get(self.key) is not self.tensor

    @property
    def has_moved(self) -> bool:
        """Or changed in place, which batch norm does without counting a version."""
        counted = self.is_other or version_of(self.tensor) != self.version
        return counted or (self.saved is not None and not _same(self.saved, self.tensor))


def norms_of(models: list[Any]) -> list[str]:
    """Names of the BatchNorm modules that normalise by the batch now."""
    return [
        name or type(module).__name__
        for model in models
        for name, module in model.named_modules()
        if any(base.__name__ == "_BatchNorm" for base in type(module).__mro__)
        and (module.training or module.running_mean is None)
    ]


class Buffers:
    """Of these models, for one batch. One thread."""

    def __init__(self, models: list[Any], allowed: bool, remembered: Remembered) -> None:
        self.norms = norms_of(models)
        self.allowed = allowed
        if self.norms and not allowed:
            raise VramError(
                tr(
                    "BatchNorm in training mode ({}; {} in all) normalises by the micro-batch: gradients "
                    "can't equal the full batch's. Use GroupNorm, put these modules into eval(), or accept "
                    "the difference with allow_batch_norm=True"
                ).format(", ".join(self.norms[:3]), len(self.norms))
            )
        self._models = models
        self._remembered = remembered
        self._buffers: list[_Buffer] | None = None

    def save(self) -> None:
        """Before anything moves; takes memory, so within an attempt. Calling it again has no effect."""
        if self._buffers is not None:
            return
        moving, found, modules = self._remembered.moving, list[_Buffer](), set[int]()
        for number, model in enumerate(self._models):
            for path, module in model.named_modules():
                for key, tensor in module._buffers.items() if id(module) not in modules else ():
                    found.append(_Buffer(f"{number}.{path}.{key}", module, key, tensor, version_of(tensor)))
                modules.add(id(module))
        for buffer in found:
            if buffer.tensor is not None and (
                moving is None or buffer.name in moving or _bytes(buffer.tensor) <= _ALWAYS_SAVED_BYTES
            ):
                buffer.saved = buffer.tensor.detach().clone()
        self._buffers = found

    def tensors(self) -> list[Any]:
        """After save()."""
        return [buffer.tensor for buffer in self._buffers or () if buffer.tensor is not None]

    def note(self) -> None:
        """Those that have moved will be saved from now on."""
        moved = {b.name for b in self._buffers or () if b.is_other or version_of(b.tensor) != b.version}
        self._remembered.moving = (self._remembered.moving or set()) | moved

    def restore(self) -> None:
        """As before the batch. Allocates nothing, and waits for no device: memory may just have run out."""
        self.note()
        lost: list[_Buffer] = []
        for buffer in self._buffers or ():
            buffer.module._buffers[buffer.key] = buffer.tensor
            if buffer.saved is not None and _is_changeable(buffer.tensor):
                buffer.tensor.data.copy_(buffer.saved)  # graphs of others that have it saved stay valid
                buffer.version = version_of(buffer.tensor)
            elif buffer.tensor is not None and version_of(buffer.tensor) != buffer.version:
                lost.append(buffer)
        if lost:
            raise VramError(
                tr(
                    "the buffer {} ({} bytes) has moved in this batch for the first time and was not saved, "
                    "so that the batch can't be run again. Run the next batch: it will be saved"
                ).format(_shown(lost[0]), _bytes(lost[0].tensor))
            )

    def left(self) -> dict[str, Any]:
        """Copies of those that have moved since restore(), by name."""
        found = {buffer.name: buffer.module._buffers.get(buffer.key) for buffer in self._moved()}
        return {name: None if tensor is None else tensor.detach().clone() for name, tensor in found.items()}

    def settle(self, left: list[tuple[float, dict[str, Any]]]) -> None:
        """Of each micro-batch: its share of the samples, and what it left. VramError: they differ, and that is not allowed."""
        self.restore()
        names = {name for _, one in left for name in one}
        for buffer in [buffer for buffer in self._buffers or () if buffer.name in names]:
            values = [(share, one.get(buffer.name, buffer.saved)) for share, one in left]
            value = values[0][1]
            if not all(_same(value, other) for _, other in values):
                self._refuse(buffer)
                value = _mean(values)
            if buffer.tensor is None or value is None or value.shape != buffer.tensor.shape:
                buffer.module._buffers[buffer.key] = value
            else:
                buffer.tensor.detach().copy_(value)

    def _refuse(self, buffer: _Buffer) -> None:
        if not self.allowed:
            raise VramError(
                tr(
                    "the buffer {} moves with the samples of the micro-batch (running statistics, an "
                    "average), so that split it does not end where the whole batch would leave it. Put the "
                    "module into eval(), move the update behind vram.micro_batches, or accept the difference "
                    "with allow_batch_norm=True"
                ).format(_shown(buffer))
            )

    def _moved(self) -> list[_Buffer]:
        return [buffer for buffer in self._buffers or () if buffer.has_moved]


def _shown(buffer: _Buffer) -> str:
    return buffer.name.partition(".")[2].lstrip(".")


def _bytes(tensor: Any) -> int:
    return int(tensor.numel() * tensor.element_size())


def _is_changeable(tensor: Any) -> bool:
    """Whether PyTorch changes it in place: not if several of its elements are one in memory (expanded)."""
    if tensor.layout is not sys.modules["torch"].strided:
        return True
    return not any(extent > 1 and stride == 0 for extent, stride in zip(tensor.shape, tensor.stride()))


def _same(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    if one.shape != other.shape or one.layout != other.layout:
        return False
    if one.is_sparse:
        one, other = one.coalesce(), other.coalesce()
        return _same(one.indices(), other.indices()) and _same(one.values(), other.values())
    if one.layout is not sys.modules["torch"].strided:  # of compressed rows, say
        return _same(one.to_sparse(), other.to_sparse())
    return bool(((one == other) | (one != one) & (other != other)).all())


def _mean(values: list[tuple[float, Any]]) -> Any:
    """By share of the samples; of what is no number with a fraction, the last."""
    last = values[-1][1]
    if last is None or not last.is_floating_point() or any(value.shape != last.shape for _, value in values):
        return last
    return sum(share * value for share, value in values)
