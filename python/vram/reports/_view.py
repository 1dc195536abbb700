"""A report inside of a notebook: the page in a sandboxed frame, or a summary where there is no page."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from vram._error import VramError
from vram._texts import tr
from vram.reports._page import commands_for

if TYPE_CHECKING:
    from vram.reports._report import DeviceReport, Report

# A page's links, and the state that it writes into its address, refer to the frame, not to the notebook's address. Before
# the page's own policy, which admits no <base>.
_BASE = '<head><base href="about:srcdoc">'


class ReportView:
    """A report as a notebook shows it, created by Report.show(). Its page is made when it is first displayed.

    The page runs in a frame of its own origin: its script can reach neither the notebook nor a network. A summary with the
    peaks and findings is above it, for viewers that remove frames. If there is no page, the summary says why.
    """

    def __init__(self, report: Report, height: int, max_size: int | str) -> None:
        self._report = report
        self._height = height
        self._max_size = max_size
        self._shown: str | None = None

    def _repr_html_(self) -> str:
        if self._shown is None:
            self._shown = self._made()
        return self._shown

    def _made(self) -> str:
        report = self._report
        try:
            frame = _frame(report.to_html(max_size=self._max_size), self._height)
        except VramError as error:
            file, server = (html.escape(command) for command in commands_for(report.path))
            reason = tr("No page: {}. It opens by <code>{}</code> or <code>{}</code>.").format(
                html.escape(str(error)), file, server
            )
            return f"{_summary(report, is_open=True)}<p>{reason}</p>"
        return _summary(report, is_open=False) + frame

    def __repr__(self) -> str:
        return repr(self._report)


def _frame(page: str, height: int) -> str:
    document = page.replace("<head>", _BASE, 1)
    source = document.replace("&", "&amp;").replace('"', "&quot;")
    return (
        f'<iframe title="vram report" sandbox="allow-scripts" referrerpolicy="no-referrer" width="100%" height="{height}" '
        f'style="border: 1px solid #8886" srcdoc="{source}"></iframe>'
    )


def _summary(report: Report, is_open: bool) -> str:
    title = f"<b>{html.escape(report.path)}</b> {html.escape(report.device._title())}"
    table = "".join(_rows(device) for device in report.devices)
    return f"<details{' open' if is_open else ''}><summary>{title}</summary><table>{table}</table></details>"


def _rows(device: DeviceReport) -> str:
    findings = "".join(f"<tr><td>{html.escape(finding.title)}</td></tr>" for finding in device.findings)
    return f"<tr><th>{html.escape(device._title())}</th></tr>{findings}"
