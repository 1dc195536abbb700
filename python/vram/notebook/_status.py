"""The status line: an output that shows the measurement of the last cell, and is updated after each cell."""

from __future__ import annotations

from typing import Any

from IPython.display import display

from vram._texts import tr
from vram.monitoring import Region
from vram.notebook._cell import begin_region


class StatusLine:
    """A line in the output of the cell that turned it on."""

    def __init__(self) -> None:
        self._region: Region | None = None
        self._handle: Any = display(self._bundle(tr("vram: the next cells are shown here")), raw=True, display_id=True)

    def begin_cell(self, name: str) -> None:
        """Begin to measure a cell."""
        self._region = begin_region(name)

    def end_cell(self, error: BaseException | None) -> None:
        """Show the measurement of the cell."""
        region, self._region = self._region, None
        if region is not None:  # otherwise the cell turned the line on
            self._show(f"vram: {region.end(error)}")

    def close(self) -> None:
        """Show nothing from now on."""
        self._region = None
        self._show(tr("vram: status off"))

    def _show(self, text: str) -> None:
        self._handle.update(self._bundle(text), raw=True)

    @staticmethod
    def _bundle(text: str) -> dict[str, str]:
        return {"text/plain": text}
