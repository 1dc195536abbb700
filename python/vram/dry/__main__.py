"""``python -m vram.dry [OPTIONS] SCRIPT [ARGUMENTS]``: a dry run of a script, which stops after some steps of its optimizer."""

from __future__ import annotations

import argparse
import ast
import json
import os
import runpy
import sys
from dataclasses import asdict
from typing import Any

from vram._error import VramError
from vram.dry._dry_run import DryRun, dry_run


class _EnoughSteps(BaseException):
    """Ends the script. Scripts catch exceptions, and this is not one of theirs."""


def _assumption(text: str) -> tuple[str, Any]:
    line, _, value = text.rpartition("=")
    try:
        return line, ast.literal_eval(value)
    except (SyntaxError, ValueError):
        raise argparse.ArgumentTypeError(f"'{text}': expected FILE:LINE=NUMBER, such as train.py:42=0.5") from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m vram.dry", description="Predict a script's GPU memory without a GPU."
    )
    parser.add_argument("--gpu", default="H200", help="name of a GPU, or its memory: 24GiB (default: H200)")
    parser.add_argument("--steps", type=int, default=2, help="stop after so many steps of the optimizer (default: 2)")
    parser.add_argument("--trace", default="dry.vtrace", help="the trace to write (default: dry.vtrace)")
    parser.add_argument("--allocator", help="as for vram replay (default: PyTorch's)")
    parser.add_argument("--world-size", type=int, default=1, help="number of ranks (default: 1)")
    parser.add_argument(
        "--assume", type=_assumption, action="append", default=[], metavar="FILE:LINE=VALUE",
        help="what to assume where the script reads values of the GPU; may be repeated",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    return parser


def _run_script(run: DryRun, script: str, arguments: list[str], steps: int) -> None:
    """Run a script as the interpreter does, until its optimizer has stepped `steps` times."""

    def stop(number: int) -> None:
        if number >= steps:
            raise _EnoughSteps

    sys.argv = [script, *arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    with run:
        run.on_step(stop)
        try:
            runpy.run_path(script, run_name="__main__")
        except _EnoughSteps:
            pass
        except SystemExit as end:
            if end.code not in (None, 0):
                raise


def _result(run: DryRun) -> dict[str, Any]:
    fits = run.fits
    return {
        "schema": "vram.dry/1",
        "trace": str(run.trace_path),
        "steps": run.steps,
        "peak": asdict(run.peak),
        "fits": {"fits": bool(fits), **asdict(fits)},
        "unknown_operators": run.unknown_operators,
    }


def main(arguments: list[str]) -> int:
    """Return the exit code: 0 fits, 1 may not fit, 2 bad usage or a program that a dry run cannot follow."""
    options = _parser().parse_args(arguments)
    try:
        run = dry_run(
            options.gpu,
            path=options.trace,
            assume=dict(options.assume),
            allocator=options.allocator,
            world_size=options.world_size,
        )
        try:
            _run_script(run, options.script, options.arguments, options.steps)
        except RuntimeError as error:
            if type(error).__name__ != "OutOfMemoryError":
                raise
            print(f"the script ran out of memory: {error}", file=sys.stderr)
        print(json.dumps(_result(run), indent=2) if options.json else str(run))
        return 0 if run.fits else 1
    except (VramError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
