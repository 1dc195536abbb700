"""Sinks, which receive the measurements. A sink is any callable that takes a Measurement."""

from __future__ import annotations

import contextlib
import logging
import sys
from typing import Any, Callable

from vram._frameworks import COUNTERS
from vram._texts import tr
from vram.monitoring._measurement import Measurement

Sink = Callable[[Measurement], object]

_log = logging.getLogger("vram")


def log(measurement: Measurement) -> None:
    """The default sink: one line per measurement to ``logging.getLogger("vram")``, level INFO. Any thread.

    As long as no handler is set up for that logger, and this is the only sink, the line goes to standard error, as
    ``logging`` itself prints warnings. ``logging.basicConfig(level=logging.INFO)`` sends it where the program logs;
    ``logging.getLogger("vram").setLevel(logging.WARNING)`` or ``vram.remove_sink(vram.log)`` shows nothing.

    >>> import logging, vram
    >>> logging.getLogger("vram").setLevel(logging.INFO)  # from now on each region is a line
    """
    if _is_last_resort():
        with contextlib.suppress(OSError, ValueError):  # a closed standard error is no reason to fail
            print(measurement, file=sys.stderr)
    else:
        _log.info("%s", measurement)


def _is_last_resort() -> bool:
    """Return whether nothing else shows the measurement. The level of the root is not the program's choice then."""
    return (
        not _log.hasHandlers()
        and logging.lastResort is not None
        and _Sinks.all == (log,)
        and _log.manager.disable < logging.INFO
        and _log.level <= logging.INFO
        and sys.stderr is not None  # pythonw, and daemons that closed it
    )


class _Sinks:
    # Replaced, never changed, so reading needs no lock.
    all: tuple[Sink, ...] = (log,)
    broken: tuple[Sink, ...] = ()


def add_sink(sink: Sink) -> Sink:
    """Pass every measurement of this process to ``sink`` from now on, in the thread that ended the region.

    Adding a sink twice has no effect. If a sink raises an exception, its first error is logged as a warning, and the
    measured program continues. Any thread may call this.

    Returns:
        The sink, for ``vram.remove_sink()``.

    Raises:
        TypeError: The sink is not callable.

    >>> import vram
    >>> seen = []
    >>> sink = vram.add_sink(seen.append)
    >>> with vram.monitor("load"):
    ...     pass
    >>> vram.remove_sink(sink)
    >>> seen[0].name
    'load'
    """
    if not callable(sink):
        raise TypeError(
            tr(
                "a sink is called with each measurement, but {!r} can't be called; for a SummaryWriter "
                "use vram.TensorBoard(writer)"
            ).format(sink)
        )
    if sink not in _Sinks.all:
        _Sinks.all = (*_Sinks.all, sink)
    return sink


def remove_sink(sink: Sink) -> None:
    """Stop passing measurements to a sink; ``vram.log`` is the default one. Any thread may call this.

    Raises:
        ValueError: The sink was not added.

    >>> import vram
    >>> vram.remove_sink(vram.log)  # nothing is logged any more
    >>> _ = vram.add_sink(vram.log)
    """
    if sink not in _Sinks.all:
        raise ValueError(tr("{!r} was not added as a sink; pass what vram.add_sink() returned").format(sink))
    _Sinks.all = tuple(other for other in _Sinks.all if other != sink)


def are_listening() -> bool:
    """Return whether a sink would receive a measurement."""
    sinks = _Sinks.all
    return len(sinks) > 1 or (
        bool(sinks) and (sinks[0] is not log or _log.isEnabledFor(logging.INFO) or _is_last_resort())
    )


def give(measurement: Measurement) -> None:
    for sink in _Sinks.all:
        try:
            sink(measurement)
        except Exception as error:  # a failing sink must not end the training
            if sink not in _Sinks.broken:
                _Sinks.broken = (*_Sinks.broken, sink)
                _log.warning("the sink %r failed and will be called again: %s: %s", sink, type(error).__name__, error)


class TensorBoard:
    """A sink that writes scalars to your writer: torch's ``SummaryWriter`` or TensorFlow's ``create_file_writer``.

    Tags are ``<prefix>/<name>/seconds`` and, for each device with known figures,
    ``…/gpu<N>/{allocated,reserved,peak,process}_bytes``, ``…/gpu<N>/fragmentation`` (a fraction) and the counts of
    ``DeviceUse`` (``…/gpu<N>/num_ooms``); the step is the number of the call. Threads may share the sink if the writer allows it.

    Raises:
        TypeError: The writer is of neither kind.

    >>> import vram
    >>> class Writer:  # stands for torch.utils.tensorboard.SummaryWriter("runs/1")
    ...     def add_scalar(self, tag, value, step):
    ...         print(tag, step)
    >>> sink = vram.add_sink(vram.TensorBoard(Writer()))
    >>> with vram.monitor("step"):
    ...     pass
    vram/step/seconds 1
    >>> vram.remove_sink(sink)
    """

    def __init__(self, writer: Any, prefix: str = "vram") -> None:
        if not hasattr(writer, "add_scalar") and not hasattr(writer, "as_default"):
            raise TypeError(
                tr(
                    "expected a SummaryWriter (with add_scalar) or a writer of tf.summary (with as_default), "
                    "found {}; pass torch.utils.tensorboard.SummaryWriter(folder)"
                ).format(type(writer).__name__)
            )
        self._writer = writer
        self._prefix = prefix

    def __call__(self, measurement: Measurement) -> None:
        scalars = scalars_of(measurement)
        if hasattr(self._writer, "add_scalar"):
            for name, value in scalars.items():
                self._writer.add_scalar(f"{self._prefix}/{measurement.name}/{name}", value, measurement.call)
            return
        summary = sys.modules["tensorflow"].summary  # imported, because such a writer exists
        with self._writer.as_default():
            for name, value in scalars.items():
                summary.scalar(f"{self._prefix}/{measurement.name}/{name}", value, step=measurement.call)


def scalars_of(measurement: Measurement) -> dict[str, float]:
    """Return the known figures by name: bytes, seconds and fractions."""
    found: dict[str, float | None] = {"seconds": measurement.duration_ns / 1e9}
    for use in measurement.devices:
        found[f"gpu{use.device}/allocated_bytes"] = use.allocated_bytes
        found[f"gpu{use.device}/reserved_bytes"] = use.reserved_bytes
        found[f"gpu{use.device}/peak_bytes"] = use.peak_allocated_bytes
        found[f"gpu{use.device}/fragmentation"] = use.fragmentation
        found[f"gpu{use.device}/process_bytes"] = use.process_bytes
        for name in COUNTERS:
            found[f"gpu{use.device}/{name}"] = getattr(use, name)
    return {name: value for name, value in found.items() if value is not None}
