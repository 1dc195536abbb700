"""Whole numbers of steps."""

from __future__ import annotations


def ceil_div(value: int, divisor: int) -> int:
    """Return the quotient, rounded up."""
    return -(-value // divisor)


def round_up(value: int, step: int) -> int:
    """Return the smallest multiple of `step` that is not below `value`."""
    return ceil_div(value, step) * step
