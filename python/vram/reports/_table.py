"""Tables of a recording, for pandas and for all libraries that read Arrow's streams."""

from __future__ import annotations

import importlib
from typing import Any

from vram._texts import tr
from vram.reports._native import NativeReport, table_names


class ReportTable:
    """A table of a recording, created by Report.table().

    Libraries that read Arrow's PyCapsule interface take it as it is, without PyArrow: ``polars.DataFrame(table)``,
    ``duckdb.from_arrow(table)``, ``pyarrow.table(table)``. Each use computes the rows again.
    """

    def __init__(self, report: NativeReport, name: str) -> None:
        if name not in table_names():
            raise ValueError(tr("there is no table {!r}: expected one of {}").format(name, ", ".join(table_names())))
        self._report = report
        self._name = name

    @property
    def name(self) -> str:
        """The name of the table."""
        return self._name

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows as a PyCapsule with an ArrowArrayStream; the schema is always the table's own."""
        del requested_schema  # a producer may ignore it
        return self._report.stream(self._name)

    def to_arrow(self) -> Any:
        """Return the table as a ``pyarrow.Table``.

        Raises:
            ImportError: PyArrow is missing or older than 15.
        """
        pyarrow = _needed("pyarrow", "to_arrow()")
        if not hasattr(pyarrow.RecordBatchReader, "from_stream"):
            raise ImportError(tr("to_arrow() needs pyarrow 15 or newer, found {}").format(pyarrow.__version__))
        return pyarrow.RecordBatchReader.from_stream(self).read_all()

    def to_pandas(self) -> Any:
        """Return the table as a ``pandas.DataFrame``.

        Texts that repeat are categories. Integers that may be missing have a nullable type (``pandas.UInt32Dtype``, ``pandas.Int64Dtype``).

        Raises:
            ImportError: pandas is missing, or PyArrow is missing or older than 15.
        """
        pandas = _needed("pandas", "to_pandas()")
        pyarrow = _needed("pyarrow", "to_pandas()")
        table = self.to_arrow()
        nullable = {
            pyarrow.uint32(): pandas.UInt32Dtype(),
            pyarrow.uint64(): pandas.UInt64Dtype(),
            pyarrow.int64(): pandas.Int64Dtype(),
        }
        frame = table.to_pandas()
        for field in table.schema:
            if field.nullable and field.type in nullable:
                frame[field.name] = table[field.name].to_pandas(types_mapper=nullable.get)
        return frame

    def __repr__(self) -> str:
        return f"<vram.ReportTable {self._name!r}>"


def _needed(package: str, by: str) -> Any:
    """Return an optional package.

    Raises:
        ImportError: It is missing.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        wanted = tr("pandas and pyarrow") if by == "to_pandas()" else "pyarrow"
        raise ImportError(
            tr("{} needs {}: pip install {}").format(by, wanted, wanted.replace(" and", "")), name=package
        ) from error
