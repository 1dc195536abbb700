"""Memory settings and figures of TensorFlow and Keras. Importing this module does not import tensorflow.

TensorFlow fixes its use of a GPU's memory at the first use of any device; later changes are errors, which vram explains.
"""

from __future__ import annotations

import gc
import importlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from vram._arguments import MAX_INT32, require_integers
from vram._error import VramError
from vram._frameworks import Figures, Framework, framework_of
from vram._public import publish
from vram._sizes import parse_limit
from vram._texts import tr
from vram.monitoring import _peaks

__all__ = ["Figures", "KerasFigures", "callback", "clear_session", "grow_memory", "limit_memory", "memory_info"]

_MIB = 1 << 20


@dataclass(frozen=True)
class KerasFigures:
    """The figures that the Keras callback passes to its sink, at the end of an epoch (batch is None) or of a batch."""

    epoch: int  # from 0, as Keras counts
    batch: int | None
    seconds: float  # since the epoch, or the batch, began
    devices: dict[int, Figures]  # by GPU, in bytes; peaks are since the epoch's beginning; {} where there is no GPU


def grow_memory(enabled: bool = True) -> int:
    """Let TensorFlow take GPU memory as it needs it, instead of nearly all at once.

    TensorFlow keeps what it has taken until the process ends. Call this once, from one thread, right after importing
    TensorFlow: before any operation. It cannot be combined with limit_memory() on the same GPU.

    Returns:
        The number of GPUs.

    Raises:
        VramError: TensorFlow cannot be imported, has already initialized its devices, or has a limit.

    Example (needs TensorFlow)::

        import tensorflow as tf, vram
        vram.tensorflow.grow_memory()

    >>> import vram
    >>> callable(vram.tensorflow.grow_memory)
    True
    """
    tensorflow = _import_tensorflow()
    gpus = tensorflow.config.list_physical_devices("GPU")
    for gpu in gpus:
        with _explained("vram.tensorflow.grow_memory()"):
            tensorflow.config.experimental.set_memory_growth(gpu, enabled)
    return len(gpus)


def limit_memory(limit: int | str, *, gpu: int = 0) -> None:
    """Let TensorFlow take a fixed amount of a GPU's memory at once, and no more.

    Call this once, from one thread, right after importing TensorFlow. The CUDA context and libraries need a few
    hundred MiB in addition. It cannot be combined with grow_memory() on the same GPU.

    Args:
        limit: "4GiB" or a number of bytes, rounded down to whole MiB.
        gpu: Index in ``tf.config.list_physical_devices("GPU")``.

    Raises:
        VramError: TensorFlow cannot be imported, has no such GPU, has already initialized its devices, or grows on it.
        ValueError: The limit is not a size, or below 1 MiB; or `gpu` is negative.

    >>> import vram
    >>> vram.tensorflow.limit_memory("much")
    Traceback (most recent call last):
    ...
    ValueError: 'much' is no size; write 20GiB, 512MiB or a number of bytes
    """
    size = parse_limit(limit)
    require_integers(0, MAX_INT32, gpu=gpu)
    tensorflow = _import_tensorflow()
    device = _physical_gpu(tensorflow, gpu)
    with _explained("vram.tensorflow.limit_memory()"):
        part = tensorflow.config.LogicalDeviceConfiguration(memory_limit=size // _MIB)
        tensorflow.config.set_logical_device_configuration(device, [part])


def memory_info(gpu: int = 0) -> Figures:
    """Return the bytes that tensors hold on a GPU now, and the peak since the last reset.

    TensorFlow does not report its reserved memory, so those figures are None. Initializes TensorFlow's devices if
    necessary. Any thread may call this.

    Args:
        gpu: Index in ``tf.config.list_logical_devices("GPU")``.

    Raises:
        ValueError: `gpu` is negative.
        VramError: TensorFlow cannot be imported, or has no such GPU.

    Example (needs a GPU)::

        vram.tensorflow.memory_info().peak_allocated_bytes

    >>> import vram
    >>> callable(vram.tensorflow.memory_info)
    True
    """
    require_integers(0, MAX_INT32, gpu=gpu)
    tensorflow = _import_tensorflow()
    _physical_gpu(tensorflow, gpu)
    with _explained("vram.tensorflow.memory_info()"):
        return framework_of("tensorflow").figures(gpu)


def clear_session() -> int:
    """Drop Keras's global state, collect garbage, and return the bytes that this freed on the GPUs.

    Useful if one process builds several models in sequence. A model that a variable still refers to stays. The memory
    returns to TensorFlow's own allocator; other processes get it only when this one ends. Call it from one thread,
    while no model is built or trained.

    Raises:
        VramError: TensorFlow cannot be imported.

    Example (needs TensorFlow)::

        del model
        vram.tensorflow.clear_session()

    >>> import vram
    >>> callable(vram.tensorflow.clear_session)
    True
    """
    tensorflow = _import_tensorflow()
    framework = framework_of("tensorflow")
    before = _allocated(framework)
    tensorflow.keras.backend.clear_session()
    gc.collect()
    return max(0, before - _allocated(framework))


def callback(sink: Callable[[KerasFigures], object] = print, *, every: int = 0) -> Any:
    """Return a ``keras.callbacks.Callback`` that passes figures to a sink after each epoch and each `every`-th batch.

    The sink is called in the training thread; an exception that it raises ends the training. Peaks are reset at the
    beginning of each epoch.

    Args:
        sink: A function of one ``KerasFigures``.
        every: Number of batches between calls; 0: after epochs only.

    Raises:
        ValueError: `every` is below 0.
        VramError: TensorFlow cannot be imported.

    Example (needs TensorFlow)::

        model.fit(x, y, callbacks=[vram.tensorflow.callback(every=100)])

    >>> import vram
    >>> vram.tensorflow.callback(every=-1)
    Traceback (most recent call last):
    ...
    ValueError: expected every to be at least 0, got -1
    """
    require_integers(0, every=every)
    tensorflow = _import_tensorflow()
    figures = _Figures(framework_of("tensorflow"), sink, every)

    class Callback(tensorflow.keras.callbacks.Callback):  # type: ignore[misc,name-defined]
        """Forwards Keras's events."""

        def on_epoch_begin(self, epoch: int, logs: object = None) -> None:
            del logs
            figures.begin_epoch(epoch)

        def on_train_batch_begin(self, batch: int, logs: object = None) -> None:
            del batch, logs
            figures.begin_batch()

        def on_train_batch_end(self, batch: int, logs: object = None) -> None:
            del logs
            figures.end_batch(batch)

        def on_epoch_end(self, epoch: int, logs: object = None) -> None:
            del epoch, logs
            figures.end_epoch()

    return Callback()


class _Figures:
    """The callback without Keras."""

    def __init__(self, framework: Framework, sink: Callable[[KerasFigures], object], every: int) -> None:
        self._framework, self._sink, self._every = framework, sink, every
        self._epoch = 0
        self._peaks: dict[int, _peaks.PeakOf] = {}
        self._epoch_began = self._batch_began = time.perf_counter()

    def begin_epoch(self, epoch: int) -> None:
        self._epoch, self._epoch_began = epoch, time.perf_counter()
        self._end_peaks()
        self._peaks = {device: _peaks.PeakOf() for device in self._framework.devices()}
        for device, peak in self._peaks.items():
            _peaks.begin(self._framework, device, peak, reset=True)

    def begin_batch(self) -> None:
        self._batch_began = time.perf_counter()

    def end_batch(self, batch: int) -> None:
        if self._every and (batch + 1) % self._every == 0:
            self._tell(batch, self._batch_began)

    def end_epoch(self) -> None:
        self._tell(None, self._epoch_began)
        self._end_peaks()

    def _end_peaks(self) -> None:
        for device, peak in self._peaks.items():
            _peaks.end(self._framework, device, peak)
        self._peaks = {}

    def _figures(self, device: int) -> Figures:
        """Return figures with the peak since the epoch began, even if other code has reset peaks since."""
        figures, peak = _peaks.current(self._framework, device), self._peaks.get(device)
        return figures if peak is None else replace(figures, peak_allocated_bytes=peak.allocated)

    def _tell(self, batch: int | None, began: float) -> None:
        figures = {device: self._figures(device) for device in self._framework.devices()}
        self._sink(KerasFigures(self._epoch, batch, time.perf_counter() - began, figures))


def _import_tensorflow() -> Any:
    try:
        return importlib.import_module("tensorflow")
    except ImportError as error:
        raise VramError(
            tr("vram.tensorflow needs TensorFlow, but tensorflow can't be imported: {}").format(error)
        ) from error


def _physical_gpu(tensorflow: Any, gpu: int) -> Any:
    gpus = tensorflow.config.list_physical_devices("GPU")
    if 0 <= gpu < len(gpus):
        return gpus[gpu]
    cuda = (
        tr("its libraries or the driver are missing")
        if tensorflow.test.is_built_with_cuda()
        else tr("it is built without CUDA")
    )
    why = "" if gpus else tr(" ({}, or CUDA_VISIBLE_DEVICES hides them)").format(cuda)
    raise VramError(tr("there is no GPU {}: TensorFlow sees {}{}").format(gpu, len(gpus), why))


def _allocated(framework: Framework) -> int:
    return sum(framework.figures(device).allocated_bytes or 0 for device in framework.devices())


@contextmanager
def _explained(call: str) -> Iterator[None]:
    """Turn TensorFlow's errors into VramErrors that say what to do."""
    try:
        yield
    except (RuntimeError, ValueError) as error:
        text = str(error)
        if "modified after being initialized" in text:
            advice = tr(
                "its devices are set up by its first operation; call {} before that, right after the import"
            ).format(call)
        elif "virtual devices" in text or "memory growth" in text:
            advice = tr("a GPU either grows or has a limit; call grow_memory() or limit_memory(), not both")
        else:
            advice = tr("{} could not be done").format(call)
        raise VramError(tr("TensorFlow says '{}': {}").format(text, advice)) from error


publish(globals())
