"""The time of a dry run: everything that is put into PyTorch, in order, and taken out again."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import threading
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from vram._texts import tr
from vram.dry import (
    _cuda,
    _cudnn,
    _factories,
    _files,
    _flex,
    _guard,
    _nested,
    _parameters,
    _profiler,
    _reading,
    _tensor_types,
    _threads,
    _torchscript,
    _transformers,
    _workers,
)
from vram.dry._choices import Choices, convolution_format
from vram.dry._clock import Clock, Rates
from vram.dry._distributed import fake_ranks
from vram.dry._gpu import Gpu
from vram.dry._kernels import Kernels
from vram.dry._lines import warn
from vram.dry._mode import DryMode
from vram.dry._models import Parameter
from vram.dry._order import Order
from vram.dry._patches import Patches
from vram.dry._plans import Plans
from vram.dry._scopes import Scopes
from vram.dry._tape import Smaller, Tape
from vram.dry._values import Values
from vram.watching import _memory

_MAX_LINES = 8  # that a warning names
_entered = (
    threading.local()
)  # has the `session` that this thread has entered, until what belongs to the thread is taken back


def _settings() -> dict[str, Any]:
    """What kernels' memory depends on in addition to their arguments."""
    names = ("CUBLAS_WORKSPACE_CONFIG", "CUBLASLT_WORKSPACE_SIZE")
    settings: dict[str, Any] = {name: os.environ[name] for name in names if name in os.environ}
    settings["cudnn_benchmark"] = torch.backends.cudnn.benchmark
    settings["allow_tf32"] = torch.backends.cuda.matmul.allow_tf32
    return settings


class Session:
    """One dry run while it runs, and what is left of it."""

    def __init__(
        self,
        gpu: Gpu,
        path: Path,
        assume: Mapping[str, Any],
        world_size: int,
        torch_version: str | None,
        raise_oom: bool = False,
        has_stacks: bool = False,
    ) -> None:
        self._gpu, self._world_size, self._raise_oom = gpu, world_size, raise_oom
        self._has_stacks = has_stacks
        self._torch_version = torch_version or torch.__version__
        capability = f"sm_{gpu.capability[0]}{gpu.capability[1]}"
        self._plans = Plans.load(gpu, self._torch_version)
        self.kernels = Kernels.load(capability, self._torch_version, _settings(), self._plans)
        self.values = Values(assume)
        self._path = path
        self.on_step: Callable[[int], None] = lambda _number: None
        self._scopes = Scopes(lambda number: self.on_step(number))
        self._stack = contextlib.ExitStack()
        self._needs_gradients = torch.is_grad_enabled()
        self._left: list[Callable[[], object]] = []  # what that thread has to do still, because another one left

    @property
    def steps(self) -> int:
        return self._scopes.steps

    @property
    def lacks_states(self) -> bool:
        """Whether the optimizer's states appeared in the only step that ran."""
        return self._scopes.steps == 1 and self._scopes.has_states

    @property
    def refused_limit_bytes(self) -> int | None:
        """The limit at which a request failed; None: none failed."""
        return self._mode.tape.refused_limit_bytes

    @property
    def allowed_bytes(self) -> int | None:
        """What the program lets itself have of a GPU at its end; None: everything, or it continued when it met that limit."""
        allowed = self._mode.tape.allowed_bytes
        return None if allowed is None or self.refused_limit_bytes is not None else allowed + self.outside_bytes

    @property
    def devices(self) -> list[int]:
        """The devices of which the program has memory."""
        return self._mode.tape.devices

    @property
    def has_requests(self) -> bool:
        """Whether the program has requested memory of the GPU."""
        return self._mode.tape.has_requests

    @property
    def smaller(self) -> dict[tuple[int, int], Smaller]:
        """Of allocations that the program can do with less of: what it requests in turn, by their device and their number on it."""
        return self._mode.tape.smaller

    @property
    def peak_outside_optimizer_bytes(self) -> int:
        """The peak of requested bytes outside of the steps of optimizers."""
        return self._mode.tape.peak_outside_optimizer_bytes

    @property
    def unknown_operators(self) -> dict[str, str]:
        return self._mode.unknown_operators

    @property
    def largest_sizes(self) -> dict[str, int]:
        """By line: the size of a result that depends on values, and counts as the largest possible one."""
        return self.values.largest_sizes

    @property
    def estimated_operators(self) -> dict[str, str]:
        return self._mode.estimated_operators

    @property
    def estimated_bytes(self) -> int:
        """The most that one operator takes whose memory is estimated, and cannot do without."""
        return self._mode.estimated_bytes

    @property
    def unknown_bytes(self) -> int:
        """The most that one call of an operator without rules has as operands and results."""
        return self._mode.unknown_bytes

    @property
    def has_convolutions(self) -> bool:
        return self._mode.has_convolutions

    @property
    def outside_bytes(self) -> int:
        return self._mode.outside_bytes

    def parameters(self) -> dict[str, Parameter]:
        """Return the parameters of all models that were called, by name."""
        return self._scopes.parameters()

    @property
    def clock(self) -> Clock:
        return self._mode.clock

    def enter(self) -> None:
        """Raise VramError: a recording is running, the file cannot be written, or PyTorch requires a GPU."""
        _take_back()
        context_bytes = self.kernels.outside_bytes(cublas_handles=2, uses_cudnn=True)  # before the program is known
        limit_bytes = self._gpu.total_bytes if self._raise_oom else None
        tape = Tape(self._path, limit_bytes, self._world_size, has_stacks=self._has_stacks)
        self.values.begin()  # only now: during another dry run, this one has been refused
        with contextlib.ExitStack() as stack:
            if self._plans is not None:
                stack.callback(self._plans.close)
            stack.callback(tape.close)
            choices = Choices(self._gpu, self._torch_version)
            stack.callback(choices.undo)
            rates = Rates.of(self._gpu)
            if rates.assumption:
                tape.about("vram.dry_run.rates", rates.assumption)
            self._mode = mode = DryMode(tape, self.kernels, self.values, choices, Clock(rates))
            tape.outside_bytes = lambda: mode.outside_bytes
            patches = Patches()
            stack.callback(patches.undo)
            _entered.session = self
            stack.callback(self._in_its_thread, _restore_default_device, _default_device())
            _guard.put_in_place(patches, lambda: mode.has_wrappers)
            _cuda.put_in_place(patches, self._gpu, self._world_size, context_bytes, tape, mode.streams)
            _profiler.put_in_place(patches)
            _reading.put_in_place(patches, mode)
            _files.put_in_place(patches, mode.fakes)
            _factories.put_in_place(patches)
            _tensor_types.put_in_place(patches)
            _flex.put_in_place(patches)
            _nested.put_in_place(patches, self._gpu)
            _parameters.put_in_place(patches, mode.storages)
            _cudnn.put_in_place(patches)
            _torchscript.put_in_place(patches)
            # It logs errors of shapes with stacks of its own, before the program gets them.
            patches.put(logging.getLogger(fake_tensor.__name__), "disabled", True)
            _workers.put_in_place(patches, mode.fakes)
            stack.callback(_transformers.put_in_place(patches, mode.values))
            _threads.put_in_place(patches, mode)
            patches.put(_memory, "pretended", _place_of(mode))
            _like_plain_tensors(patches)
            patches.put(threading, "excepthook", _warned_of_threads(threading.excepthook))
            if torch.version.cuda is None:
                patches.put(torch._C, "_conv_determine_backend_memory_format", convolution_format)
            FakeTensorMode.cache_clear()  # what it remembers depends on the choices
            stack.callback(FakeTensorMode.cache_clear)
            stack.enter_context(torch.compiler.set_stance("force_eager"))
            patches.put(torch, "compile", _eager(patches, torch.compile))
            for of_thread in (torch.autograd.set_multithreading_enabled(False), mode.fakes, mode):
                of_thread.__enter__()
                stack.callback(self._in_its_thread, of_thread.__exit__, None, None, None)
            stack.callback(mode.end)
            mode.calibrate()
            Order().put_in_place(patches)
            stack.enter_context(fake_ranks(self._world_size, patches, mode))
            self._scopes.put_in_place(patches, tape)
            stack.callback(self._scopes.stop)
            self._stack = stack.pop_all()

    def _in_its_thread(self, call: Callable[..., object], *arguments: object) -> None:
        """Call this in the thread that entered, at the latest when it enters the next dry run.

        Modes belong to a thread. Those that have ended compute as without a dry run (DryMode.end()), but autograd adds gradients in another way
        as long as there is any mode.
        """
        if getattr(_entered, "session", None) is self:
            call(*arguments)
        else:
            self._left.append(functools.partial(call, *arguments))

    def take_back(self) -> None:
        """Do what the thread has to do that entered and did not leave, unless the program has modes of its own there since."""
        modes = _get_current_dispatch_mode_stack()
        if self._left and modes and modes[-1] is self._mode:
            for call in self._left:
                call()

    def leave(self, *, is_interrupted: bool = False) -> None:
        self._stack.close()
        self._in_its_thread(_forget_session)
        if is_interrupted:  # perhaps between torch.no_grad() and its end
            torch.set_grad_enabled(self._needs_gradients)
        if self.unknown_operators:
            names = ", ".join(sorted(self.unknown_operators))
            warnings.warn(
                tr(
                    "no rule says what the kernels of these operators allocate in addition to their results, so the prediction may be too low: {}"
                ).format(names),
                stacklevel=3,
            )
        if self.estimated_operators:
            names = ", ".join(sorted(self.estimated_operators))
            warnings.warn(
                tr(
                    "the workspaces of these operators are estimated, so the peak of reserved bytes may be more than 10 % off: {}"
                ).format(names),
                stacklevel=3,
            )
        if self.values.largest_sizes:
            warnings.warn(_about_sizes(self.values.largest_sizes), stacklevel=3)


def _take_back() -> None:
    session: Session | None = getattr(_entered, "session", None)
    if session is not None:
        session.take_back()


def _forget_session() -> None:
    _entered.session = None


def _default_device() -> Any:
    """Return what torch.set_default_device() has set in this thread; None: nothing."""
    context = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    return None if context is None else context.device


def _restore_default_device(device: Any) -> None:
    """Set what was set before: a program may set a GPU, of which there is none after the dry run."""
    if _default_device() != device:
        torch.set_default_device(device)


def _about_sizes(largest: Mapping[str, int]) -> str:
    """Return which lines have results that count as large as possible, largest first."""
    lines = sorted(largest, key=lambda line: -largest[line])
    named = ", ".join(f"{line}={largest[line]}" for line in lines[:_MAX_LINES])
    return tr(
        "sizes and whole numbers that depend on values of the GPU count as the largest possible, so the program may need less; state others to assume: {}"
    ).format(named if len(lines) <= _MAX_LINES else f"{named}, …")


def _place_of(mode: DryMode) -> Callable[[Any], tuple[int, int, int] | None]:
    def place(tensor: Any) -> tuple[int, int, int] | None:
        return mode.storages.place(tensor.untyped_storage()) if isinstance(tensor, FakeTensor) else None

    return place


def _warned_of_threads(before: Callable[[Any], Any]) -> Callable[[Any], None]:
    """threading.excepthook, which also says what the run misses."""

    def hook(ended: Any) -> None:
        before(ended)
        warn(tr("a thread ended with an error, so the dry run lacks the memory that it would have used from then on"))

    return hook


def _eager(patches: Patches, compile_: Callable[..., Any]) -> Callable[..., Any]:
    """torch.compile, which says that its result will run as it is."""

    def warned(*args: Any, **kwargs: Any) -> Any:
        warn(tr("a dry run does not compile: it predicts the memory of the uncompiled program"))
        compiled = compile_(*args, **kwargs)
        kind = type(compiled)
        if (
            kind.__name__ == "OptimizedModule" and "__call__" in kind.__dict__
        ):  # it warns of vram's hooks, and calls this
            patches.put(kind, "__call__", torch.nn.Module.__call__)
        return compiled

    return warned


def _like_plain_tensors(patches: Patches) -> None:
    """Let optimizers and others choose their multi-tensor kernels, as they do for plain tensors on a GPU."""
    from torch.optim import optimizer
    from torch.utils import _foreach_utils

    for module in (optimizer, _foreach_utils):
        patches.put(module, "_foreach_supported_types", [*module._foreach_supported_types, FakeTensor])
