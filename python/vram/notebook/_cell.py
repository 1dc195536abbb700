"""One measured cell or statement: a region of ``vram.monitor`` that only the notebook shows, and perhaps a recording."""

from __future__ import annotations

import sys
from typing import Any

from vram._error import VramError
from vram._texts import tr
from vram.monitoring import Measurement, Region
from vram.notebook._options import CellOptions
from vram.recording import Recording, record


class MeasuredCell:
    """A cell that is being measured. The sinks of vram.monitor don't receive the result: the cell's output shows it."""

    def __init__(self, name: str, options: CellOptions) -> None:
        self._options = options
        self._recording: Recording | None = None
        if options.record is not None:
            self._recording = record(options.record, stacks=options.stacks)
        self._region = begin_region(name, options.synchronizes)

    def end(self, error: BaseException | None) -> Measurement:
        """End the measurement and the recording, and show both below the cell."""
        measurement = self._region.end(error)
        if not self._options.is_quiet:
            print(measurement)
        if self._recording is not None:
            self._finish(self._recording)
        return measurement

    def _finish(self, recording: Recording) -> None:
        try:
            recording.stop()
            if not self._options.is_quiet:
                count = recording.events
                text = (
                    tr("recorded {:,} event: vram report {}")
                    if count == 1
                    else tr("recorded {:,} events: vram report {}")
                )
                print(text.format(count, recording.path))
            if self._options.shows_report:
                _display(recording.report())
        except (VramError, OSError) as failure:  # must not hide the cell's own error
            print(f"vram: {failure}", file=sys.stderr)


def begin_region(name: str, synchronizes: bool = False) -> Region:
    """Return a region that has begun."""
    region = Region(name, 1)
    region.begin(synchronizes, reset_peaks=True, driver=True)
    return region


def _display(thing: Any) -> None:
    from IPython.display import display

    display(thing)
