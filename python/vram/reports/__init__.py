"""Reports in Python: ``vram.load()``. See docs/load.md.

The library libvram_report.so (vram/report.h) reads and explains recordings, as the program ``vram report`` does. This
package has its documents as Python values, and its tables for pandas, Polars, DuckDB and other readers of Arrow.
"""

from vram.reports._page import make_page
from vram.reports._report import DeviceReport, Finding, Holder, Report, ReportPeak, ReportStep, load
from vram.reports._table import ReportTable
from vram.reports._view import ReportView

__all__ = [
    "DeviceReport",
    "Finding",
    "Holder",
    "Report",
    "ReportPeak",
    "ReportStep",
    "ReportTable",
    "ReportView",
    "load",
    "make_page",
]
