"""From marks of a step to the planner's chain, and from its answer to regions."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vram._error import VramError
from vram._installed import program
from vram._texts import tr
from vram.planning._region import CheckpointRegion

if TYPE_CHECKING:
    from vram.planning._measure import Step

# A time that no schedule accepts, in steps of the model: for what a chain cannot forbid. The planner takes no longer times than the second.
_FORBIDDEN_STEPS, _MAX_NS = 1000, 1 << 41


@dataclass(frozen=True)
class Costs:
    """What one way to run a block takes; peaks without its input and other blocks."""

    kept_bytes: int
    forward_ns: int
    backward_ns: int
    forward_peak_bytes: int
    backward_peak_bytes: int
    parameter_bytes: int  # gradients of parameters that its backward leaves


@dataclass(frozen=True)
class Solved:
    """A schedule: regions of several blocks, and the option with which each block runs before its backward pass."""

    regions: tuple[CheckpointRegion, ...]
    options: tuple[str, ...]
    time_ns: int
    peak_bytes: int


class TooSmall(Exception):
    """No schedule fits; `smallest_bytes` is the least that does, if it is known."""

    def __init__(self, smallest_bytes: int | None) -> None:
        super().__init__(smallest_bytes)
        self.smallest_bytes = smallest_bytes


def costs_of(step: Step, count: int) -> list[Costs]:
    """Return the costs of each block, and at last those of what follows the blocks, as they ran in this step."""
    marks, found = step.marks, []
    for number in range(count + 1):
        is_last = number == count
        begin, end = (f"after {count - 1}", "loss") if is_last else (f"before {number}", f"after {number}")
        entered = marks["loss"] if is_last else marks.get(f"gradient {number}")
        left = marks.get(f"gradient {number - 1}", marks["end"])
        output = 0 if is_last else step.border_bytes[number]
        gradient = output if entered is not None and not is_last else 0
        kept = marks[end].live_bytes - marks[begin].live_bytes
        # A block may keep a copy of its input. Then the input is freed as soon as the model replaces it by the block's result.
        if not is_last and number - 1 in step.freed_in_forward:
            kept -= step.border_bytes[number - 1]
        kept = max(output, kept)
        entered = entered or marks["loss"]
        base = entered.live_bytes - kept - gradient + (output if number in step.freed else 0)
        input_gradient = step.border_bytes[number - 1] if f"gradient {number - 1}" in marks else 0
        input_freed = step.border_bytes[number - 1] if number - 1 in step.freed else 0
        parameters = max(0, left.live_bytes + input_freed - input_gradient - base)
        found.append(
            Costs(
                kept,
                marks[end].time_ns - marks[begin].time_ns,
                max(0, left.time_ns - entered.time_ns),
                max(kept, marks[end].peak_bytes - marks[begin].live_bytes),
                max(left.peak_bytes - base, input_gradient + parameters, gradient),
                parameters,
            )
        )
    return found


def _forbidden_ns(step_ns: int) -> int:
    return min((step_ns + 1) * _FORBIDDEN_STEPS, _MAX_NS)


def time_of(costs: list[Costs]) -> int:
    """Return how long a step takes in its blocks and what follows them."""
    return sum(each.forward_ns + each.backward_ns for each in costs)


def _option(name: str, costs: Costs) -> dict[str, Any]:
    return {
        "name": name,
        "kept_bytes": costs.kept_bytes,
        "forward_ns": costs.forward_ns,
        "backward_ns": costs.backward_ns,
        "forward_peak_bytes": costs.forward_peak_bytes,
        "backward_peak_bytes": costs.backward_peak_bytes,
    }


def chain(
    names: list[str], step: Step, ways: dict[str, list[Costs]], again: list[Costs], *, is_single: bool
) -> dict[str, Any]:
    """Return the chain (vram.chain/1) of a step.

    Args:
        names: The names of the blocks.
        step: A step, for what all have in common.
        ways: By the name of an option, what each block takes that way, and what follows the blocks. The first keeps everything.
        again: What each block takes where it runs without keeping anything, and runs again.
        is_single: There are no regions of several blocks.
    """
    count = len(names)
    kept = next(iter(ways.values()))
    step_ns = time_of(kept)
    stages = []
    for number, costs in enumerate(kept):
        is_last = number == count
        output = 0 if is_last else step.border_bytes[number]
        offered = [next(iter(ways))] if is_last else ways
        options = [_option(name, ways[name][number]) for name in offered]
        stages.append(
            {
                "name": "after" if is_last else names[number],
                "output_bytes": output,
                "gradient_bytes": output if f"gradient {number}" in step.marks else 0,
                "parameter_gradient_bytes": costs.parameter_bytes,
                "forward_ns": _forbidden_ns(step_ns) if is_single or is_last else again[number].forward_ns,
                "forward_peak_bytes": max(output, again[number].forward_peak_bytes),
                "options": options,
            }
        )
        for option in options:  # parameters may get their gradients elsewhere in another step
            least = costs.parameter_bytes + (
                step.border_bytes[number - 1] if f"gradient {number - 1}" in step.marks else 0
            )
            option["backward_peak_bytes"] = max(option["backward_peak_bytes"], least)
    has_gradient = "gradient -1" in step.marks
    first = step.border_bytes[-1]
    return {
        "schema": "vram.chain/1",
        "fixed_bytes": max(0, step.marks["before 0"].live_bytes - first),
        "input_bytes": first,
        "input_gradient_bytes": first if has_gradient else 0,
        "stages": stages,
    }


def solve(document: dict[str, Any], budget_bytes: int, *, is_single: bool) -> Solved:
    """Ask the planner (vram plan).

    Raises:
        TooSmall: Nothing fits.
        VramError: The program failed.
    """
    with tempfile.TemporaryDirectory(prefix="vram-plan-") as folder:
        path = Path(folder) / "chain.json"
        path.write_text(json.dumps(document))
        command = [str(program()), "plan", str(path), "--budget", f"{budget_bytes}B", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 1:
        smallest = re.search(r"smallest budget for this chain is .*?\((\d+) bytes\)", done.stderr.replace("\n", " "))
        raise TooSmall(int(smallest[1]) if smallest else None)
    if done.returncode != 0:
        raise VramError(tr("vram plan failed: {}").format(done.stderr.strip() or done.returncode))
    plan = json.loads(done.stdout)
    step_ns = sum(o["forward_ns"] + o["backward_ns"] for o in (stage["options"][0] for stage in document["stages"]))
    if plan["time_ns"] > _forbidden_ns(step_ns) // 2 or plan["regions"] is None:
        raise TooSmall(None)
    options = tuple(stage["option_name"] for stage in plan["stages"][:-1])
    return Solved(() if is_single else _nested(plan["regions"]), options, plan["time_ns"], plan["peak_bytes"])


def _nested(flat: list[dict[str, Any]]) -> tuple[CheckpointRegion, ...]:
    def inside(parent: int | None) -> tuple[CheckpointRegion, ...]:
        return tuple(
            CheckpointRegion(each["first"], each["last"], parts=inside(index))
            for index, each in enumerate(flat)
            if each["parent"] == parent and each["option"] is None
        )

    return inside(None)
