"""Values that a program reads from tensors of the GPU, of which a dry run has none.

A floating-point number is most often read to be logged: it becomes an `Unknown`, which calculates and prints, and raises where
the program would decide something by it. A size that depends on values, and a whole number, is the largest possible one, if that
is known (_bounds.py). Every other value has to be assumed by the user, because the memory of the rest of the program may depend on it.
"""

from __future__ import annotations

import ast
import contextlib
import math
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal

from vram._error import VramError
from vram._texts import tr
from vram.dry._lines import (
    forget_warnings,
    is_of_library,
    key_of,
    programs_frame,
    users_frame,
    users_frames,
    users_line,
    warn,
)
from vram.dry._readers import (
    LIBRARIES,
    METRICS,
    NEGATED,
    PRETENDED,
    is_formatting,
    is_in,
    is_logged,
    is_normalizing,
    is_of,
    read_by_torch,
)

if TYPE_CHECKING:
    from vram.dry._bounds import Largest

_MAX_SIZE = (1 << 31) - 1  # of a result whose size has no other limit


class DryRunError(VramError):
    """A dry run cannot continue here. The text names the operator, the line of the program, and the ways out."""


class Unknown(float):
    """A number that is not known. It calculates and prints; comparing it is an error.

    Attributes:
        line: Where it was read, or the number that it was calculated from: "train.py:42".
        largest: The largest that a count may be, which it is as a size; None: it is no count.
    """

    __slots__ = ("largest", "line")
    line: str
    largest: int | None

    def __new__(cls, value: float, line: str = "", largest: int | None = None) -> Unknown:
        made = super().__new__(cls, value)
        made.line, made.largest = line, largest
        return made

    def __reduce__(self) -> Any:
        return Unknown, (self.pretended, self.line, self.largest)

    @property
    def pretended(self) -> float:
        """The number that C code takes it for."""
        return float.__float__(self)

    def __float__(self) -> float:
        """Python's float() and NumPy call this. The result counts as known from then on, so a warning names the line, once."""
        line = users_line()
        if line not in _numbers_at:
            _numbers_at.add(line)
            warn(
                tr(
                    "the program makes a plain number of a value that a dry run does not compute, and continues with {}; state another with assume"
                ).format(self.pretended)
            )
        return self.pretended

    def __index__(self) -> int:
        if self.largest is None:
            raise TypeError("'float' object cannot be interpreted as an integer")
        return _as_largest(self.line, self.largest)

    def __str__(self) -> str:
        return "unknown"

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return "unknown"

    def __round__(self, digits: int | None = None) -> Any:  # type: ignore[override]
        if digits is None:
            raise _decides("int()", "128", self.line)
        return self


def unknown_here() -> Unknown:
    """Return a number that is not known, which the line that is running reads."""
    return Unknown(PRETENDED, key_of(users_frame()))


def _decides(what: str, example: str = "0.5", read_at: str = "") -> DryRunError:
    """Return the error of a program that decides by a value, which it has read at a line: here, unless another one is stated."""
    here = users_line()
    if read_at in ("", key_of(users_frame())):
        text = tr(
            "{}: {} of a value that was read from a tensor: the program decides by a value that a "
            "dry run does not compute; {}"
        ).format(here, what, _ways_out(example))
    else:
        text = tr(
            "{}: {} of a value that was read from a tensor at {}: the program decides by a value that a "
            "dry run does not compute; {}"
        ).format(here, what, read_at, _ways_out(example, read_at))
    return DryRunError(text)


# Who runs the program, and so how it is stated what to assume: a "run" of the program's own, `python -m vram.dry` ("script"), or pytest ("test").
runs_as: Literal["run", "script", "test"] = "run"


def assumption(text: str) -> tuple[str, Any]:
    """Return the line and the value of an assumption on a command line: "train.py:42=0.5".

    Raises:
        ValueError: It has another form.
    """
    line, _, value = text.rpartition("=")
    try:
        return line, ast.literal_eval(value)
    except (SyntaxError, ValueError):
        raise ValueError(tr("'{}': expected FILE:LINE=NUMBER, such as train.py:42=0.5").format(text)) from None


def _ways_out(example: str, line: str = "") -> str:
    caller = programs_frame() if not line and is_of_library(users_frame()) else None
    ways = _ways_out_at(line or key_of(users_frame()), example)
    if caller is None:
        return ways
    return tr("{}; what is assumed for {} holds for all that this line calls").format(ways, key_of(caller))


def _ways_out_at(line: str, example: str) -> str:
    if runs_as == "test":
        return tr(
            "state what to assume with @pytest.mark.vram(assume={{'{}': {}}}), --vram-assume {}={} or "
            "`with vram_peak.assume({}):` around it, or leave the line out of the test"
        ).format(line, example, line, example, example)
    if runs_as == "script":
        return tr("state what to assume with --assume {}={}, or leave the line out of the dry run").format(
            line, example
        )
    return tr(
        "state what to assume with vram.dry_run(..., assume={{'{}': {}}}) or `with "
        "run.assume({}):` around {}, or leave the line out of the dry run"
    ).format(line, example, example, line)


_INTEGERS = ("__int__", "__trunc__", "__floor__", "__ceil__")
_GROWING = ("__add__", "__radd__", "__mul__", "__rmul__")  # with which the largest value follows from that of a count
# By line: sizes, and whole numbers that the program reads, which count as the largest possible. Of the last dry run that began.
_largest_at: dict[str, int] = {}
_numbers_at: set[str] = set()  # lines that take an unknown number for a known one, of the same dry run


def _as_largest(line: str, largest: int) -> int:
    _largest_at[line] = max(largest, _largest_at.get(line, 0))
    return largest


def _calculating(name: str) -> Any:
    def calculate(self: Unknown, *others: Any) -> Any:
        try:
            result = getattr(float, name)(
                self.pretended, *(o.pretended if isinstance(o, Unknown) else o for o in others)
            )
        except ArithmeticError:
            if not any(isinstance(each, Unknown) for each in others):
                raise
            result = PRETENDED
        if not isinstance(result, float):
            return result
        other = others[0].largest if others and isinstance(others[0], Unknown) else next(iter(others), None)
        grows = name in _GROWING and self.largest is not None and isinstance(other, int) and other >= 0
        return Unknown(result, self.line, getattr(self.largest, name)(other) if grows else None)

    return calculate


def _deciding(name: str) -> Any:
    def decide(self: Unknown, *others: Any) -> Any:
        other = others[0] if others else None
        if other is self or (isinstance(other, float) and not math.isfinite(other)):  # the number counts as finite
            return getattr(float, name)(self.pretended, float.__float__(other))
        if name in _INTEGERS and self.largest is not None:
            return self.__index__()
        if name == "__int__" and is_formatting(sys._getframe(1)):
            return int(self.pretended)
        if name not in _INTEGERS and is_in(LIBRARIES):
            return True
        if name == "__bool__" and is_of(METRICS):  # whether there is something to count
            return True
        is_truth = name == "__bool__" and self.largest == 1
        example = "128" if name in _INTEGERS else "False" if is_truth else "0.5"
        raise _decides(f"{name.strip('_')}()", example, self.line)

    return decide


for _name in ("add", "sub", "mul", "truediv", "pow", "mod", "floordiv"):
    for _side in ("", "r"):
        setattr(Unknown, f"__{_side}{_name}__", _calculating(f"__{_side}{_name}__"))
for _name in ("__neg__", "__abs__", "__pos__"):
    setattr(Unknown, _name, _calculating(_name))
for _name in ("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__", "__bool__", *_INTEGERS):
    setattr(Unknown, _name, _deciding(_name))
Unknown.__hash__ = float.__hash__  # type: ignore[method-assign]


def _refuse_host(operator: str, of: Any, ways_out: str) -> None:
    """Raise the error of an operator that reads values of a tensor on the CPU, if the tensors that it has are all there."""
    from vram.dry._tensors import is_on_gpu, leaves  # imports torch

    tensors = list(leaves(of))
    if tensors and not any(map(is_on_gpu, tensors)):
        raise DryRunError(
            tr(
                "{}: {} reads values of a tensor on the CPU that a dry run does not compute: they come from the GPU, or from a large tensor that the "
                "program makes, as by torch.randn(), which would keep its values if NumPy made it; {}"
            ).format(users_line(), operator, ways_out)
        )


# size: what a program reads, and what it is answered, is one decision
class Values:
    """What a dry run answers if the program reads a value.

    Args:
        assume: By line of the program ("train.py:42"): the value that it reads there; or the size, as a number of elements or as a
            share of the largest possible one (a float up to 1), if an operator's result has a size that depends on values.
    """

    def __init__(self, assume: Mapping[str, Any]) -> None:
        for line in assume:
            name, _, number = line.rpartition(":")
            if not name or not number.isdigit():
                raise ValueError(tr("assume: expected lines such as 'train.py:42', found '{}'").format(line))
        self._assumed = dict(assume)
        self._here = threading.local()
        self._has_warned = False
        self.used: set[str] = set()  # the lines whose assumption was used
        self.largest_sizes: dict[str, int] = {}

    def begin(self) -> None:
        """Note from now on what counts as the largest possible."""
        global _largest_at
        _largest_at = self.largest_sizes
        forget_warnings()
        _numbers_at.clear()

    @contextlib.contextmanager
    def assuming(self, value: Any) -> Iterator[None]:
        before = getattr(self._here, "value", None)
        self._here.value = (value,)
        try:
            yield
        finally:
            self._here.value = before

    @property
    def has_assumption(self) -> bool:
        """Whether the user states what to assume at the line of the program that is running."""
        return self._assumption() is not None

    def _assumption(self) -> tuple[Any] | None:
        here: tuple[Any] | None = getattr(self._here, "value", None)
        return self._of_line(users_frame()) if here is None else here

    def _of_line(self, frame: FrameType | None) -> tuple[Any] | None:
        if frame is None:
            return None
        file = frame.f_code.co_filename
        for line, value in self._assumed.items():
            name, _, number = line.rpartition(":")
            if int(number) == frame.f_lineno and (file == name or file.endswith(os.sep + name)):
                self.used.add(line)
                return (value,)
        return None

    def _of_callers(self) -> tuple[Any] | None:
        """Return what the user states for a line that called the one that reads."""
        if not self._assumed:
            return None
        return next(filter(None, map(self._of_line, users_frames())), None)

    def read(
        self, operator: str, is_floating: bool, is_bool: bool = False, largest: Largest | None = None, *, of: Any = ()
    ) -> Any:
        """Return the value of a tensor with one element: of whole numbers the largest possible one, or a count that is not known.

        Raises:
            DryRunError: It has to be assumed.
        """
        assumption = self._assumption()
        if assumption is not None:
            return assumption[0]
        by_torch = read_by_torch(is_bool=is_bool)
        if by_torch is not None:
            return by_torch
        if is_bool and is_in(NEGATED):
            return False
        if is_bool and is_in(LIBRARIES):
            return True
        assumption = self._of_callers()
        if assumption is not None:
            return assumption[0]
        if is_bool and is_of(METRICS):
            return False
        if largest is not None and largest.number >= 0:
            line = key_of(users_frame())
            if largest.is_choice:
                return _as_largest(line, largest.number)
            return Unknown(PRETENDED, line, largest.number)
        if not is_floating:
            _refuse_host(operator, of, _ways_out("False" if is_bool else "1"))
            raise DryRunError(
                tr("{}: {} reads the value of a tensor on the GPU, which a dry run does not compute; {}").format(
                    users_line(), operator, _ways_out("False" if is_bool else "1")
                )
            )
        if not self._has_warned:
            self._has_warned = True
            warn(
                tr(
                    "the program reads a value from the GPU; a dry run computes none, and continues with an "
                    "unknown number, which prints as 'unknown' and cannot be compared"
                )
            )
        return unknown_here()

    def size(self, operator: str, largest: int | None, *, of: Any = ()) -> int:
        """Return the size of the result of an operator whose size depends on values: as the user states, or `largest`, which largest_sizes() then names.

        Raises:
            DryRunError: It has to be assumed, because no largest one is known.
        """
        assumption, of_callers = self._assumption(), self._of_callers()
        if assumption is None and of_callers is not None:
            value = of_callers[0]
            assumption = (min(value, largest) if isinstance(value, int) and largest is not None else value,)
        if assumption is None and largest is not None:
            return largest if is_normalizing() else _as_largest(key_of(users_frame()), largest)
        if assumption is None:
            _refuse_host(operator, of, _ways_out("128"))
            raise DryRunError(
                tr(
                    "{}: the size of the result of {} depends on values of a tensor on the GPU, which a dry "
                    "run does not compute; {}"
                ).format(users_line(), operator, _ways_out("128"))
            )
        value, limit = assumption[0], _MAX_SIZE if largest is None else largest
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0 or value > limit:
            raise DryRunError(
                tr("{}: expected a size from 0 to {} for {}, found {!r} in assume").format(
                    users_line(), limit, operator, value
                )
            )
        return round(value * limit) if isinstance(value, float) else value

    def deciding(self, operator: str) -> DryRunError:
        """Return the error of an operator whose result has a size that was read from a tensor."""
        return _decides(operator, "128")

    def fill(self, operator: str, largest: int | None, *, may_be_size: bool, of: Any = ()) -> Any:
        """Return what every element of a tensor is that is read as a whole.

        Libraries read images, scores and metrics so, whose memory is that of any values. Whole numbers of more than a byte may be sizes.

        Raises:
            DryRunError: It has to be assumed.
        """
        assumption = self._assumption() or self._of_callers()
        if assumption is not None:
            return assumption[0]
        if is_in(LIBRARIES) or is_logged() or (not may_be_size and is_of_library(users_frame())):
            warn(
                tr(
                    "the program reads values of a tensor that a dry run does not compute; they count as zeros, and its metrics are those of zeros"
                )
            )
            return 0
        if largest is not None:
            return _as_largest(key_of(users_frame()), largest)
        _refuse_host(operator, of, _ways_out("0"))
        raise DryRunError(
            tr(
                "{}: {} reads all values of a tensor on the GPU, which a dry run does not compute; compute what it "
                "needs from tensors on the CPU, which keep their values, or {}"
            ).format(users_line(), operator, _ways_out("0"))
        )

    def all(self, operator: str, *, of: Any = ()) -> DryRunError:
        """Return the error of an operator that reads all values of a tensor."""
        _refuse_host(operator, of, tr("leave the line out of the dry run"))
        return DryRunError(
            tr(
                "{}: {} reads all values of a tensor on the GPU, which a dry run does not compute; leave "
                "the line out of the dry run, or compute what it needs from tensors on the CPU, which "
                "keep their values"
            ).format(users_line(), operator)
        )
