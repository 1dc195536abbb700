"""Checks of the values of arguments, in the words of one message each."""

from __future__ import annotations

import operator
from collections.abc import Collection

from vram._texts import tr

MAX_INT32 = 2**31 - 1
MAX_UINT32 = 2**32 - 1
MAX_INT64 = 2**63 - 1


def require_integers(minimum: int, maximum: int = MAX_INT64, **arguments: int | None) -> None:
    """Raise ValueError if an argument is out of the range, and TypeError if it is no integer; None is a default.

    Libraries take the lowest bits of numbers that their types cannot hold, so each integer of a caller is checked here.
    """
    for name, value in arguments.items():
        if value is None:
            continue
        try:
            number = operator.index(value)
        except TypeError:
            raise TypeError(
                tr("expected {} to be an integer, got {!r} ({})").format(name, value, type(value).__name__)
            ) from None
        if number < minimum and maximum == MAX_INT64:
            raise ValueError(tr("expected {} to be at least {}, got {!r}").format(name, minimum, value))
        if not minimum <= number <= maximum:
            raise ValueError(tr("expected {} to be from {} to {}, got {!r}").format(name, minimum, maximum, value))


def require_fraction(**arguments: float) -> None:
    """Raise ValueError if an argument is not more than 0 and at most 1."""
    for name, value in arguments.items():
        if not 0 < value <= 1:
            raise ValueError(
                tr("expected {} to be a fraction, more than 0 and at most 1, got {!r}").format(name, value)
            )


def require_one_of(choices: Collection[object], **arguments: object) -> None:
    """Raise ValueError if an argument is none of the choices."""
    for name, value in arguments.items():
        if value not in choices:
            raise ValueError(
                tr("expected {} to be one of {}, got {!r}").format(name, ", ".join(map(repr, choices)), value)
            )
