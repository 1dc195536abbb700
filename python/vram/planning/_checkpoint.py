"""vram.checkpoint(): a plan, applied to a live model."""

# mypy: allow-untyped-calls

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from vram._error import VramError
from vram._sizes import parse_limit
from vram._texts import tr
from vram.planning._plan import plan_checkpoints
from vram.planning._question import question_of
from vram.planning._region import CheckpointRegion
from vram.planning._result import CheckpointPlan

if TYPE_CHECKING:
    import torch


class Checkpointed:
    """What vram.checkpoint() returns. Printing it shows the plan; remove() leaves the model as it was.

    Attributes:
        plan: The plan that is applied.
    """

    def __init__(self, model: Any, plan: CheckpointPlan, compiler: Any = None) -> None:
        from vram.planning._compiled import Applied, Compiler

        self.plan = plan
        self._model = model
        blocks = [model.get_submodule(name) for name in plan.names]
        self._applied: Applied | None = Applied(
            model, blocks, plan.compiled, plan.activation_budgets, plan.regions, compiler or Compiler()
        )
        model.__dict__["_vram_regions"] = self

    def remove(self) -> None:
        """Let the model run as before. Calling it again has no effect."""
        if self._applied is not None:
            self._applied.remove()
            self._applied = None
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
        TypeError, ValueError, VramError: As in plan_checkpoints(); the plan is for another model, or was changed to an impossible one; or the model
            is wrapped by FSDP2 and the plan has regions of several blocks.

    >>> import torch, vram
    >>> model = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(4)])
    >>> plan = vram.CheckpointPlan(1 << 20, 0, 0, 0, 0, ("0", "1", "2", "3"), ())
    >>> checkpointed = vram.checkpoint(model, plan=plan)
    >>> checkpointed.remove()
    """
    from vram.planning._calls import is_sharded
    from vram.planning._model import unwrapped

    if (plan is None) == (budget is None) or (plan is not None and (sample is not None or options)):
        raise ValueError(tr("expected either sample and budget with their options, or plan alone"))
    inner = unwrapped(model)
    compiler = None
    if plan is None:
        assert budget is not None
        if options.get("compile"):
            plan, compiler = _compiled(model, sample, budget, **options)
        else:
            plan = plan_checkpoints(model, sample, budget, **options)
    _check(plan, inner)
    if is_sharded(inner) and any(region.first != region.last for region in plan.regions):
        raise VramError(
            tr(
                "the plan has regions of several blocks, and FSDP2 gathers parameters block by block; "
                "plan with single_blocks=True"
            )
        )
    return Checkpointed(inner, plan, compiler)


def _compiled(model: Any, sample: Any, budget: int | str, **options: Any) -> tuple[CheckpointPlan, Any]:
    """Return the plan, and what has compiled the model for it."""
    from vram.planning._compiled import Compiler
    from vram.planning._search import CompiledSearch

    measured_anyway = {"compile", "cost", "gpu", "torch_version"}
    compiler = Compiler()
    question = question_of(model, sample, **{k: v for k, v in options.items() if k not in measured_anyway})
    return CompiledSearch(*question, compiler).plan(parse_limit(budget)), compiler


def _check(plan: Any, model: Any) -> None:
    """Raise TypeError or ValueError: the plan is none, was made for another model, or was changed by hand."""
    if not isinstance(plan, CheckpointPlan):
        raise TypeError(
            tr("expected plan to be a CheckpointPlan of vram.plan_checkpoints(), got {}").format(type(plan).__name__)
        )
    modules = dict(model.named_modules(remove_duplicate=False))
    missing = [name for name in plan.names if name not in modules]
    if missing:
        raise ValueError(tr("the plan is for another model: {} has no {}").format(type(model).__name__, missing[0]))
    blocks = [modules[name] for name in plan.names]
    inside = {id(part) for block in blocks for part in block.modules() if part is not block}
    if len(set(map(id, blocks))) < len(blocks) or not inside.isdisjoint(map(id, blocks)):
        raise ValueError(
            tr("expected the blocks of the plan to be different modules, none inside of another; plan this model again")
        )
    _check_compiled(plan)
    _check_regions(plan.regions, CheckpointRegion(0, len(blocks) - 1), is_outermost=True)


def _check_compiled(plan: CheckpointPlan) -> None:
    wanted = {None: 0, "blocks": len(plan.names), "model": 1}
    if plan.compiled not in wanted:
        raise ValueError(tr("expected compiled to be None, 'blocks' or 'model', got {!r}").format(plan.compiled))
    if len(plan.activation_budgets) != wanted[plan.compiled]:
        raise ValueError(
            tr("expected the number of activation_budgets to be {} with compiled={!r}, got {}").format(
                wanted[plan.compiled], plan.compiled, len(plan.activation_budgets)
            )
        )
    if plan.compiled == "model" and plan.regions:
        raise ValueError(tr("expected no regions if the whole model is compiled, got {}").format(len(plan.regions)))


def _check_regions(regions: Iterable[CheckpointRegion], around: CheckpointRegion, *, is_outermost: bool) -> None:
    begin = around.first
    for region in regions:
        is_single = region.first == region.last and not region.parts and is_outermost
        if not begin <= region.first <= region.last <= around.last or (region.keeps_products and not is_single):
            raise ValueError(
                tr(
                    "expected regions in their order within blocks {} to {}, and only single blocks outside "
                    "of regions to keep products; got {}"
                ).format(around.first, around.last, region)
            )
        _check_regions(region.parts, region, is_outermost=False)
        begin = region.last + 1
