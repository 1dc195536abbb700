"""Checks of the values of arguments, in the words of one message each."""

from __future__ import annotations

from collections.abc import Collection

from vram._texts import tr


def require_at_least(minimum: int, **arguments: int | None) -> None:
    """Raise ValueError if an argument is below the minimum; None is a default."""
    for name, value in arguments.items():
        if value is not None and value < minimum:
            raise ValueError(tr("expected {} to be at least {}, got {!r}").format(name, minimum, value))


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
