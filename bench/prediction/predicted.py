"""What the dry run of a program predicts, as a sequence of blocks that compare.py aligns with a recording."""

from __future__ import annotations

import json
import runpy
import sys
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class Block:
    """One allocation: its bytes, who made it, and how many events of its sequence it lived."""

    size_bytes: int
    label: str
    line: str = ""
    call: str = ""
    born: int = 0
    lifetime: int | None = None


@dataclass
class Sequence:
    """The allocations of a program in their order, and the peak of requested bytes."""

    blocks: list[Block]
    peak_bytes: int
    start_bytes: int
    peak_event: int = 0
    reserved_peak_bytes: int = 0  # with PyTorch's default settings; 0: unknown
    refused_limit_bytes: int | None = None  # the limit at which a request failed

    def alive_at_peak(self) -> list[Block]:
        """Returns the blocks of the sequence that lived when the peak was reached."""
        at = self.peak_event
        return [x for x in self.blocks if x.born <= at and (x.lifetime is None or x.born + x.lifetime > at)]


# ------------------------------------------------------------------------------------------------ recordings


class _Finished(BaseException):
    """Ends the script."""


def _users_line() -> str:
    """Returns the innermost line that is neither of PyTorch's nor of vram's."""
    frame = sys._getframe(1)
    while frame is not None and (
        "/torch/" in (name := frame.f_code.co_filename) or "/vram/" in name or name == __file__
    ):
        frame = frame.f_back  # type: ignore[assignment]
    return "" if frame is None else f"{'/'.join(Path(frame.f_code.co_filename).parts[-2:])}:{frame.f_lineno}"


def _log_class() -> Any:
    """Returns a Tape that also keeps its allocations. vram is imported when a program runs, not before."""
    from vram.dry._tape import Tape

    class Log(Tape):
        def __init__(self, path: Path, limit_bytes: int | None) -> None:
            super().__init__(path, limit_bytes)
            self.label = self.call = ""
            self._live: dict[int, Block] = {}
            self._events = 0
            self._total = 0
            self.restart()

        def restart(self) -> None:
            """Starts to count here; what lives, stays."""
            self.found = Sequence([], self._total, self._total)
            reserved = self.placement(0).reserved
            reserved.peak = reserved.now

        def allocate(
            self, device: int, size_bytes: int, stream: int, needed_bytes: tuple[int, ...] | None = None
        ) -> int:
            address = super().allocate(device, size_bytes, stream, needed_bytes)
            if device == 0:
                self._events += 1
                block = Block(size_bytes, self.label, _users_line(), self.call, self._events)
                self.found.blocks.append(block)
                self._live[address] = block
                self._total += size_bytes
                if self._total > self.found.peak_bytes:
                    self.found.peak_bytes, self.found.peak_event = self._total, self._events
            return address

        def free(self, device: int, address: int, size_bytes: int, stream: int) -> None:
            super().free(device, address, size_bytes, stream)
            if device == 0:
                self._events += 1
                block = self._live.pop(address)
                block.lifetime = self._events - block.born
                self._total -= size_bytes

        def close(self) -> None:
            self.found.reserved_peak_bytes = self.placement(0).reserved.peak
            self.found.refused_limit_bytes = self.refused_limit_bytes
            super().close()

    return Log


class _NoScopes:
    """Stands in for vram.dry._scopes.Scopes: names of modules are not needed here."""

    steps = 0

    def __init__(self, _after_step: Callable[[int], None]) -> None: ...
    def put_in_place(self, _patches: Any, _tape: Any) -> None: ...
    def stop(self) -> None: ...


def _label_allocations(mode_class: Any, logs: list[Any], calls: str) -> None:
    """Lets the log know the operator of each allocation, and describes the calls of those with `calls` in their names."""
    from journal import describe

    account, allocate = mode_class.account, mode_class.allocate_inside

    def labelled(mode: Any, func: Any, args: Any, kwargs: Any, outputs: Any) -> None:
        logs[0].label, logs[0].call = str(func), ""
        if calls and calls in logs[0].label:
            logs[0].call = json.dumps({"args": describe(args), "kwargs": describe(kwargs), "out": describe(outputs)})
        account(mode, func, args, kwargs, outputs)

    def inside(mode: Any, device: int, stream: int, found: Any) -> tuple[int, int]:
        before = logs[0].label
        logs[0].label = f"{before} [{found.purpose}]"
        try:
            return allocate(mode, device, stream, found)  # type: ignore[no-any-return]
        finally:
            logs[0].label = before

    mode_class.account, mode_class.allocate_inside = labelled, inside


def _run(script: str, arguments: list[str]) -> None:
    """Runs the script as `python SCRIPT ARGUMENTS` would, until it ends, fails or has done what is compared."""
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path(script).resolve().parent))
    try:
        runpy.run_path(script, run_name="__main__")
    except _Finished:
        pass
    except Exception:
        traceback.print_exc()
        print("the script failed; what follows is about its allocations until then")


def predicted(
    script: str,
    arguments: list[str],
    gpu: str,
    torch_version: str,
    trace: Path,
    stop_after: int = 0,
    assume: dict[str, Any] | None = None,
    calls: str = "",
) -> Sequence:
    """Returns what the dry run of a script predicts.

    Args:
        trace: where the dry run's trace is written, of the whole program.
        stop_after: ends the script after so many steps of its optimizers; 0: when it ends.
        calls: describes the calls of operators with this in their names.
    """
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook

    from vram.dry import _mode, _session
    from vram.dry._gpu import find_gpu

    logs: list[Any] = []
    log_class = _log_class()

    def new_log(path: Path, limit_bytes: int | None) -> Any:
        logs.append(log_class(path, limit_bytes))
        return logs[-1]

    def finish(*_arguments: Any, **_named: Any) -> Any:
        raise _Finished

    steps = [0]

    def stepped(*_arguments: Any) -> None:
        steps[0] += 1
        if steps[0] == stop_after:
            raise _Finished

    session_module: Any = _session
    session_module.Tape, session_module.Scopes = new_log, _NoScopes
    _label_allocations(_mode.DryMode, logs, calls)
    session = _session.Session(find_gpu(gpu), trace, assume or {}, 1, torch_version, raise_oom=True)
    session.enter()
    memory: Any = torch.cuda.memory
    memory._record_memory_history = lambda *_arguments, **_named: logs[0].restart()
    memory._snapshot = torch.cuda.memory_stats = finish
    register_optimizer_step_post_hook(stepped)
    _run(script, arguments)
    found: Sequence = logs[0].found
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session.leave()
    if session.unknown_operators:
        print("operators without rules:", ", ".join(sorted(session.unknown_operators)))
    return found


# ------------------------------------------------------------------------------------------------ alignment
