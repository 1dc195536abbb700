"""``vram.Board``: publishes this process's figures on a status page in shared memory, for ``vram status`` and others."""

from __future__ import annotations

import ctypes
import time

from vram._arguments import require_integers
from vram._error import VramError
from vram._frameworks import COUNTERS, Figures, Framework, used_framework
from vram._library import last_error, library, sized
from vram._prototypes import OK, UNKNOWN, BoardDevice, BoardFigures
from vram.monitoring._measurement import Measurement
from vram.monitoring._segments import answer_segments_request
from vram.monitoring._trim import answer_trim_request

_REFRESH_NS = 100_000_000  # steps may be shorter than reading a framework's counters


class Board:
    """A sink that publishes each measurement, and each ``vram.step()``, on the status page of this process.

    The page is ``/dev/shm/vram-<uid>/<pid>`` (``VRAM_BOARD`` names another folder), and only this user and root can
    read it. It contains, per device, the allocated, reserved and cached bytes, the peak since the board was opened, and
    PyTorch's retries, out-of-memory errors and driver calls since the program started; the last step and its duration; and the name of the last region. The program does not wait for readers. A forked
    process gets its own page. The page is removed when the process ends; that of a killed process is recognized as
    such.

    This user and root may also request memory through the page (``vram free``). The thread of the next update, at the
    end of a region or in ``vram.step()``, then empties the framework's cache (``torch.cuda.empty_cache()``, or the
    pool's trim), reports how much it gave back, and continues. It never does so while it captures a CUDA graph. The
    dashboard of ``vram serve`` asks in the same way for the segments and blocks of PyTorch's allocator (and of the pool);
    listing them takes at most 1 % of the program's time. Any thread may use a board.

    Args:
        trims: False ignores such requests. Required for a program that captures in one thread and updates in another.

    Raises:
        VramError: The folder cannot be created, is accessible to others, or vram's library is missing.

    >>> import vram
    >>> board = vram.add_sink(vram.Board())
    >>> with vram.monitor("forward"):
    ...     pass
    >>> vram.remove_sink(board)
    >>> board.close()
    """

    def __init__(self, trims: bool = True) -> None:
        if library().vram_board_open() != OK:
            raise VramError(last_error())
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
        framework = used_framework()
        for use in measurement.devices:
            counted = Figures() if framework is None else framework.figures(use.device)  # since the program started
            counts = {name: getattr(counted, name) for name in COUNTERS}
            self._take(
                use.device, Figures(use.allocated_bytes, use.reserved_bytes, use.peak_allocated_bytes, None, **counts)
            )
        self._post()
        self._answer()

    def step(self, number: int, duration_ns: int | None) -> None:
        """Publish the number of finished steps and the nanoseconds of the last one (None: unknown). Any thread.

        Raises:
            ValueError: One of them is negative, or at least 2**63.
        """
        require_integers(0, number=number, duration_ns=duration_ns)
        self._step, self._step_ns = number, duration_ns
        now = time.perf_counter_ns()
        framework = used_framework()
        if framework is not None and now - self._read_ns > _REFRESH_NS:
            self._read_ns = now
            self._read_figures(framework)
        self._post()
        self._answer()

    def close(self) -> None:
        """Remove the page. Any thread."""
        if _State.open is self:
            _State.open = None
            library().vram_board_close()

    def _answer(self) -> None:
        if _State.open is not self:
            return
        answer_segments_request()
        if not self._trims or not answer_trim_request():
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
        counts = (getattr(figures, name) for name in COUNTERS)
        self._devices[device] = BoardDevice(device, *map(_or_unknown, (allocated, reserved, peak, cached, *counts)))

    def _post(self) -> None:
        if _State.open is not self:
            return
        devices = list(self._devices.values())
        figures = sized(
            BoardFigures,
            step=_or_unknown(self._step),
            step_ns=_or_unknown(self._step_ns),
            scope=self._scope.encode(errors="replace"),
            devices=(BoardDevice * len(devices))(*devices),
            device_count=len(devices),
            device_bytes=ctypes.sizeof(BoardDevice),
        )
        library().vram_board_post(ctypes.byref(figures))


class _State:
    open: Board | None = None


def post_step(number: int, duration_ns: int | None) -> None:
    """Publish a step for ``vram.step()`` if a board is open."""
    board = _State.open
    if board is not None:
        board.step(number, duration_ns)


def _or_unknown(figure: int | None) -> int:
    return UNKNOWN if figure is None else figure
