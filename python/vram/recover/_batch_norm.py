"""BatchNorm in training mode: it normalises by what is in the micro-batch, so no split gives the full batch's gradients.

Refused therefore, unless the user takes the difference: then at least the running statistics move by as much as for one
batch, and a failed attempt leaves no trace in them.
"""

from __future__ import annotations

from typing import Any

from vram._error import VramError


def _norms(models: list[Any]) -> list[tuple[str, Any]]:
    """Name and module of those that normalise by the batch now."""
    return [
        (name or type(module).__name__, module)
        for model in models
        for name, module in model.named_modules()
        if any(base.__name__ == "_BatchNorm" for base in type(module).__mro__)
        and (module.training or module.running_mean is None)
    ]


class RunningStatistics:
    """Of the BatchNorm modules in these models, as they were before the batch."""

    def __init__(self, models: list[Any], allowed: bool) -> None:
        norms = _norms(models)
        if norms and not allowed:
            raise VramError(
                f"BatchNorm in training mode ({', '.join(name for name, _ in norms[:3])}; {len(norms)} in all) "
                "normalises by the micro-batch: gradients can't equal the full batch's. Use GroupNorm, put these modules "
                "into eval(), or accept the difference with allow_batch_norm=True"
            )
        self.names = [name for name, _ in norms]
        self._kept = [
            (module, module.momentum, [buffer.clone() for buffer in _statistics(module)]) for _, module in norms
        ]

    def begin(self, micro_batches: int) -> None:
        """Before an attempt: the statistics as before the batch, and a momentum that, applied so often, is the one set."""
        for module, momentum, kept in self._kept:
            for buffer, value in zip(_statistics(module), kept):
                buffer.copy_(value)
            if momentum is not None:
                module.momentum = 1 - (1 - momentum) ** (1 / micro_batches)

    def end(self, worked: bool) -> None:
        for module, momentum, kept in self._kept:
            module.momentum = momentum
            for buffer, value in zip(_statistics(module), kept):
                if not worked:
                    buffer.copy_(value)
                elif buffer is module.num_batches_tracked:
                    buffer.copy_(value + 1)


def _statistics(module: Any) -> list[Any]:
    buffers = (module.running_mean, module.running_var, module.num_batches_tracked)
    return [buffer for buffer in buffers if buffer is not None]
