"""The options of ``%%vram`` and the words of ``%vram``."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import dataclass
from typing import NoReturn

from IPython.core.error import UsageError

from vram._texts import tr


@dataclass(frozen=True)
class CellOptions:
    """The options of one cell."""

    record: str | None = None
    stacks: str | None = None
    shows_report: bool = False
    synchronizes: bool = False
    is_quiet: bool = False


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(tr("%%vram: {}; %%vram? lists the options").format(message))


_parser = _Parser(prog="%%vram", add_help=False, allow_abbrev=False)
_parser.add_argument("--record", metavar="FILE")
_parser.add_argument("--stacks", choices=["python", "native"])
_parser.add_argument("--show", dest="shows_report", action="store_true")
_parser.add_argument("--sync", dest="synchronizes", action="store_true")
_parser.add_argument("--quiet", dest="is_quiet", action="store_true")


def parse_cell_options(line: str) -> CellOptions:
    """Return the options of a line.

    Raises:
        UsageError: An option is unknown, or requires another one.
    """
    try:
        words = shlex.split(line)
    except ValueError as error:  # a quotation mark without its partner
        raise UsageError(f"%%vram: {error}") from error
    options = CellOptions(**vars(_parser.parse_args(words)))
    if options.record is None and (options.stacks or options.shows_report):
        raise UsageError(tr("%%vram: --stacks and --show need a recording: add --record FILE"))
    return options
