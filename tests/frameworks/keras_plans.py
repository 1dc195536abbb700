"""A program of test_keras_plans.py: plans for Keras models on PyTorch. It prints what it found as JSON."""

# mypy: ignore-errors

from __future__ import annotations

import json
import os
import sys
from typing import Any

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np
import torch
from keras import layers

import vram
from vram.planning import _remat

torch.set_num_threads(1)
SAMPLE = np.random.default_rng(0).normal(size=(64, 128, 32)).astype("float32")


@keras.saving.register_keras_serializable("tests")
class Block(layers.Layer):
    def __init__(self, rate: float = 0.0, **named: Any) -> None:
        super().__init__(**named)
        self.norm, self.up, self.down = (
            layers.LayerNormalization(),
            layers.Dense(512, activation="gelu"),
            layers.Dense(32),
        )
        self.drop = layers.Dropout(rate) if rate else None

    def call(self, x: Any) -> Any:
        y = self.down(self.up(self.norm(x)))
        return x + (y if self.drop is None else self.drop(y))


def build() -> Any:
    """Blocks without names, one that draws random numbers, and one with statistics."""
    inputs = keras.Input((128, 32))
    x = inputs
    for number in range(6):
        x = Block(rate=0.1 if number == 2 else 0.0)(x)
    return keras.Model(inputs, layers.Dense(10)(layers.BatchNormalization()(x)))


def loss(output: Any) -> Any:
    return (output**2).mean()


def measured(model_of: Any, lines: dict[str, int]) -> int:
    """The peak of a program that doesn't know of the plan, in a dry run of its own."""
    with vram.dry_run("24GiB", assume=lines), keras.device("cuda:0"):
        model, sample = model_of(), keras.ops.convert_to_tensor(SAMPLE)
        for _ in range(2):
            model.zero_grad()
            torch.cuda.reset_peak_memory_stats()
            loss(model(sample, training=True)).backward()
        return int(torch.cuda.max_memory_allocated())


def gradients(model: Any) -> list[Any]:
    model.zero_grad()
    with keras.device("cpu"):
        loss(model(keras.ops.convert_to_tensor(SAMPLE), training=False)).backward()
    return [v.value.grad.clone() for v in model.trainable_variables]


def main() -> None:
    found: dict[str, Any] = {}
    full = vram.keras.plan_remat(build, SAMPLE, "1TiB", loss=loss, gpu="24GiB")
    plan = vram.keras.plan_remat(build, SAMPLE, int(full.peak_bytes * 0.7), loss=loss, gpu="24GiB")
    lines = _remat._seeds()
    found["full"] = [full.peak_bytes, full.full_peak_bytes, list(full.layers), measured(build, lines)]
    found["plan"] = [plan.peak_bytes, plan.budget_bytes, list(plan.numbers), plan.step_ns / plan.full_step_ns]
    found["measured"] = measured(lambda: plan.build(build), lines)
    with keras.device("cpu"):
        plain, planned = build(), plan.build(build)
    planned.set_weights(plain.get_weights())
    found["equal"] = all(torch.equal(a, b) for a, b in zip(gradients(plain), gradients(planned), strict=True))
    for model in (plain, planned):
        saved: list[int] = []
        hooks = torch.autograd.graph.saved_tensors_hooks(lambda t, s=saved: s.append(t.numel()) or t, lambda t: t)
        with hooks, keras.device("cpu"):
            loss(model(keras.ops.convert_to_tensor(SAMPLE), training=True))
        found.setdefault("saved", []).append(sum(saved))
    optimizer = vram.keras.plan_remat(build, SAMPLE, "1TiB", loss=loss, gpu="24GiB", optimizer=keras.optimizers.Adam)
    found["optimizer"] = [optimizer.peak_bytes, sum(v.value.numel() * 4 for v in plain.trainable_variables)]
    try:
        vram.keras.plan_remat(build, SAMPLE, 2 << 20, loss=loss, gpu="24GiB")
    except vram.VramError as error:
        found["small"] = str(error)
    try:
        plan.build(lambda: keras.Sequential([layers.Dense(2)]))
    except ValueError as error:
        found["other"] = str(error)
    json.dump({**found, "text": str(plan)}, sys.stdout)


main()
