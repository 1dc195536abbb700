"""What @vram.monitor shows without set-up: one line on standard error, as long as nothing else shows it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BEGIN = f"""
import logging, sys
sys.path.insert(0, {str(ROOT / "python")!r})
import vram
"""
MEASURE = """
@vram.monitor
def step(): pass
step()
"""


def output_of(body: str) -> tuple[str, str]:
    done = subprocess.run([sys.executable, "-c", BEGIN + body], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout, done.stderr


def test_without_logging_the_line_is_on_standard_error() -> None:
    out, err = output_of(MEASURE)
    assert out == ""
    (line,) = err.splitlines()
    assert line.startswith("step: ")
    assert line.endswith("; GPU memory unknown: no framework that vram knows is imported")


def test_a_block_is_printed_too() -> None:
    _, err = output_of("with vram.monitor('load'):\n    pass")
    assert err.startswith("load: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("set_up", "lines"),
    [
        ("logging.basicConfig(level=logging.INFO, stream=sys.stdout)", 1),  # shown by the program's own handler
        ("logging.getLogger('vram').addHandler(logging.StreamHandler(sys.stdout))", 0),  # at its level, WARNING
    ],
)
def test_once_logging_is_set_up_the_line_is_not_printed(set_up: str, lines: int) -> None:
    out, err = output_of(set_up + MEASURE)
    assert (out.count("step: "), err) == (lines, "")


@pytest.mark.parametrize(
    "choice",
    [
        "logging.basicConfig()",
        "logging.disable(logging.INFO)",
        "logging.getLogger('vram').setLevel(logging.WARNING)",
        "logging.getLogger('vram').addHandler(logging.NullHandler())",
        "logging.lastResort = None",
        "vram.remove_sink(vram.log)",
        "vram.add_sink(lambda measurement: None)",
        "sys.stderr = None",
    ],
)
def test_who_chose_to_see_nothing_sees_nothing(choice: str) -> None:
    assert output_of(choice + MEASURE) == ("", "")


def test_setting_logging_up_later_moves_the_lines() -> None:
    body = MEASURE + "logging.basicConfig(level=logging.INFO, stream=sys.stdout)\nstep()"
    out, err = output_of(body)
    assert (out.count("step: "), err.count("step: ")) == (1, 1)


def test_a_failing_standard_error_disturbs_nobody() -> None:
    out, _ = output_of("sys.stderr.close()" + MEASURE + "print('done')")
    assert out == "done\n"
