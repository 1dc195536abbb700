"""Objects and the references between them in words, without running their code: no repr, no hash, no comparison.

A way through objects reads `Trainer.closure -> function <lambda> (train.py:30) -> cell x -> Tensor[64, 1024] float32`:
the dictionary of an instance and the tuple of a function's cells are left out, their owners speak for them.
"""

from __future__ import annotations

import os
import types
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from vram._texts import tr

_MAX_NAME_LENGTH = 60
_MAX_PATH_LENGTH = 24  # objects; of a longer way the middle is left out


def describe_path(way: Sequence[Any], tensor_text: Callable[[Any], str | None]) -> str:
    """In one line. tensor_text names a framework's tensor, and None any other object."""
    words = []
    at = 0
    while at < len(way):
        last = at + 1 >= len(way)
        steps_over = not last and at + 2 < len(way) and _represents(way[at], way[at + 1])
        label = "" if last else _reference(way[at], way[at + 1 : at + 3] if steps_over else way[at + 1 : at + 2])
        words.append((tensor_text(way[at]) or describe(way[at])) + label)
        at += 2 if steps_over else 1
    if len(words) > _MAX_PATH_LENGTH:
        half = _MAX_PATH_LENGTH // 2
        words[half:-half] = [tr("… {} more …").format(len(words) - 2 * half)]
    return " -> ".join(words)


def describe(item: Any) -> str:
    """An object in a few words."""
    if isinstance_exactly(item, types.FunctionType):
        return f"function {_code_name(item.__code__, item.__qualname__)}"
    if isinstance_exactly(item, types.MethodType):
        function = item.__func__
        code = getattr(function, "__code__", None) if isinstance_exactly(function, types.FunctionType) else None
        name = getattr(function, "__qualname__", "?") if code else "?"
        return f"method {_code_name(code, name)}" if code else tr("method of {}").format(type(item.__self__).__name__)
    if isinstance_exactly(item, types.FrameType):
        return f"frame {item.f_code.co_name} ({_file(item.f_code)}:{item.f_lineno or item.f_code.co_firstlineno})"
    if isinstance_exactly(item, types.TracebackType):
        return f"traceback ({_file(item.tb_frame.f_code)}:{item.tb_lineno})"
    if isinstance_exactly(item, types.GeneratorType):
        return f"generator {_code_name(item.gi_code, item.__qualname__)}"
    if isinstance_exactly(item, types.ModuleType):
        return f"module {_short(str(types.ModuleType.__getattribute__(item, '__name__')))}"
    if issubclass(type(item), type):
        return f"class {_class_name(item)}"
    return _class_name(type(item))


def isinstance_exactly(item: Any, kind: type) -> bool:
    """Without the item's say: isinstance() would ask its __class__."""
    return issubclass(type(item), kind)


def _code_name(code: types.CodeType, qualified: str) -> str:
    name = qualified.rpartition("<locals>.")[2]
    return f"{_short(name)} ({_file(code)}:{code.co_firstlineno})"


def _class_name(kind: type) -> str:
    return _short(type.__getattribute__(kind, "__qualname__").rpartition("<locals>.")[2])


def _file(code: types.CodeType) -> str:
    return os.path.basename(code.co_filename)


def _short(name: str) -> str:
    return name if len(name) <= _MAX_NAME_LENGTH else name[: _MAX_NAME_LENGTH - 1] + "…"


def _represents(owner: Any, owned: Any) -> bool:
    if type(owner) is types.FunctionType:
        return owned is owner.__closure__
    return type(owned) is dict and owned is _dictionary(owner)


def _dictionary(owner: Any) -> Any:
    try:
        return object.__getattribute__(owner, "__dict__")
    except Exception:  # has none, or its class has made something else of the name
        return None


def _reference(owner: Any, then: Sequence[Any]) -> str:
    """By what name the owner has it: `.attribute`, `[3]`, `['key']`, or nothing."""
    try:
        return _name_in(owner, then)
    except RuntimeError:  # another thread changes the container
        return ""


def _name_in(owner: Any, then: Sequence[Any]) -> str:
    goal = then[-1]
    if len(then) == 2:
        if type(owner) is types.FunctionType:
            names = zip(owner.__code__.co_freevars, then[0])
            return next((f" [{name}]" for name, cell in names if cell is goal), "")
        return _attribute(then[0], goal)
    if isinstance_exactly(owner, dict):
        return _key(owner, goal) or _attribute(_dictionary(owner), goal)
    if isinstance_exactly(owner, (list, tuple, deque)):  # type: ignore[arg-type]
        base = next(kind for kind in (list, tuple, deque) if issubclass(type(owner), kind))
        return next((f"[{i}]" for i, item in enumerate(base.__iter__(owner)) if item is goal), "")
    if isinstance_exactly(owner, types.FrameType):
        return next((f".{name}" for name, item in owner.f_locals.items() if item is goal), "")
    return _of_c(owner, goal) or _attribute(_dictionary(owner), goal)


def _key(owner: Any, goal: Any) -> str:
    for key, item in dict.items(owner):
        if item is goal:
            return f"[{_key_text(key)}]"
    return ""


def _key_text(key: Any) -> str:
    if type(key) is str:
        return _short(repr(key[:_MAX_NAME_LENGTH]))
    if type(key) is int and key.bit_length() <= 64:  # Python refuses to write those of thousands of digits
        return repr(key)
    return describe(key)


def _attribute(dictionary: Any, goal: Any) -> str:
    if type(dictionary) is not dict:
        return ""
    return next((f".{name}" for name, item in dict.items(dictionary) if item is goal and type(name) is str), "")


def _of_c(owner: Any, goal: Any) -> str:
    """What objects made by C, and those with __slots__, have their referents under."""
    if isinstance_exactly(owner, types.MethodType) or isinstance_exactly(owner, types.CellType):
        return ""  # there is one worth following
    if isinstance_exactly(owner, BaseException):
        names = ("__traceback__", "__cause__", "__context__", "args")
        return next((f".{name}" for name in names if BaseException.__getattribute__(owner, name) is goal), "")
    for kind in type.__getattribute__(type(owner), "__mro__"):
        for name, member in type.__getattribute__(kind, "__dict__").items():
            if type(member) is types.MemberDescriptorType and _member(member, owner) is goal:
                return f".{name}"
    return ""


def _member(member: types.MemberDescriptorType, owner: Any) -> Any:
    try:
        return member.__get__(owner)
    except Exception:  # an empty slot
        return None
