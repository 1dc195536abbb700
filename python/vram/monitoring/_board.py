"""``vram.Board``: this process's status page in shared memory, for ``vram status`` and other readers."""

from __future__ import annotations

import ctypes
import time

from vram._error import VramError
from vram._frameworks import Figures, Framework, used_framework
from vram._library import OK
from vram.monitoring._measurement import Measurement
from vram.monitoring._native import UNKNOWN, BoardDevice, BoardFigures, library
from vram.monitoring._trim import answer_trim_request

_REFRESH_NS = 100_000_000  # steps may be short, and reading a framework's counters is not


class Board:
    """A sink that publishes each measurement, and each ``vram.step()``, on this process's status page.

    The page is ``/dev/shm/vram-<uid>/<pid>`` (``VRAM_BOARD`` sets another folder), readable by this user and root only. It
    contains the allocated, reserved and cached bytes of each device, with the peak since the board was opened; the last step and
    its duration; the name of the last region. Readers never delay the program, and it never waits for them. A fork gets its own
    page. The page is removed when the process ends; the page of a killed process is recognized as dead.

    This user and root can use the page to request memory (``vram free``): the thread that posts next, at the end of a region or
    in ``vram.step()``, empties the framework's cache (``torch.cuda.empty_cache()``, or the pool's trim) and answers with the
    released bytes; never while this thread captures a CUDA graph. A program that captures in one thread and posts in another
    must pass ``trims=False``, which ignores requests. May be used from any thread.

    Raises:
        VramError: the folder cannot be created or is accessible to other users, or vram's library is missing.

    >>> import vram
    >>> board = vram.add_sink(vram.Board())
    >>> with vram.monitor("forward"):
    ...     pass
    >>> vram.remove_sink(board)
    >>> board.close()
    """

    def __init__(self, trims: bool = True) -> None:
        if library().vram_board_open() != OK:
            why: bytes = library().vram_last_error()
            raise VramError(why.decode(errors="replace"))
        self._devices: dict[int, BoardDevice] = {}
        self._step: int | None = None
        self._step_ns: int | None = None
        self._scope = ""
        self._read_ns = 0
        self._trims = trims
        _State.open = self

    def __call__(self, measurement: Measurement) -> None:
        self._scope = measurement.name
        self._read_ns = time.perf_counter_ns()
        for use in measurement.devices:
            peak = use.peak_allocated_bytes
            self._take(use.device, Figures(use.allocated_bytes, use.reserved_bytes, peak, None))
        self._post()
        self._give()

    def step(self, number: int, duration_ns: int | None) -> None:
        """Publish the number of completed steps and the duration of the last one (nanoseconds; None: unknown)."""
        self._step, self._step_ns = number, duration_ns
        now = time.perf_counter_ns()
        framework = used_framework()
        if framework is not None and now - self._read_ns > _REFRESH_NS:
            self._read_ns = now
            self._read_figures(framework)
        self._post()
        self._give()

    def close(self) -> None:
        """Remove the page. May be called from any thread."""
        if _State.open is self:
            _State.open = None
            library().vram_board_close()

    def _give(self) -> None:
        if not self._trims or _State.open is not self or not answer_trim_request():
            return
        framework = used_framework()
        if framework is not None:
            self._read_figures(framework)
            self._post()

    def _read_figures(self, framework: Framework) -> None:
        for device in framework.devices():
            self._take(device, framework.figures(device))

    def _take(self, device: int, figures: Figures) -> None:
        allocated, reserved, peak = figures.allocated_bytes, figures.reserved_bytes, figures.peak_allocated_bytes
        before = self._devices.get(device)
        if before is not None and before.peak_bytes != UNKNOWN:
            peak = max(peak or 0, before.peak_bytes)
        cached = None if allocated is None or reserved is None else reserved - allocated
        self._devices[device] = BoardDevice(device, *map(_or_unknown, (allocated, reserved, peak, cached)))

    def _post(self) -> None:
        if _State.open is not self:
            return
        devices = list(self._devices.values())
        figures = BoardFigures(
            struct_bytes=ctypes.sizeof(BoardFigures),
            step=_or_unknown(self._step),
            step_ns=_or_unknown(self._step_ns),
            scope=self._scope.encode(errors="replace"),
            devices=(BoardDevice * len(devices))(*devices),
            device_count=len(devices),
        )
        library().vram_board_post(ctypes.byref(figures))


class _State:
    open: Board | None = None


def post_step(number: int, duration_ns: int | None) -> None:
    """Publish a step for ``vram.step()``; has no effect if no board is open."""
    board = _State.open
    if board is not None:
        board.step(number, duration_ns)


def _or_unknown(figure: int | None) -> int:
    return UNKNOWN if figure is None else figure
