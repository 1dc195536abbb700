"""``vram.why_alive()``: what keeps a tensor alive, as short paths from where Python holds it."""

from __future__ import annotations

import functools
import gc
import inspect
import sys
import threading
import time
import types
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from vram._arguments import require_integers
from vram._frameworks import Tensor, used_frameworks
from vram._texts import tr, tr_later
from vram.clean._autograd import autograd_edges, node_name
from vram.clean._describe import describe, describe_path, isinstance_exactly

_MAX_LEVEL_OBJECTS = 20_000  # of one distance from the tensor
# Objects whose referrers are searched at once: the collector compares every reference of the program with each of them.
_MAX_AT_ONCE = 50
_OWN_REFERENCES = 3  # to a frame's dictionary of variables: the frame's, ours, and that of getrefcount()
_CACHE = type(functools.lru_cache(maxsize=None)(int))


@dataclass(frozen=True)
class AlivePath:
    """One path of references to a tensor.

    ``kind`` is "autograd graph", "cache", "hook", "closure", "module" (an attribute of a ``torch.nn.Module``),
    "local" (of a running function), "global", or "native": held by an object that nothing in Python refers to.

    >>> print(AlivePath("global", "module train.losses -> list[0] -> Tensor[64, 512] float32 cuda:0"))
    global: module train.losses -> list[0] -> Tensor[64, 512] float32 cuda:0
    """

    kind: str
    path: str

    def __str__(self) -> str:
        return f"{tr(self.kind)}: {self.path}"


@dataclass(frozen=True)
class WhyAlive:
    """What keeps a tensor alive. Printed: one path a line, the shortest first."""

    tensor: str
    paths: tuple[AlivePath, ...]
    is_complete: bool  # False: the search ended at max_seconds or max_paths

    def __str__(self) -> str:
        if not self.paths:
            reason = tr("nothing that Python sees holds it") if self.is_complete else tr("nothing found in max_seconds")
            return tr("{}: {}, apart from the caller").format(self.tensor, reason)
        return "\n".join([tr("{} is kept by").format(self.tensor), *(f"  {path}" for path in self.paths)])


def why_alive(what: Any, *, max_seconds: float = 2.0, max_paths: int = 5) -> WhyAlive:
    """Return the shortest paths of references that keep a tensor, or whatever is at an address, alive.

    A path begins at a global name, a class, or a local variable of a running function. It goes through attributes,
    containers, closures, hooks, caches (``functools.lru_cache``), gradients, and autograd graphs with the tensors that
    they saved for backward. All tensors that share the memory count, such as views. The variable by which the caller
    passes the tensor is left out.

    Costs about 0.1 s, and 50 ms for each step of the path, for a million objects of the program. It changes nothing and keeps no
    reference, but asks graphs for their saved tensors, which calls unpack hooks (``saved_tensors_hooks``). Objects that
    ``gc.freeze()`` has hidden are not found. Any thread may call it; others may run meanwhile.

    Args:
        what: A tensor, the address of device memory as an int (of a report or an error message), or any other object.
        max_seconds: The search ends after about this time with what it has found.
        max_paths: The maximum number of paths.

    Raises:
        ValueError: `max_seconds` or `max_paths` is not positive.

    >>> import vram
    >>> class Kept: ...
    >>> kept = Kept()
    >>> table = {"key": kept}
    >>> print(vram.why_alive(kept).paths[0].path.endswith("dict['key'] -> Kept"))
    True
    """
    require_integers(1, max_paths=max_paths)
    if not max_seconds > 0:
        raise ValueError(tr("expected max_seconds to be more than 0, got {!r}").format(max_seconds))
    search = _Search(what, time.monotonic() + max_seconds, max_paths)
    try:
        return search.run(sys._getframe(1))
    finally:
        search.forget()


class _Search:
    """Breadth-first, from the tensor to what refers to it. Objects are in one dictionary, all else are their ids."""

    def __init__(self, what: Any, end: float, max_paths: int) -> None:
        self._what = what
        self._end = end
        self._max_paths = max_paths
        self._frameworks = used_frameworks()
        self._torch = sys.modules.get("torch") if hasattr(sys.modules.get("torch"), "Tensor") else None
        self._objects: dict[int, Any] = {}
        self._toward: dict[int, int] = {}  # the next one on the way to the tensor
        self._labels: dict[tuple[int, int], str] = {}  # of references that the collector does not see
        self._hidden: dict[int, list[int]] = {}  # by what is referred to: owners that the collector does not see
        self._locals: dict[int, list[tuple[int, str]]] = {}  # by id: frames, and the name there
        self._owners: dict[int, Any] = {}  # keep their ids from being used again; not on a way yet
        self._frames: dict[int, types.FrameType] = {}  # of running functions
        self._rooted: set[int] = set()  # what a frame, a class or a module refers to
        self._paths: list[AlivePath] = []
        self._native: list[AlivePath] = []

    def forget(self) -> None:
        self.__dict__.clear()

    def run(self, caller: types.FrameType) -> WhyAlive:
        with self._torch._C.DisableTorchFunctionSubclass() if self._torch is not None else nullcontext():
            return self._run(caller)

    def _run(self, caller: types.FrameType) -> WhyAlive:
        tensors = self._tensors()
        goals = self._goals(tensors)
        name = (
            self._text(goals[0]) or describe(goals[0])
            if goals
            else tr("address {:#x}, which no tensor contains").format(self._what)
        )
        for goal in goals:
            self._objects[id(goal)] = goal
        if self._torch is not None:
            self._add_autograd(tensors, goals)
        del tensors, goals  # lists of ours, which refer to them, too
        self._add_locals(caller)
        level = list(self._objects)
        while level and self._in_time() and len(self._paths) < self._max_paths:
            level = self._next_level(level)
        ended_early = bool(level) or not self._in_time()
        return WhyAlive(name, tuple((self._paths or self._native)[: self._max_paths]), not ended_early)

    def _in_time(self) -> bool:
        return time.monotonic() < self._end

    def _tensors(self) -> list[Any]:
        if self._torch is None:
            return []
        return [item for item in gc.get_objects() if issubclass(type(item), self._torch.Tensor)]

    def _goals(self, tensors: list[Any]) -> list[Any]:
        """The tensors that share the memory, that of the caller first."""
        if self._torch is None or not (isinstance(self._what, int) or self._is_tensor(self._what)):
            return [self._what]
        if isinstance(self._what, int):
            found = [each for each in self._with_gradients(tensors) if self._contains(each, self._what)]
        else:
            wanted = self._storage(self._what)
            found = [each for each in tensors if wanted is not None and self._storage(each) == wanted]
            found = [self._what, *(each for each in found if each is not self._what)]
        return found

    def _with_gradients(self, tensors: list[Any]) -> Iterator[Any]:
        known = {id(each) for each in tensors}
        for each in tensors:
            yield each
            gradient = each.grad if each.is_leaf else None
            if gradient is not None and id(gradient) not in known:
                yield gradient

    def _is_tensor(self, item: Any) -> bool:
        return self._torch is not None and issubclass(type(item), self._torch.Tensor)

    def _fact(self, item: Any) -> Tensor | None:
        facts = (framework.tensor(item) for framework in self._frameworks)
        return next((fact for fact in facts if fact is not None), None)

    def _storage(self, item: Any) -> int | None:
        fact = self._fact(item)
        return None if fact is None else fact.storage

    def _contains(self, item: Any, address: int) -> bool:
        try:
            storage = item.untyped_storage()
            begin = storage.data_ptr()  # 0: it has no memory, as on the device "meta"
            return bool(begin != 0 and begin <= address < begin + max(storage.nbytes(), 1))
        except (RuntimeError, NotImplementedError):  # has no storage
            return False

    def _add_autograd(self, tensors: list[Any], goals: list[Any]) -> None:
        storages = {self._storage(goal) for goal in goals} - {None}
        ids = {id(goal) for goal in goals}

        def is_wanted(item: Any) -> bool:
            return id(item) in ids or self._storage(item) in storages

        for owner, label, owned in autograd_edges(self._torch, tensors, is_wanted, self._in_time):
            if is_wanted(owned) and id(owned) not in ids and self._is_tensor(owned):
                self._objects[id(owned)] = owned  # another view of the memory
            self._owners.update({id(owner): owner, id(owned): owned})
            self._hidden.setdefault(id(owned), []).append(id(owner))
            self._labels[id(owner), id(owned)] = label

    def _add_locals(self, caller: types.FrameType) -> None:
        """Variables of running functions, of all threads: their frames are no objects that the collector knows."""
        tops = sys._current_frames()
        tops[threading.get_ident()] = caller  # our own frames would refer to themselves
        for top in tops.values():
            frame: types.FrameType | None = top
            while frame is not None:
                self._frames[id(frame)] = frame
                if frame.f_code.co_flags & inspect.CO_OPTIMIZED:
                    self._add_frame(frame, frame is caller)
                frame = frame.f_back

    def _add_frame(self, frame: types.FrameType, is_caller: bool) -> None:
        names = frame.f_locals
        for name, item in names.items():
            if not (is_caller and item is self._what):
                self._locals.setdefault(id(item), []).append((id(frame), name))
        # Before Python 3.13 a dictionary that the frame keeps, which would keep them alive until the function returns. If it has called
        # locals(), it has the same one.
        if sys.version_info < (3, 13) and sys.getrefcount(names) <= _OWN_REFERENCES:
            names.clear()

    def _next_level(self, level: list[int]) -> list[int]:
        found: list[int] = []
        referred: set[int] = set()
        for key in level:
            self._end_at_locals(key)
            for owner in self._hidden.get(key, ()):
                referred.add(key)
                self._reach(owner, self._owners[owner], key, found)
        reached = set(level)
        for referrer in self._referrers([self._objects[key] for key in level]):
            to = [id(each) for each in gc.get_referents(referrer) if id(each) in reached]
            referred.update(to)
            if to:
                self._reach(id(referrer), referrer, to[0], found)
            if not self._in_time() or len(found) > _MAX_LEVEL_OBJECTS:
                return found
        if not self._in_time():
            return found
        for key in reached - referred - self._rooted:
            if key in self._toward:
                self._add_path(key, tr_later("native"))
        return found

    def _referrers(self, objects: list[Any]) -> Iterator[Any]:
        """Apart from ours, and from running functions."""
        own = {id(each) for each in (self, self.__dict__, self._objects, self._owners, self._frames, objects)}
        for begin in range(0, len(objects), _MAX_AT_ONCE):
            if not self._in_time():
                return
            part = objects[begin : begin + _MAX_AT_ONCE]
            own.add(id(part))
            for referrer in gc.get_referrers(*part):
                if id(referrer) not in own and id(referrer) not in self._frames:
                    own.add(id(referrer))  # once, if it refers to several
                    yield referrer
            own.remove(id(part))

    def _reach(self, key: int, item: Any, to: int, found: list[int]) -> None:
        if key in self._objects:
            return
        self._objects[key] = item
        self._toward[key] = to
        module = self._module_of(item)
        if module is not None:
            self._objects[id(module)] = module
            self._toward[id(module)] = key
            self._add_path(id(module), tr_later("global"))
        elif issubclass(type(item), type):
            self._add_path(key, tr_later("global"))
        else:
            found.append(key)

    @staticmethod
    def _module_of(item: Any) -> Any:
        """The module whose global names these are."""
        name = item.get("__name__") if type(item) is dict else None
        module = sys.modules.get(name) if type(name) is str else None
        if module is None or not isinstance_exactly(module, types.ModuleType):
            return None
        return module if object.__getattribute__(module, "__dict__") is item else None

    def _end_at_locals(self, key: int) -> None:
        for frame, name in self._locals.get(key, ()):
            self._objects[frame] = self._frames[frame]
            self._toward[frame] = key
            self._labels[frame, key] = f".{name}"
            self._add_path(frame, tr_later("local"))

    def _add_path(self, start: int, kind: str) -> None:
        self._rooted.add(self._toward.get(start, start))
        way = [start]
        while way[-1] in self._toward:
            way.append(self._toward[way[-1]])
        text = self._describe(way)
        path = AlivePath(self._kind(way, text, kind), text)
        paths = self._native if kind == "native" else self._paths
        if path not in paths:
            paths.append(path)

    def _describe(self, way: list[int]) -> str:
        """Parts between references that only autograd and frames know are described by the references in them."""
        text = ""
        part: list[Any] = []
        for key, after in zip(way, [*way[1:], 0]):
            part.append(self._objects[key])
            label = self._labels.get((key, after))
            if label is not None or not after:
                text += describe_path(part, self._text) + (f" {label} -> " if label is not None else "")
                part = []
        return text

    def _text(self, item: Any) -> str | None:
        if isinstance_exactly(item, _CACHE):
            return tr("lru_cache of {}").format(describe(item.__wrapped__))
        if self._torch is not None:
            node = node_name(self._torch, item)
            if node is not None:
                return node
        fact = self._fact(item)
        return None if fact is None else str(fact)

    def _kind(self, way: list[int], text: str, root: str) -> str:
        objects = [self._objects[key] for key in way]
        labels = {self._labels.get(pair, "") for pair in zip(way, way[1:])}
        if labels & {".grad_fn", ".next_functions", ".variable"} or any(x.startswith("._saved") for x in labels):
            return tr_later("autograd graph")
        if any(isinstance_exactly(item, _CACHE) for item in objects):
            return tr_later("cache")
        hooked = any(self._is_tensor(item) and type(then) is OrderedDict for item, then in zip(objects, objects[1:]))
        if hooked or "hooks" in text:  # those of a tensor are in a dictionary without a name
            return tr_later("hook")
        if any(isinstance_exactly(item, types.CellType) for item in objects):
            return tr_later("closure")
        if self._torch is not None and any(isinstance_exactly(item, self._torch.nn.Module) for item in objects):
            return tr_later("module")
        return root
