"""Callbacks for the training loops of Lightning, Hugging Face's Trainer and Keras.

    trainer = lightning.Trainer(callbacks=[vram.callbacks.lightning(every=10)])
    trainer = transformers.Trainer(…, callbacks=[vram.callbacks.hugging_face()])
    model.fit(…, callbacks=[vram.callbacks.keras()])

Each measures the regions ``epoch`` and ``train_step`` as ``vram.monitor`` does, and ``validation`` if the framework
reports its beginning. The measurements go to the same sinks (docs/measure.md). Importing this module imports no
framework; the functions do.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any, Callable

from vram._error import VramError
from vram._texts import tr
from vram.monitoring._monitor import Around, Monitor

__all__ = ["hugging_face", "keras", "lightning"]


class _Regions:
    """Regions by name, begun and ended by a framework's events. Used by one thread at a time, as trainers do."""

    def __init__(self, every: int, synchronize: bool) -> None:
        self._every = every
        self._synchronize = synchronize
        self._monitors: dict[str, Monitor] = {}
        self._open: dict[str, Any] = {}

    def begin(self, name: str) -> Callable[..., None]:
        """Return the handler of the event that begins the region."""
        every = self._every if name == "train_step" else 1
        monitor = self._monitors.setdefault(name, Monitor(name, self._synchronize, every, reset_peaks=True))

        def event(*_: Any, **__: Any) -> None:
            self._end(name)  # left open: the framework stopped in the middle of one
            self._open[name] = Around(monitor, name)
            self._open[name].__enter__()

        return event

    def end(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: self._end(name)

    def end_all(self, *arguments: Any, **_: Any) -> None:
        """End all regions at the end of the training; if an exception is the reason, it is the last argument."""
        error = arguments[-1] if arguments and isinstance(arguments[-1], BaseException) else None
        for name in list(self._open)[::-1]:
            self._end(name, error)

    def _end(self, name: str, error: BaseException | None = None) -> None:
        region = self._open.pop(name, None)
        if region is not None:
            region.__exit__(None if error is None else type(error), error, None)


def lightning(every: int = 1, synchronize: bool = False) -> Any:
    """Return a Lightning ``Callback`` that measures ``epoch``, ``train_step`` and ``validation``.

    Works with ``lightning`` and ``pytorch_lightning``, whichever the program has imported. The trainer's thread calls
    it. Figures are bytes and nanoseconds. An exception that ends the training is recorded.

    Args:
        every: Measures only each `every`-th ``train_step``.
        synchronize: Waits for the GPU at both ends, so times include its work (see ``vram.monitor``).

    Raises:
        ValueError: `every` is below 1.
        VramError: Neither package can be imported.

    >>> import lightning.pytorch, vram
    >>> callback = vram.callbacks.lightning(every=10)
    >>> isinstance(callback, lightning.pytorch.Callback)
    True
    """
    regions = _Regions(every, synchronize)
    events = {
        "on_train_epoch_start": regions.begin("epoch"),
        "on_train_epoch_end": regions.end("epoch"),
        "on_train_batch_start": regions.begin("train_step"),
        "on_train_batch_end": regions.end("train_step"),
        "on_validation_start": regions.begin("validation"),
        "on_validation_end": regions.end("validation"),
        "on_train_end": regions.end_all,
        "on_exception": regions.end_all,
    }
    return _made(_module("lightning.pytorch", "pytorch_lightning").Callback, events, lightning, every, synchronize)


def hugging_face(every: int = 1, synchronize: bool = False) -> Any:
    """Return a ``transformers.TrainerCallback`` that measures ``epoch`` and ``train_step``.

    A ``train_step`` is one step of the optimizer, including all micro-batches of its gradient accumulation. The
    trainer's thread calls it. Figures are bytes and nanoseconds. The trainer does not report an exception that ends
    it: a region that is open then ends at the next training, or never.

    Args:
        every: Measures only each `every`-th ``train_step``.
        synchronize: As in ``vram.monitor``.

    Raises:
        ValueError: `every` is below 1.
        VramError: transformers cannot be imported.

    >>> import transformers, vram
    >>> callback = vram.callbacks.hugging_face()
    >>> isinstance(callback, transformers.TrainerCallback)
    True
    """
    regions = _Regions(every, synchronize)
    events = {
        "on_epoch_begin": regions.begin("epoch"),
        "on_epoch_end": regions.end("epoch"),
        "on_step_begin": regions.begin("train_step"),
        "on_step_end": regions.end("train_step"),
        "on_train_end": regions.end_all,
    }
    return _made(_module("transformers").TrainerCallback, events, hugging_face, every, synchronize)


def keras(every: int = 1, synchronize: bool = False) -> Any:
    """Return a ``keras.callbacks.Callback`` that measures ``epoch``, ``train_step`` and ``validation``.

    The thread of ``fit`` calls it. Figures are bytes and nanoseconds; memory is known if vram supports the backend.
    Keras may report several steps as one batch ("steps_per_execution" of ``compile``); a region is then the group.

    Args:
        every: Measures only each `every`-th ``train_step``.
        synchronize: As in ``vram.monitor``.

    Raises:
        ValueError: `every` is below 1.
        VramError: keras cannot be imported.

    >>> import keras, vram
    >>> callback = vram.callbacks.keras()
    >>> isinstance(callback, keras.callbacks.Callback)
    True
    """
    regions = _Regions(every, synchronize)
    events = {
        "on_epoch_begin": regions.begin("epoch"),
        "on_epoch_end": regions.end("epoch"),
        "on_train_batch_begin": regions.begin("train_step"),
        "on_train_batch_end": regions.end("train_step"),
        "on_test_begin": regions.begin("validation"),
        "on_test_end": regions.end("validation"),
        "on_train_end": regions.end_all,
    }
    return _made(_module("keras").callbacks.Callback, events, keras, every, synchronize)


def _module(*names: str) -> Any:
    """Return the first of these modules that the program has imported, otherwise the first that can be imported."""
    imported = [name for name in names if name in sys.modules]
    reasons = []
    for name in imported or names:
        try:
            return importlib.import_module(name)
        except ImportError as error:
            reasons.append(str(error))
    wanted = " or ".join(names)
    raise VramError(
        tr("expected {} for its callback, found that it can't be imported ({}); install it").format(
            wanted, "; ".join(reasons)
        )
    )


def _made(base: Any, events: dict[str, Callable[..., None]], maker: Callable[..., Any], *arguments: Any) -> Any:
    """Return an object of a class derived from the framework's; a copy (for spawned ranks) is created from the arguments."""
    methods = {name: _method(event) for name, event in events.items()}
    return type("VramCallback", (base,), {**methods, "__reduce__": lambda _: (maker, arguments)})()


def _method(event: Callable[..., None]) -> Callable[..., None]:
    return lambda _, *arguments, **named: event(*arguments, **named)
