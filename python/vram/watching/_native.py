"""The native part of a watch (native/native.cpp): calls of modules, backward and gradients without Python code of vram's.

It is compiled once against the user's PyTorch and Python, where PyTorch's allocator can be recorded. Elsewhere, and without a
compiler or Python's headers, Python code does the same for more time (_calls.py).
"""

from __future__ import annotations

import ctypes
import sysconfig
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from vram import _marks
from vram._error import VramError
from vram._library import declare

SOURCES = Path(__file__).resolve().parent / "native"
_BEGIN, _END = ctypes.CFUNCTYPE(None, ctypes.c_char_p), ctypes.CFUNCTYPE(None)
_IS_RECORDING = ctypes.CFUNCTYPE(ctypes.c_int)
_NAME = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_char_p)
_Function: Any = _END.__mro__[1]  # of all functions of libraries
_PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    "vram_watch_type": (ctypes.py_object, [ctypes.py_object]),
    "vram_watch_recorder": (None, [ctypes.c_void_p] * 5),
    "vram_watch_plain_types": (None, [ctypes.py_object] * 2),
    "vram_watch_name_gradients": (ctypes.py_object, [ctypes.py_object] * 3),
    "vram_watch_nodes": (None, [ctypes.c_int]),
    "vram_watch_begin": (None, [ctypes.py_object, ctypes.c_char_p, ctypes.py_object, ctypes.py_object]),
    "vram_watch_end": (None, [ctypes.c_char_p]),
    "vram_watch_enter_pass": (ctypes.c_uint64, []),
    "vram_watch_leave_pass": (ctypes.c_int, [ctypes.c_uint64]),
    "vram_watch_begin_run": (None, []),
    "vram_watch_end_run": (None, []),
    "vram_watch_suspend": (ctypes.c_void_p, []),
    "vram_watch_resume": (None, [ctypes.c_void_p]),
    "vram_watch_knows": (ctypes.c_int, [ctypes.c_uint64]),
    "vram_watch_arrive_at_loss": (None, []),
}


def compile_library() -> Path:
    """Return the library, compiled now if it was not before.

    Raises:
        VramError: It does not compile.
    """
    import torch

    from vram.torch._compiled import compiled, fingerprint, flags
    from vram.torch._toolchain import Torch, compiler

    facts = Torch.installed(torch)
    include = Path(sysconfig.get_path("include"))
    sources = sorted(SOURCES.iterdir())

    def command(_scratch: Path, output: Path) -> list[str]:
        words = [*compiler(), *flags(facts), f"-isystem{include}", f"-isystem{facts.include}"]
        words += [str(SOURCES / "native.cpp"), f"-L{facts.lib}", "-ltorch_cpu", "-lc10", "-lc", "-o", str(output)]
        return words

    of_python = (sysconfig.get_config_var("SOABI") or "", str(include))
    return compiled("watch", facts, fingerprint(facts, sources, of_python), command)[0]


class Native:
    """The library's functions. `type`: that of the objects in the slots of watched modules."""

    def __init__(self, file: Path, base: type) -> None:
        loaded = ctypes.PyDLL(str(file))  # keeps the GIL: giving it up would cost more than the calls
        declare(loaded, _PROTOTYPES)
        self.begin, self.end = loaded.vram_watch_begin, loaded.vram_watch_end
        self.enter_pass, self.leave_pass = loaded.vram_watch_enter_pass, loaded.vram_watch_leave_pass
        self.begin_run, self.end_run = loaded.vram_watch_begin_run, loaded.vram_watch_end_run
        self.suspend, self.resume = loaded.vram_watch_suspend, loaded.vram_watch_resume
        self.knows, self.arrive_at_loss = loaded.vram_watch_knows, loaded.vram_watch_arrive_at_loss
        self._set_recorder, self._watch_nodes = loaded.vram_watch_recorder, loaded.vram_watch_nodes
        self.name_gradients = loaded.vram_watch_name_gradients
        self._called: list[Any] = []
        self.type = loaded.vram_watch_type(base)
        import torch

        loaded.vram_watch_plain_types(torch.Tensor, torch.nn.Parameter)

    def start(self, backward_began: Callable[[], None]) -> None:
        """Begin to watch nodes; `backward_began` is called when a thread that did not call backward computes one."""
        functions = _marks.functions()
        self._called = [
            _as_native(kind, function)
            for kind, function in (
                (_BEGIN, functions.scope_begin),
                (_END, functions.scope_end),
                (_IS_RECORDING, functions.is_recording),
                (_END, backward_began),
                (_NAME, functions.name),
            )
        ]
        self._set_recorder(*(ctypes.cast(called, ctypes.c_void_p) for called in self._called))
        self._watch_nodes(1)

    def stop(self) -> None:
        self._watch_nodes(0)


def _as_native(kind: Any, function: Callable[..., Any]) -> Any:
    """A function of the library is native already."""
    return function if isinstance(function, _Function) else kind(function)


def is_wanted() -> bool:
    """Whether PyTorch's allocator can be recorded: names of memory serve nothing else."""
    from vram.torch import _recording

    return _recording.is_available()


@cache
def _loaded(base: type) -> Native | None:
    try:
        return Native(compile_library(), base)
    except (OSError, VramError):
        return None


def native(base: type) -> Native | None:
    """Return the native part, or None where Python code has to do. The first call may compile it, which takes 5 s."""
    return _loaded(base) if is_wanted() else None
