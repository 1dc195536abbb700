"""What a dry run answers: peaks, whether the program fits, and what holds the memory."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from vram.dry import _program

# The standard deviation of the predicted least memory, as a share of it: of programs that can do with nothing less than they request, of others whose
# kernels are known, of those whose convolutions cuDNN answered about for a GPU that is not there, of those whose convolutions are estimated, and at
# most of those that have operators without rules. A "yes" leaves room for 2.9 of them: 0.6 %, 1.2 %, 1.9 %, 4.9 % and 14 %. The least memory of 75
# of the first kind, with which 0.6 % was chosen, was found by bisection, to half a percent: one failed with 0.1 % more than predicted, none with more.
# Of 68 of the second and the third kind, none needed more than 1.8 % above the prediction, and four more than 0.7 % (bench/prediction).
_ERROR_FIXED, _ERROR, _ERROR_DESCRIBED, _ERROR_AT_LIMIT, _ERROR_OF_UNKNOWN = 0.002, 0.004, 0.0065, 0.017, 0.05
# The first two of them if the least memory is that of several layouts of addresses (_least.py): room for 0.3 %. It was chosen with 31 least memories
# of PyTorch's default allocator that were found by bisection: six were above the prediction then, by at most 0.27 %.
_ERROR_OF_LAYOUTS = 0.001
# The same, and in bytes, if besides no kernel has a choice of how much it takes: replays of such programs end as they do on a GPU. Of 471 runs of 109 of
# them near their least memory, 290 of the 291 ended that a replay with exactly as much completes, and 17 of the other 180 (bench/prediction).
# The bytes are for what is outside of the allocator: of 28 programs, three had up to 4 MiB more there than predicted.
_ERROR_OF_EXACT, _ERROR_BYTES_OF_EXACT = 0.0003, 8 << 20
# An operator without rules adds this and its operands and results to the deviation, which leaves room for 2.9 times as much. Of the operators of
# bench/prediction besides convolutions and recurrent layers, 307 of 322 need less in all calls that were measured; most others are reductions,
# which have rules.
_UNKNOWN_BYTES = 24 << 20
# The same in bytes. Of 236 runs with a room of 1.2 % and nothing more, six failed, four of them with less than 0.9 GB. With 16 MiB, which leaves room
# for 46, one of 136 programs failed with 1,777 MB, and ran once with 1,795: by replays, its least memory as a memory fraction, which the runs had, is
# 1,782 MB, and was 1,722 MB as predicted then, as that of a GPU (_least.py). So its runs do not show that 16 MiB are too few; 24 stayed.
_ERROR_BYTES = 24 << 20
# The same as a share of the bytes that the program can do without, where cuDNN has not been asked: some plans still need a workspace. Least memory
# was up to 6.6 % above the prediction where 15 % could be done without (video, fp32, batch 12), and 8.6 % where it was 45 % (actor_critic).
_ERROR_OF_SPARED = 0.16
# The same of what an estimated operator cannot do without. Of 1,469 probes of recurrent layers, 95 % need at most 2 % more, and one in a
# thousand 8 %, which is 2.9 of these deviations.
_ERROR_OF_ESTIMATES = 0.028
# The probability from which a dry run says that a program fits: at most one of 500 such answers may be wrong.
_PROMISED = 0.998
# The amounts of memory that are replayed to find whether a program fits, in standard deviations from that of the GPU.
_NEAR = [each / 2 for each in range(-6, 7)]


@dataclass(frozen=True)
class DryRunPeak:
    """The most memory at one time.

    Attributes:
        requested_bytes: What the program's tensors and kernels asked for.
        reserved_bytes: What PyTorch's allocator took from the GPU.
        device_bytes: The same with the CUDA context and the modules of kernels.
    """

    requested_bytes: int
    reserved_bytes: int
    device_bytes: int


@dataclass(frozen=True)
class DryRunFits:
    """Whether the program fits; it is true or false itself.

    Attributes:
        probability: That it runs without an out-of-memory error.
        needed_bytes: The least memory of a GPU that the program runs with, as with all more that was tried, context and modules included, or
            the GPU's where it fits and somewhat more fails; until it ran out of memory, if it ended by that.
        total_bytes: The memory of the GPU, or what the program lets itself have of it (torch.cuda.set_per_process_memory_fraction()), context
            and modules included.
    """

    probability: float
    needed_bytes: int
    total_bytes: int

    def __bool__(self) -> bool:
        return self.probability >= _PROMISED


def error_of(
    needed_bytes: int,
    estimated_bytes: int,
    spared_bytes: int | None,
    unknown_bytes: int | None,
    *,
    is_described: bool = False,
    is_fixed: bool = False,
    tries_layouts: bool = False,
) -> float:
    """Return the standard deviation of the predicted least memory, as a share of it.

    Args:
        needed_bytes: The least memory.
        estimated_bytes: The most that one operator takes whose memory is estimated, and cannot do without.
        spared_bytes: How much more the program would need if it could not do with less than it asks for; None: it cannot, or it is known with how much.
        unknown_bytes: The operands and results of the largest call of an operator without rules; None: all operators have rules.
        is_described: cuDNN answered for the description of a GPU.
        is_fixed: No kernel has a choice of how much it takes.
        tries_layouts: The least memory is enough with several layouts of addresses.
    """
    known, known_bytes = _ERROR_FIXED if is_fixed else _ERROR, _ERROR_BYTES
    if is_described:
        known = _ERROR_DESCRIBED
    elif tries_layouts and is_fixed:
        known, known_bytes = _ERROR_OF_EXACT, _ERROR_BYTES_OF_EXACT
    elif tries_layouts:
        known = _ERROR_OF_LAYOUTS
    parts = [known if spared_bytes is None else _ERROR_AT_LIMIT]
    shares = (1.0, known_bytes), (_ERROR_OF_ESTIMATES, estimated_bytes), (_ERROR_OF_SPARED, spared_bytes or 0)
    for share, size_bytes in shares:
        parts.append(share * size_bytes / max(1, needed_bytes))
    if unknown_bytes is not None:
        parts.append(min(_ERROR_OF_UNKNOWN, (unknown_bytes + _UNKNOWN_BYTES) / max(1, needed_bytes)))
    return math.hypot(*parts)


def fits_on(total_bytes: int, needed_bytes: int, error: float) -> DryRunFits:
    """Return whether a program fits that is predicted to need so much, with this standard deviation as a share of it."""
    return DryRunFits(_normal((total_bytes - needed_bytes) / (max(1, needed_bytes) * error)), needed_bytes, total_bytes)


def fits_near(
    total_bytes: int,
    needed_bytes: int,
    error: float,
    shares_completed: Callable[[list[int]], list[float]],
    failed_bytes: int,
) -> DryRunFits:
    """Return the same by replays with that much memory, and with so much more and less as the prediction may be wrong by.

    The least memory is above all amounts that fail, and some of them may be so far above `total_bytes` that they say nothing about it.
    `shares_completed` returns the shares of layouts of addresses with which the program completes, for amounts of memory. `failed_bytes` is the
    largest amount that is known to fail; if it is near, it counts, too, since it may be between the others.
    """
    fits = fits_on(total_bytes, needed_bytes, error)
    if fits or not any(shares_completed([total_bytes])):
        return fits
    deviation = max(1, needed_bytes) * error
    failed = (failed_bytes - total_bytes) / deviation
    near = sorted({*_NEAR, failed} if _NEAR[0] < failed < _NEAR[-1] else _NEAR)
    shares = shares_completed([max(0, total_bytes + round(each * deviation)) for each in near])
    # Each share counts for the errors that are closest to its own.
    limits = [-math.inf, *((low + high) / 2 for low, high in zip(near, near[1:])), math.inf]
    weights = (_normal(high) - _normal(low) for low, high in zip(limits, limits[1:]))
    fits = DryRunFits(sum(map(operator.mul, weights, shares)), needed_bytes, total_bytes)
    return replace(fits, needed_bytes=min(needed_bytes, total_bytes)) if fits else fits


def _normal(deviations: float) -> float:
    """Return the probability that an error is less than so many standard deviations."""
    return 0.5 * (1 + math.erf(deviations / math.sqrt(2)))


@dataclass(frozen=True)
class DryRunContribution:
    """A part of the requested bytes at their peak.

    Attributes:
        name: A parameter, a module, or another scope of the program.
        category: "parameter", "gradient", "optimizer state", "activation", "temporary", or another name.
        requested_bytes: What its blocks asked for.
        blocks: Their number.
        formula: The bytes as a function of the program's sizes, such as "16384·batch·sequence"; None: unknown.
    """

    name: str
    category: str
    requested_bytes: int
    blocks: int
    formula: str | None = None


def contributions(moment: dict[str, Any]) -> list[DryRunContribution]:
    """Return what holds the requested bytes of a moment, largest first."""
    found = []
    for holder in _program.holders(moment):
        name, _, category = holder["name"].rpartition(" · ")
        size_bytes, blocks = holder["requested_bytes"], holder["count"]
        found.append(DryRunContribution(name or category, category if name else "other", size_bytes, blocks))
    return found


def module_of(part: DryRunContribution, depth: int | None) -> str:
    """Return the module: layers.7.mlp of "layers.7.mlp.weight" and of "forward/GPT/layers.7/layers.7.mlp"."""
    name = part.name.rpartition("/")[2]
    if "/" not in part.name and part.category in ("parameter", "gradient", "optimizer state"):
        parts = name.split(".")
        name = ".".join(parts[: -2 if part.category == "optimizer state" else -1])
    if depth is not None:
        name = ".".join(name.split(".")[:depth])
    return name or "outside modules"
