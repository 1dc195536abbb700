"""Schedules of pipelines, whose first rank a dry run follows: what the other stages tell it before the first step.

PyTorch's stages pass the shapes of what they compute, and vote whether they need to. The gradients of a stage's results have the shapes of the results.
A later stage of this rank gets what its stage before returns, as the blocks of a transformer do; this is an assumption, and a warning says so.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import dataclasses
from types import ModuleType
from typing import Any

import torch

from vram._texts import tr
from vram.dry._imports import when_imported
from vram.dry._lines import warn
from vram.dry._patches import Patches


def put_in_place(patches: Patches) -> None:
    when_imported(patches, "torch.distributed.pipelining.stage", lambda module: _answer(patches, module))


def _answer(patches: Patches, module: ModuleType) -> None:
    """Let the stages of this rank get answers, in versions of PyTorch that ask."""
    stage = module.__dict__.get("PipelineStage")
    names = ("_warmup_forward_vote", "_warmup_backward_result", "_recv_meta", "_send_meta")
    if stage is None or any(name not in stage.__dict__ for name in names):
        return
    found: dict[str, Any] = module.__dict__
    sent: list[Any] = []

    def vote(of: Any, has_backward: bool, received_acc: Any = None) -> Any:
        own = 0 if found["InferenceMode"].needs_dynamic(of._user_meta, has_backward) else 1
        return torch.tensor([own]) if received_acc is None else received_acc * own

    def received(of: Any, src_stage: int) -> Any:
        if src_stage > of.stage_index:
            return found["_StageBackwardMeta"](tuple(map(_gradient, of._stage_meta.outputs)))
        warn(tr("a dry run assumes that what a stage of a pipeline receives is like what this rank sent last"))
        return sent[-1]

    patches.put(stage, "_warmup_forward_vote", vote)
    patches.put(stage, "_warmup_backward_result", lambda _stage, received_result=None: received_result)
    patches.put(stage, "_recv_meta", received)
    patches.put(stage, "_send_meta", lambda _stage, meta, _dst_stage: sent.append(meta))


def _gradient(result: Any) -> Any:
    return dataclasses.replace(result, requires_grad=False) if result.requires_grad else None
