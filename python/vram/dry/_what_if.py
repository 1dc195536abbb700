"""Changes to a program: their names, what they cost besides memory, and which are usual."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from vram._texts import tr, tr_later

_COSTS = {
    "precision=fp32": tr_later("slower arithmetic"),
    "precision=bf16": tr_later("forward and backward round to 8 bits"),
    "precision=fp16": tr_later("forward and backward round to 11 bits; gradients need a GradScaler"),
    "precision=full-bf16": tr_later("parameters round to 8 bits and lose small updates"),
    "optimizer=sgd": tr_later("no momentum: converges more slowly; find its learning rate"),
    "optimizer=momentum": tr_later("no rates per parameter; find its learning rate"),
    "optimizer=adamw": tr_later("none but memory"),
    "optimizer=adafactor": tr_later("approximate second moments; find its learning rate"),
    "optimizer=adamw-8bit": tr_later("states round to 8 bits; needs bitsandbytes"),
    "checkpointing=True": tr_later("each block runs forward twice: up to a third more time"),
    "lora_rank": tr_later("only adapters are trained"),
    "cudnn_benchmark=True": tr_later("the first steps are slower"),
    "cudnn_benchmark=False": tr_later("convolutions may be slower"),
    "gradient_as_bucket_view=True": tr_later("none but memory"),
    "gradient_as_bucket_view=False": tr_later("none but memory"),
    "zero=1": tr_later("{world_size} GPUs; communicates as much as data parallelism (all-reduces gradients)"),
    "zero=2": tr_later("{world_size} GPUs; communicates as much as data parallelism (reduces gradients to their rank)"),
    "zero=3": tr_later("{world_size} GPUs; communicates 1.5 times as much as data parallelism"),
    "gradients=bf16": tr_later("gradients round to 8 bits"),
    "weights=int8": tr_later("frozen weights round to 8 bits"),
    "weights=fp8": tr_later("frozen weights round to 4 bits"),
    "weights=nf4": tr_later(
        "frozen weights round to 16 values of a block; each product takes a weight in 16 bits for its time"
    ),
}


def name_of(changes: Mapping[str, Any]) -> str:
    """Return the name of changes that apply together, such as "precision=bf16, batch=16"."""
    return ", ".join(f"{name}={value}" for name, value in changes.items())


def cost_of(changes: Mapping[str, Any], sizes: Mapping[str, int]) -> str:
    """Return what changes cost besides memory.

    Args:
        changes: By name, with those of sizes.
        sizes: The sizes of the program before.
    """
    return tr("; ").join(_cost(name, value, changes, sizes) for name, value in changes.items() if name != "world_size")


def _cost(name: str, value: Any, changes: Mapping[str, Any], sizes: Mapping[str, int]) -> str:
    if isinstance(value, Mapping):
        return tr("; ").join(f"{pattern}: {_cost(name, each, changes, sizes)}" for pattern, each in value.items())
    text = _COSTS.get(f"{name}={value}") or _COSTS.get(name)
    return tr("{} of {} instead of {}").format(name, value, sizes[name]) if text is None else tr(text).format(**changes)


def usual(sizes: Mapping[str, int] | None, world_size: int, *, is_parallel: bool = False) -> Iterator[dict[str, Any]]:
    """Yield the usual changes.

    Args:
        sizes: Of the program; None: it cannot run again.
        world_size: The number of GPUs for ZeRO.
        is_parallel: Whether the program runs on several ranks.
    """
    if sizes is not None:
        for precision in ("bf16", "full-bf16"):
            yield {"precision": precision}
        for optimizer in ("sgd", "adafactor", "adamw-8bit"):
            yield {"optimizer": optimizer}
        yield {"checkpointing": True}
        yield {"precision": "bf16", "checkpointing": True}
        yield {"lora_rank": 16}
        if is_parallel:
            yield {"gradient_as_bucket_view": True}
        for name, size in sizes.items():
            if size > 1:
                yield {name: size // 2}
    else:
        for optimizer in ("sgd", "adamw-8bit"):
            yield {"optimizer": optimizer}
    yield {"gradients": "bf16"}
    for stage in (1, 2, 3):
        yield {"zero": stage, "world_size": world_size}
