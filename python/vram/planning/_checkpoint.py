"""vram.checkpoint(): a plan, applied to a live model."""

# mypy: allow-untyped-calls

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vram._error import VramError
from vram.planning._plan import CheckpointPlan, plan_checkpoints

if TYPE_CHECKING:
    import torch


class Checkpointed:
    """What vram.checkpoint() returns. Printing it shows the plan; remove() leaves the model as it was.

    Attributes:
        plan: The plan that is applied.
    """

    def __init__(self, model: Any, plan: CheckpointPlan) -> None:
        from vram.planning._regions import Regions

        self.plan = plan
        self._model = model
        self._regions: Regions | None = Regions(model, [model.get_submodule(name) for name in plan.names], plan.regions)
        model.__dict__["_vram_regions"] = self

    def remove(self) -> None:
        """Let the model run as before. Calling it again has no effect."""
        if self._regions is not None:
            self._regions.remove()
            self._regions = None
            del self._model.__dict__["_vram_regions"]

    def __repr__(self) -> str:
        return str(self.plan)


def checkpoint(
    model: torch.nn.Module,
    sample: Any = None,
    budget: int | str | None = None,
    *,
    plan: CheckpointPlan | None = None,
    **options: Any,
) -> Checkpointed:
    """Let a model run blocks again in backward, so that a training step needs at most `budget`.

    The gradients are the same: random numbers and autocast are restored, and running statistics change once.

    Args:
        model: As in plan_checkpoints(); it may be wrapped by DistributedDataParallel or fully_shard if `plan` is stated.
        sample: As in plan_checkpoints().
        budget: As in plan_checkpoints().
        plan: A plan of plan_checkpoints() for this model, instead of `sample` and `budget`.
        **options: As in plan_checkpoints().

    Raises:
        TypeError, ValueError, VramError: As in plan_checkpoints(); the plan is for another model; or the model is wrapped by FSDP2 and
            the plan has regions of several blocks.

    >>> import torch, vram
    >>> model = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(4)])
    >>> plan = vram.CheckpointPlan(1 << 20, 0, 0, 0, 0, ("0", "1", "2", "3"), ())
    >>> checkpointed = vram.checkpoint(model, plan=plan)
    >>> checkpointed.remove()
    """
    from vram.planning._model import unwrapped

    if (plan is None) == (budget is None):
        raise ValueError("expected either sample and budget, or plan")
    inner = unwrapped(model)
    if plan is None:
        assert budget is not None
        plan = plan_checkpoints(model, sample, budget, **options)
    missing = [name for name in plan.names if not _has(inner, name)]
    if missing:
        raise ValueError(f"the plan is for another model: {type(inner).__name__} has no {missing[0]}")
    is_sharded = any(base.__name__ == "FSDPModule" for module in inner.modules() for base in type(module).__mro__)
    if is_sharded and any(region.first != region.last for region in plan.regions):
        raise VramError(
            "the plan has regions of several blocks, and FSDP2 gathers parameters block by block; plan with single_blocks=True"
        )
    return Checkpointed(inner, plan)


def _has(model: Any, name: str) -> bool:
    try:
        model.get_submodule(name)
    except AttributeError:
        return False
    return True
