"""``vram.find_cycles()``: unreachable reference cycles that keep tensors from being freed.

Only objects that the garbage collector reports as unreachable are searched (it saves what it finds instead of freeing it). So
reachable objects are never reported, and the cost depends on one collection and the garbage, not on the program.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from vram._error import VramError
from vram._frameworks import Framework, Tensor, used_frameworks
from vram._sizes import format_size
from vram.clean._describe import describe_path, isinstance_exactly
from vram.clean._graph import Graph

_MAX_OBJECTS = 2_000_000  # of garbage that are looked through: about 5 s
_lock = threading.Lock()


@dataclass(frozen=True)
class Cycle:
    """A cycle of objects to which nothing else refers, and the tensors that it holds.

    ``bytes`` counts each tensor's storage once, including gradients, without storage that a reachable tensor shares. What autograd
    saved for a backward pass that never ran is not visible from Python; it is freed in addition when the cycle is broken.

    >>> print(Cycle(4096, ("Tensor[32, 32] float32 cuda:0",), "Node.self -> Node", "Node.x -> Tensor[32, 32] float32", 2))
    4 KiB in 1 tensor: Node.x -> Tensor[32, 32] float32; circle: Node.self -> Node
    """

    bytes: int
    tensors: tuple[str, ...]  # shape, dtype and device of each, the largest first
    circle: str
    path: str  # from the circle to the largest tensor
    objects: int  # in the circle and in others knotted with it

    def __str__(self) -> str:
        count = f"{len(self.tensors)} tensor" + ("s" if len(self.tensors) != 1 else "")
        return f"{format_size(self.bytes)} in {count}: {self.path}; circle: {self.circle}"


def find_cycles(*, devices: str = "gpu", collect: bool = False, generation: int = 2) -> list[Cycle]:
    """Return the unreachable cycles that hold tensors, those with the most bytes first.

    Finds tensors of PyTorch, TensorFlow and JAX, as far as the program has imported them.

    Costs one ``gc.collect(generation)`` (about 0.1 s of processor time for a million reachable objects) and 0.4 µs for each
    unreachable object; if tensors are among those, 2.5 µs for each, 50 µs for each cycle and 0.1 µs for each reachable object.
    Like any collection it calls the finalizers and weak reference callbacks of unreachable objects; without ``collect`` the
    objects themselves stay until Python's next full collection. The collector's settings stay as they were, no object is kept
    alive, and no ``__eq__``, ``__hash__`` or ``__repr__`` is called. May be called from any thread; concurrent calls wait for
    one another.

    Args:
        devices: "gpu", or "all" to include tensors of the host.
        collect: free the cycles and all other garbage at the end.
        generation: 2 searches all objects; 1 and 0 search only young ones and are cheaper.

    Raises:
        VramError: ``devices`` is neither of the two.

    >>> import vram
    >>> vram.find_cycles()
    []
    """
    if devices not in ("gpu", "all"):
        raise VramError(f"devices is 'gpu' or 'all', not {devices!r}")
    frameworks = used_frameworks()
    with _lock:
        with _unreachable(generation) as found:
            cycles = _look_through(found, frameworks, devices == "all") if frameworks else []
        if collect:
            gc.collect()
    return cycles


@contextmanager
def _unreachable(generation: int) -> Iterator[list[Any]]:
    """What a collection would free now; it is let go again at the end."""
    enabled, flags, known = gc.isenabled(), gc.get_debug(), len(gc.garbage)
    gc.disable()
    try:
        gc.set_debug(flags & ~gc.DEBUG_STATS | gc.DEBUG_SAVEALL)
        try:
            gc.collect(generation)
        finally:
            gc.set_debug(flags)
        found = gc.garbage[known:]
        if not flags & gc.DEBUG_SAVEALL:  # with it the program itself wants to have them
            del gc.garbage[known:]
        try:
            yield found
        finally:
            found.clear()
    finally:
        if enabled:
            gc.enable()


def _look_through(found: list[Any], frameworks: list[Framework], hosts_too: bool) -> list[Cycle]:
    facts = {id(item): fact for item, fact in _tensors(found, frameworks)}
    gradients = _add_gradients(found, facts, frameworks)
    goals = {key for key, fact in facts.items() if hosts_too or fact.on_gpu}
    if not goals or len(found) > _MAX_OBJECTS:
        return _too_many(len(found), facts, goals)
    graph = Graph.of(found, gradients).leading_to(goals)
    dead = _dead(graph, frameworks)
    living = _living_storages(dead, frameworks)
    if gc.get_freeze_count():  # those that gc.freeze() has hidden are not among gc.get_objects()
        living |= _held_by_others(dead, frameworks)
    facts = {key: fact for key, fact in facts.items() if key in goals and fact.storage not in living}
    return sorted(_cycles(graph, facts), key=lambda cycle: -cycle.bytes)


def _too_many(objects: int, facts: dict[int, Tensor], goals: set[int]) -> list[Cycle]:
    if not goals:
        return []
    told = f"among {objects} unreachable objects, too many to look through"
    tensors = [facts[key] for key in goals]
    return [Cycle(_bytes(tensors), tuple(_texts(tensors)), told, told, objects)]


def _tensors(items: list[Any], frameworks: list[Framework]) -> Iterator[tuple[Any, Tensor]]:
    classes = tuple(kind for framework in frameworks for kind in framework.tensor_classes())
    for item in [item for item in items if issubclass(type(item), classes)]:
        facts = (framework.tensor(item) for framework in frameworks)
        yield from ((item, fact) for fact in facts if fact is not None)


def _add_gradients(found: list[Any], facts: dict[int, Tensor], frameworks: list[Framework]) -> dict[int, int]:
    """The collector does not see that a tensor holds its gradient. Gives whose is whose, by id()."""
    gradients = {}
    for item in [item for item in found if id(item) in facts]:
        for framework in frameworks:
            gradient = framework.hidden_gradient(item)
            fact = None if gradient is None else framework.tensor(gradient)
            if fact is not None and id(gradient) not in facts:
                found.append(gradient)
                facts[id(gradient)] = fact
                gradients[id(item)] = id(gradient)
    return gradients


def _dead(graph: Graph, frameworks: list[Framework]) -> dict[int, Any]:
    """What lives no longer than the garbage, by id()."""
    bases = (framework.hidden_base(item) for item in graph.objects.values() for framework in frameworks)
    return {**graph.objects, **{id(base): base for base in bases if base is not None}}


def _living_storages(dead: dict[int, Any], frameworks: list[Framework]) -> set[int]:
    """Of tensors in use: what shares them is not freed with a cycle."""
    return {fact.storage for item, fact in _tensors(gc.get_objects(), frameworks) if id(item) not in dead}


def _held_by_others(dead: dict[int, Any], frameworks: list[Framework]) -> set[int]:
    """Storages with more users than dead tensors, or nobody knows how many; what autograd keeps of the dead counts, too."""
    users: dict[int, list[int | None]] = {}
    for item, fact in _tensors(list(dead.values()), frameworks):
        counts = (framework.storage_users(item) for framework in frameworks if framework.tensor(item) is not None)
        users.setdefault(fact.storage, []).append(next(counts, None))
    return {key for key, counts in users.items() if any(count is None or count > len(counts) for count in counts)}


def _cycles(graph: Graph, facts: dict[int, Tensor]) -> Iterator[Cycle]:
    """A tensor counts for the first knot that holds it without another between."""
    strong_components = graph.strong_components()
    knotted = {key for component in strong_components for key in component}
    counted: set[int] = set()
    position = {key: at for at, key in enumerate(facts)}
    for component in strong_components:
        held = sorted((graph.reached(component, knotted) & facts.keys()) - counted, key=position.__getitem__)
        counted.update(held)
        if held:
            yield _cycle(graph, component, {key: facts[key] for key in held})


def _cycle(graph: Graph, component: list[int], held: dict[int, Tensor]) -> Cycle:
    tensors = sorted(held.values(), key=lambda tensor: -tensor.storage_bytes)
    largest = next(key for key, tensor in held.items() if tensor is tensors[0])
    start = min(component, key=lambda key: _rank(graph.objects[key]))
    members = set(component)
    inside = Graph({}, {key: [to for to in graph.edges[key] if to in members] for key in component})

    def text(way: list[int]) -> str:
        return describe_path([graph.objects[key] for key in way], lambda item: _text(held.get(id(item))))

    to_largest = graph.way(start, largest)
    return Cycle(
        _bytes(tensors), tuple(_texts(tensors)), text(inside.way(start, start)), text(to_largest), len(component)
    )


def _rank(item: Any) -> tuple[int, str]:
    """Where a description begins: with what the program's author has a name for."""
    kind = type(item)
    if isinstance_exactly(item, BaseException):
        rank = 2
    elif kind.__module__ != "builtins" and not isinstance_exactly(item, dict):
        rank = int(kind.__module__.startswith(("torch", "tensorflow", "jax", "collections")))
    else:
        rank = 3 if kind.__name__ in ("function", "frame") else 4
    return rank, kind.__name__


def _bytes(tensors: list[Tensor]) -> int:
    return sum({tensor.storage: tensor.storage_bytes for tensor in tensors}.values())


def _texts(tensors: list[Tensor]) -> Iterator[str]:
    return (str(tensor) for tensor in tensors)


def _text(tensor: Tensor | None) -> str | None:
    return None if tensor is None else f"Tensor{list(tensor.shape)} {tensor.dtype}"
