#!/usr/bin/env python3
"""Makes foreign/: small recordings by other programs, which vram imports.

    make_foreign.py torch OUT.json      (PyTorch: torch.profiler with memory and stacks, three steps of a small model)
    make_foreign.py jax OUT.pb.gz       (JAX: jax.profiler.save_device_memory_profile)
    make_foreign.py tensorflow FOLDER   (TensorFlow: three steps; the profile is in FOLDER/plugins/profile/*/)
    make_foreign.py xprof OUT.json IN.xplane.pb    (XProf: the tool memory_profile, of such a profile)

Both run on the processor. foreign/rmm.csv was written by hand in the format of RMM's logging_resource_adaptor, which needs a GPU.
The tests' figures do not depend on the version of either framework.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any


def record_torch(path: str) -> None:
    torch: Any = importlib.import_module("torch")
    profiler: Any = importlib.import_module("torch.profiler")
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    kept = []

    def step() -> None:
        with profiler.record_function("forward"):
            loss = model(torch.randn(64, 256)).square().mean()
        with profiler.record_function("backward"):
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        kept.append(torch.zeros(1000))

    with profiler.profile(
        activities=[profiler.ProfilerActivity.CPU],
        profile_memory=True,
        with_stack=True,
        schedule=profiler.schedule(wait=0, warmup=1, active=3),
        on_trace_ready=lambda done: done.export_chrome_trace(path),
    ) as profile:
        for _ in range(4):
            step()
            profile.step()


def record_jax(path: str) -> None:
    jax: Any = importlib.import_module("jax")
    weights = [jax.numpy.ones((256, 256)) for _ in range(4)]

    @jax.jit  # type: ignore[untyped-decorator]
    def apply(x: Any) -> Any:
        return x @ weights[0]

    def keep() -> list[Any]:
        return [apply(jax.numpy.full((64, 256), float(i))) for i in range(3)]

    kept = keep()
    jax.block_until_ready(kept)
    jax.profiler.save_device_memory_profile(path)


def record_tensorflow(folder: str) -> None:
    os.environ["TF_CPU_ALLOCATOR_USE_BFC"] = "1"  # as on GPUs; the default one of the processor reports no memory
    tf: Any = importlib.import_module("tensorflow")
    model = tf.keras.Sequential(
        [tf.keras.layers.Input((32,)), tf.keras.layers.Dense(64, activation="relu"), tf.keras.layers.Dense(10)]
    )
    optimizer = tf.keras.optimizers.Adam()
    images, labels = tf.random.normal((16, 32)), tf.random.uniform((16,), maxval=10, dtype=tf.int32)

    @tf.function  # type: ignore[untyped-decorator]
    def step() -> None:
        with tf.GradientTape() as tape:
            loss = tf.keras.losses.sparse_categorical_crossentropy(labels, model(images), from_logits=True)
            loss = tf.reduce_mean(loss)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    step()
    profiler = tf.profiler.experimental
    profiler.start(folder, options=profiler.ProfilerOptions(host_tracer_level=3))
    for number in range(3):
        with profiler.Trace("train", step_num=number, _r=1):
            step()
    profiler.stop()


def convert_xprof(path: str) -> None:
    convert: Any = importlib.import_module("xprof.convert.raw_to_tool_data")
    data, _ = convert.xspace_to_tool_data([sys.argv[3]], "memory_profile", {})
    Path(path).write_bytes(data)


if __name__ == "__main__":
    makers = {"torch": record_torch, "jax": record_jax, "tensorflow": record_tensorflow, "xprof": convert_xprof}
    makers[sys.argv[1]](sys.argv[2])
