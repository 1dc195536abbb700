"""vram.tensorflow and find_cycles() with the real TensorFlow and Keras, on the CPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import vram
from vram._frameworks import Figures, framework_of

tf = pytest.importorskip("tensorflow", reason="needs tools/requirements-frameworks.txt")

PYTHON = Path(__file__).resolve().parents[2] / "python"


def test_before_the_first_operation_everything_can_be_said_and_nothing_is_set_up() -> None:
    code = """
import tensorflow as tf, vram
from tensorflow.python.eager import context
from vram._frameworks import framework_of
print(vram.tensorflow.grow_memory(), framework_of("tensorflow").devices(), context.context()._initialized)
"""
    environment = {"PYTHONPATH": str(PYTHON), "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment, timeout=120
    )
    assert done.stdout == "0 [] False\n"


@pytest.mark.parametrize(
    "call", [lambda: vram.tensorflow.limit_memory("4GiB", gpu=1), lambda: vram.tensorflow.memory_info(1)]
)
def test_a_gpu_that_is_not_there_is_an_error(call: Any) -> None:
    with pytest.raises(vram.VramError, match=r"there is no GPU 1: TensorFlow sees 0 \(it is built without CUDA, or"):
        call()


def test_too_late_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the real error, which TensorFlow has for the CPU's logical devices too."""
    tf.zeros(1)
    cpu = tf.config.list_physical_devices("CPU")
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda _: cpu)
    real = tf.config.set_logical_device_configuration

    def without_limit(device: Any, _: Any) -> None:  # of a CPU no limit can be set
        real(device, [tf.config.LogicalDeviceConfiguration()] * 2)

    monkeypatch.setattr(tf.config, "set_logical_device_configuration", without_limit)
    with pytest.raises(
        vram.VramError, match=r"after being initialized': .* call vram.tensorflow.limit_memory\(\) before"
    ):
        vram.tensorflow.limit_memory("4GiB")


def test_other_refusals_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = tf.config.list_physical_devices("CPU")
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda _: cpu)
    with pytest.raises(vram.VramError, match="Cannot set memory growth on non-GPU"):
        vram.tensorflow.grow_memory()
    with pytest.raises(vram.VramError, match="Setting memory limit on CPU"):
        vram.tensorflow.limit_memory("4GiB")


def test_less_than_a_mebibyte_is_no_limit() -> None:
    with pytest.raises(ValueError, match="1000 bytes, and 1 MiB is the least"):
        vram.tensorflow.limit_memory(1000)


def _fit(callback: Any) -> None:
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(tf.zeros((12, 4)), tf.zeros((12, 1)), batch_size=2, epochs=2, verbose=0, callbacks=[callback])


def test_the_callback_tells_of_epochs() -> None:
    received: list[vram.tensorflow.KerasFigures] = []
    _fit(vram.tensorflow.callback(received.append))
    assert [(figures.epoch, figures.batch, figures.devices) for figures in received] == [(0, None, {}), (1, None, {})]
    assert all(figures.seconds > 0 for figures in received)


def test_the_callback_tells_of_every_second_batch_and_of_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[vram.tensorflow.KerasFigures] = []
    reset: list[int] = []
    kind = type(framework_of("tensorflow"))
    monkeypatch.setattr(kind, "devices", lambda _: [0])
    figures = Figures(allocated_bytes=7, peak_allocated_bytes=9)
    monkeypatch.setattr(kind, "figures", lambda *_: figures)
    monkeypatch.setattr(kind, "reset_peaks", lambda _, device: reset.append(device))
    _fit(vram.tensorflow.callback(received.append, every=2))
    assert [(one.epoch, one.batch) for one in received] == [
        (0, 1), (0, 3), (0, 5), (0, None), (1, 1), (1, 3), (1, 5), (1, None)
    ]  # fmt: skip
    assert all(one.devices == {0: figures} for one in received)
    assert reset == [0, 0]


def test_the_session_is_cleared() -> None:
    tf.keras.layers.Dense(1)
    assert tf.keras.layers.Dense(1).name != "dense"
    assert vram.tensorflow.clear_session() == 0  # on no GPU
    assert tf.keras.layers.Dense(1).name == "dense"


class Node:
    me: Any
    x: Any


@pytest.mark.usefixtures("only_planted_garbage")
def test_a_cycle_that_holds_a_tensor_is_found() -> None:
    node = Node()
    node.me, node.x = node, tf.zeros((64, 32), dtype=tf.float16)
    del node
    (cycle,) = vram.find_cycles(devices="all", collect=True)
    assert (cycle.bytes, cycle.path) == (64 * 32 * 2, "Node.x -> Tensor[64, 32] float16")
    assert vram.find_cycles(devices="all") == []


@pytest.mark.usefixtures("only_planted_garbage")
def test_a_cycle_that_holds_a_variable_of_keras_is_found() -> None:
    node = Node()
    node.me, node.x = node, tf.keras.Variable(tf.zeros((10, 3)))
    del node
    (cycle,) = vram.find_cycles(devices="all", collect=True)
    assert (cycle.bytes, len(cycle.tensors)) == (10 * 3 * 4, 1)
    assert cycle.path.startswith("Node.x -> Variable._value -> Tensor[10, 3] float32")


def test_what_is_out_of_memory() -> None:
    framework = framework_of("tensorflow")
    assert framework.is_out_of_memory(tf.errors.ResourceExhaustedError(None, None, "OOM"))
    assert not framework.is_out_of_memory(tf.errors.InternalError(None, None, "OOM"))
