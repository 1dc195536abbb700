"""``python -m vram.dry [OPTIONS] SCRIPT [ARGUMENTS]``: a dry run of a script, which stops after some steps of its optimizer.

``vram run --dry`` puts it in front of a program's own command line.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import runpy
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from types import TracebackType
from typing import Any, NoReturn

from vram._arguments import require_integers
from vram._error import VramError
from vram._texts import tr
from vram.dry import _unsaved, _values
from vram.dry._dry_run import DryRun, dry_run
from vram.dry._ranks import launched, missing
from vram.dry._repeat import STEPS, STEPS_WITH_STATES, stopped_after

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_FITS, _FAILED, _CANNOT_FOLLOW = 0, 1, 2  # exit codes
_MAX_WAIT_SECONDS = 10.0  # for threads of the script after the results


def _assumption(text: str) -> tuple[str, Any]:
    try:
        return _values.assumption(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m vram.dry", description=tr("Predict a script's GPU memory without a GPU.")
    )
    parser.add_argument("--gpu", default="H200", help=tr("name of a GPU, or its memory: 24GiB (default: H200)"))
    parser.add_argument(
        "--steps",
        type=int,
        default=STEPS,
        help=tr("stop after so many steps of the optimizer (default: {})").format(STEPS),
    )
    parser.add_argument("-o", "--output", metavar="FILE", help=tr("keep the trace in this file: dry.vtrace"))
    parser.add_argument("--allocator", help=tr("as for vram replay (default: PyTorch's)"))
    parser.add_argument("--world-size", type=int, help=tr("number of ranks (default: 1)"))
    parser.add_argument("--raise-oom", action="store_true", help=tr("let the script run out of memory as on the GPU"))
    parser.add_argument(
        "--assume", type=_assumption, action="append", default=[], metavar="FILE:LINE=VALUE",
        help=tr("what to assume where the script reads values of the GPU; may be repeated"),
    )  # fmt: skip
    parser.add_argument(
        "--json",
        action="store_true",
        help=tr("print the results as JSON; what the script prints goes to standard error"),
    )
    parser.add_argument("-m", dest="is_module", action="store_true", help=tr("SCRIPT is the name of a module"))
    parser.add_argument("script", metavar="SCRIPT")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGUMENTS")
    return parser


@contextlib.contextmanager
def _printing_to_standard_error() -> Iterator[None]:
    """Let what the script, its libraries and its children print go to standard error: standard output is for the results."""
    sys.stdout.flush()
    standard_output = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        if sys.__stdout__ is not None:
            sys.__stdout__.flush()
        os.dup2(standard_output, 1)
        os.close(standard_output)


def _run_script(script: str, arguments: list[str], is_module: bool) -> None:
    """Run a script as the interpreter does."""
    sys.argv = [script, *arguments]
    if not getattr(sys.flags, "safe_path", False):  # python -P
        sys.path[0] = os.getcwd() if is_module else os.path.dirname(os.path.abspath(script))
    try:
        if is_module:
            runpy.run_module(script, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            raise


def _since_script(trail: TracebackType | None) -> TracebackType | None:
    """Return the part of a traceback that begins with the script's first frame."""
    while trail is not None and trail.tb_frame.f_globals.get("__name__") != "runpy":
        trail = trail.tb_next
    while trail is not None and trail.tb_frame.f_globals.get("__name__") == "runpy":
        trail = trail.tb_next
    return trail


@contextlib.contextmanager
def _warning_of_the_run() -> Iterator[None]:
    """Print warnings of the run as a whole without a line: it is none of the script, which the user wants to see."""
    before = warnings.formatwarning

    def formatted(message: Any, category: Any, filename: str, lineno: int, line: str | None = None) -> str:
        if filename.startswith(_PACKAGE):
            return tr("warning: {}").format(message) + "\n"
        return before(message, category, filename, lineno, line)

    warnings.formatwarning = formatted
    try:
        yield
    finally:
        if warnings.formatwarning is formatted:  # the script may have its own
            warnings.formatwarning = before


def _print_until_then(run: DryRun) -> None:
    """Print what a script that cannot go on has needed until then, if its optimizer has states."""
    with contextlib.suppress(VramError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if run.steps >= STEPS_WITH_STATES:
            print(tr("until then, {} steps of the optimizer: {}").format(run.steps, run), file=sys.stderr)


def _result(run: DryRun, trace: str | None) -> dict[str, Any]:
    fits = run.fits
    return {
        "schema": "vram.dry/1",
        "trace": trace,
        "steps": run.steps,
        "peak": asdict(run.peak),
        "fits": {"fits": bool(fits), **asdict(fits)},
        "unknown_operators": run.unknown_operators,
    }


def main(arguments: list[str]) -> int:
    """Return the exit code: 0 fits; 1 may not fit, or the script failed; 2 bad usage, or a program that a dry run cannot follow."""
    options = _parser().parse_args(arguments)
    try:
        if not (options.is_module or os.path.exists(options.script)):
            raise ValueError(tr("no file {}").format(options.script))
        require_integers(1, steps=options.steps)
        run = dry_run(
            options.gpu,
            path=options.output,
            assume=dict(options.assume),
            allocator=options.allocator,
            world_size=1 if options.world_size is None else options.world_size,
            raise_oom=options.raise_oom,
        )
    except ValueError as error:
        print(tr("error: {}").format(error), file=sys.stderr)
        return _CANNOT_FOLLOW
    with _warning_of_the_run():
        return _run(run, options)


def _run(run: DryRun, options: argparse.Namespace) -> int:
    _values.runs_as = "script"
    results = sys.stdout  # which the script may replace
    try:
        prints = _printing_to_standard_error() if options.json else contextlib.nullcontext()
        variables = contextlib.nullcontext() if options.world_size is None else launched(options.world_size)
        with prints, variables, run, stopped_after(run, options.steps):
            _run_script(options.script, options.arguments, options.is_module)
    except VramError as error:
        print(tr("error: {}").format(error), file=sys.stderr)
        _print_until_then(run)
        return _CANNOT_FOLLOW
    except Exception as error:
        traceback.print_exception(type(error), error, _since_script(error.__traceback__))
        variable = missing(error)
        if variable is not None:
            print(
                tr(
                    "a launcher, such as torchrun, sets {}: run the script with python -m vram.dry --world-size 1, or with the number of its ranks"
                ).format(variable),
                file=sys.stderr,
            )
        if _unsaved.is_of_what_was_left_out(error):
            print(
                tr(
                    "a dry run saves nothing: if the file is one that the program was to save, leave saving and loading out of the dry run"
                ),
                file=sys.stderr,
            )
        if type(error).__name__ != "OutOfMemoryError":
            _print_until_then(run)
            return _FAILED
    finally:
        _values.runs_as = "run"
    try:
        result = json.dumps(_result(run, options.output), indent=2) if options.json else str(run)
    except VramError as error:
        print(tr("error: {}").format(error), file=sys.stderr)
        return _CANNOT_FOLLOW
    print(result, file=results)
    return _FITS if run.fits else _FAILED


def end_with(code: int) -> NoReturn:
    """End the process with this exit code, also if threads of the script wait forever, as for an item of a queue: it was stopped before it ended them."""
    threading.Thread(target=_end_later, args=(code,), daemon=True).start()
    sys.exit(code)


def _end_later(code: int) -> None:
    time.sleep(_MAX_WAIT_SECONDS)
    main_thread = threading.main_thread()
    left = [each.name for each in threading.enumerate() if each is not main_thread and not each.daemon]
    if left:
        print(
            tr("warning: {}").format(tr("threads of the script have not ended: {}").format(", ".join(left))),
            file=sys.stderr,
        )
        for each in (sys.stdout, sys.stderr):
            each.flush()
        os._exit(code)


if __name__ == "__main__":
    end_with(main(sys.argv[1:]))
