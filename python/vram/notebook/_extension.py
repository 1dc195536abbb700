"""The extension of one IPython shell: its magics, and the hooks at both ends of each cell.

IPython runs the body of a cell magic inside of another function: top-level ``await`` fails there, and tracebacks contain the
magic's frames. ``%%vram`` is therefore a transformation of the input: its line becomes a statement that begins the
measurement, the cell runs as it would without it, and the hook after the cell ends the measurement.
"""

from __future__ import annotations

import ast
import re
from typing import Any

from IPython.core.error import UsageError
from IPython.core.inputtransformer2 import cell_magic

from vram._texts import tr
from vram.monitoring import summary
from vram.notebook._cell import MeasuredCell
from vram.notebook._options import CellOptions, parse_cell_options
from vram.notebook._status import StatusLine

_NAME = "vram"
_BEGIN = "vram_begin_cell"  # the magic that a cell with %%vram begins with
_STATUS = re.compile(r"status(?:\s+(\w+))?\s*")


class Extension:
    """The magics and hooks in a shell."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._depth = 0  # of cells that run cells
        self._cells: list[tuple[int, MeasuredCell]] = []  # with the depth at which each ends
        self._status: StatusLine | None = None
        shell.register_magic_function(self._magic, "line_cell", _NAME)
        shell.register_magic_function(self._begin_cell, "line", _BEGIN)
        shell.input_transformers_cleanup.append(_transform)
        shell.events.register("pre_run_cell", self._before)
        shell.events.register("post_run_cell", self._after)

    def remove(self) -> None:
        """Remove everything that the extension added to the shell."""
        shell = self._shell
        while self._cells:
            self._cells.pop()[1].end(None)
        self._turn_status("off")
        shell.events.unregister("pre_run_cell", self._before)
        shell.events.unregister("post_run_cell", self._after)
        shell.input_transformers_cleanup.remove(_transform)
        for kind, name in (("line", _NAME), ("cell", _NAME), ("line", _BEGIN)):
            shell.magics_manager.magics[kind].pop(name, None)

    def _magic(self, line: str, cell: str | None = None) -> object:
        """Measure GPU memory: ``%%vram [OPTIONS]`` a cell, ``%vram STATEMENT`` a statement, whose value it returns.

        ``--quiet`` prints nothing; ``_vram`` is the measurement, a ``vram.Measurement``. ``--sync`` waits for the GPUs at both
        ends. ``--record FILE`` also records the cell, with ``--stacks python|native`` the origin of each request, and with
        ``--show`` its report is shown below the cell.

        ``%vram status on`` adds a line to the output that is updated after each cell, ``%vram status off`` stops it, and
        ``%vram`` alone prints what PyTorch's allocator holds now.
        """
        if cell is not None:  # by a program; in a cell, _transform() has replaced it
            self._shell.run_cell(f"%%{_NAME} {line}\n{cell}").raise_error()
            return None
        status = _STATUS.fullmatch(line.strip())
        if status:
            self._turn_status(status[1])
        elif not line.strip():
            print(summary(streams=False))
        else:
            return self._run_statement(line)
        return None

    def _turn_status(self, word: str | None) -> None:
        if word not in ("on", "off"):
            raise UsageError(tr("%vram status: expected on or off"))
        if word == "on" and self._status is None:
            self._status = StatusLine()
        elif word == "off" and self._status is not None:
            self._status.close()
            self._status = None

    def _run_statement(self, line: str) -> object:
        tree = ast.parse(self._shell.transform_cell(line))
        names, value = self._shell.user_ns, None
        measured = MeasuredCell("statement", CellOptions())
        error: BaseException | None = None
        try:
            if len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr):
                value = eval(compile(ast.Expression(tree.body[0].value), "<%vram>", "eval"), names)
            else:
                exec(compile(tree, "<%vram>", "exec"), names)
        except BaseException as raised:
            error = raised
            raise
        finally:
            names["_vram"] = measured.end(error)
        return value

    def _begin_cell(self, line: str) -> None:
        """Begin to measure this cell: what %%vram becomes."""
        self._cells.append((self._depth, MeasuredCell(self._cell_name(), parse_cell_options(line))))

    def _before(self, _info: object) -> None:
        self._depth += 1
        if self._status is not None and self._depth == 1:
            self._status.begin_cell(self._cell_name())

    def _after(self, result: Any) -> None:
        error = result.error_in_exec or result.error_before_exec
        while self._cells and self._cells[-1][0] >= self._depth:
            self._shell.user_ns["_vram"] = self._cells.pop()[1].end(error)
        self._depth = max(self._depth - 1, 0)  # the cell that loads the extension has only its end
        if self._status is not None and self._depth == 0:
            self._status.end_cell(error)

    def _cell_name(self) -> str:
        return f"cell [{self._shell.displayhook.prompt_count}]"


def _transform(lines: list[str]) -> list[str]:
    """Replace ``%%vram`` at the beginning of a cell by a statement in the same line, so that line numbers stay."""
    match = re.match(rf"%%{_NAME}(?![\w?])(.*)", lines[0]) if lines else None
    if match is None:
        return lines
    begin = f"get_ipython().run_line_magic({_BEGIN!r}, {match[1].strip()!r})\n"
    return [begin, *cell_magic(lines[1:])]  # the body may be of another magic: %%capture


_extensions: dict[int, Extension] = {}  # by the identity of the shell, which lives as long as its extension


def load(shell: Any) -> None:
    """Add the extension to a shell that lacks it."""
    if id(shell) not in _extensions:
        _extensions[id(shell)] = Extension(shell)


def unload(shell: Any) -> None:
    """Remove the extension from a shell."""
    extension = _extensions.pop(id(shell), None)
    if extension is not None:
        extension.remove()
