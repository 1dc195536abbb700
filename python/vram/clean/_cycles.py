"""``vram.find_cycles()``: finds unreachable reference cycles that keep tensors alive.

The garbage collector determines what is unreachable (it saves what it finds instead of freeing it), and only that is
examined. Live objects are therefore never reported, and the cost is one collection plus the garbage, not the program.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from vram._arguments import require_integers, require_one_of
from vram._frameworks import Framework, Tensor, used_frameworks
from vram._sizes import format_size
from vram._texts import tr
from vram.clean._describe import describe_path, isinstance_exactly
from vram.clean._graph import Graph

_MAX_OBJECTS = 2_000_000  # of garbage that are examined: about 5 s
_lock = threading.Lock()


@dataclass(frozen=True)
class Cycle:
    """Objects in an unreachable reference cycle, and the tensors that they keep alive.

    ``bytes`` counts each tensor's storage once, including gradients, without storages that a live tensor shares.
    Memory that autograd has saved for a backward pass that never ran is invisible from Python; breaking the cycle
    frees it, too.

    >>> print(Cycle(4096, ("Tensor[32, 32] float32 cuda:0",), "Node.self -> Node", "Node.x -> Tensor[32, 32] float32", 2))
    4 KiB in 1 tensor: Node.x -> Tensor[32, 32] float32; circle: Node.self -> Node
    """

    bytes: int
    tensors: tuple[str, ...]  # shape, dtype and device of each, the largest first
    circle: str
    path: str  # from the circle to the largest tensor
    objects: int  # in the circle and in others knotted with it

    def __str__(self) -> str:
        text = (
            tr("{} in {} tensor: {}; circle: {}") if len(self.tensors) == 1 else tr("{} in {} tensors: {}; circle: {}")
        )
        return text.format(format_size(self.bytes), len(self.tensors), self.path, self.circle)


def find_cycles(*, devices: str = "gpu", collect: bool = False, generation: int = 2) -> list[Cycle]:
    """Return the unreachable reference cycles that hold tensors, ordered by bytes, largest first.

    Supports tensors of PyTorch, TensorFlow and JAX, as far as the program has imported them.

    Costs one ``gc.collect(generation)`` (about 0.1 s of processor time for a million live objects) and 0.4 µs for each
    dead object; if there are tensors among those, also 2.5 µs for each of them, 50 µs for each cycle and 0.1 µs for
    each live object. Like any collection, it calls finalizers and weak-reference callbacks of unreachable objects.
    Without `collect`, the objects remain until Python's next full collection. It restores the collector's settings,
    keeps no object alive, and runs no ``__eq__``, ``__hash__`` or ``__repr__``. Any thread may call it; calls wait for
    one another.

    Args:
        devices: "gpu", or "all" to include tensors on the host.
        collect: Frees what was found, and all other garbage.
        generation: 2 examines all objects; 1 and 0 examine young ones only and are cheaper.

    Raises:
        ValueError: `devices` or `generation` is none of these values.

    >>> import vram
    >>> vram.find_cycles()
    []
    """
    require_one_of(("gpu", "all"), devices=devices)
    require_integers(0, 2, generation=generation)
    frameworks = used_frameworks()
    with _lock:
        with _unreachable(generation) as found:
            cycles = _look_through(found, frameworks, devices == "all") if frameworks else []
        if collect:
            gc.collect()
    return cycles


@contextmanager
def _unreachable(generation: int) -> Iterator[list[Any]]:
    """Provide the objects that a collection would free now; release them at the end."""
    enabled, flags, known = gc.isenabled(), gc.get_debug(), len(gc.garbage)
    gc.disable()
    try:
        gc.set_debug(flags & ~gc.DEBUG_STATS | gc.DEBUG_SAVEALL)
        try:
            gc.collect(generation)
        finally:
            gc.set_debug(flags)
        found = gc.garbage[known:]
        if not flags & gc.DEBUG_SAVEALL:  # with it the program itself wants them
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
    if gc.get_freeze_count():  # gc.get_objects() omits objects that gc.freeze() has hidden
        living |= _held_by_others(dead, frameworks)
    facts = {key: fact for key, fact in facts.items() if key in goals and fact.storage not in living}
    return sorted(_cycles(graph, facts), key=lambda cycle: -cycle.bytes)


def _too_many(objects: int, facts: dict[int, Tensor], goals: set[int]) -> list[Cycle]:
    if not goals:
        return []
    where = tr("among {} unreachable objects, too many to look through").format(objects)
    tensors = [facts[key] for key in goals]
    return [Cycle(_bytes(tensors), tuple(_texts(tensors)), where, where, objects)]


def _tensors(items: list[Any], frameworks: list[Framework]) -> Iterator[tuple[Any, Tensor]]:
    classes = tuple(kind for framework in frameworks for kind in framework.tensor_classes())
    for item in [item for item in items if issubclass(type(item), classes)]:
        facts = (framework.tensor(item) for framework in frameworks)
        yield from ((item, fact) for fact in facts if fact is not None)


def _add_gradients(found: list[Any], facts: dict[int, Tensor], frameworks: list[Framework]) -> dict[int, int]:
    """Add gradients, which the collector does not see as held by their tensors. Returns gradients by tensor, by id()."""
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
    """Return the objects that live no longer than the garbage, by id()."""
    bases = (framework.hidden_base(item) for item in graph.objects.values() for framework in frameworks)
    return {**graph.objects, **{id(base): base for base in bases if base is not None}}


def _living_storages(dead: dict[int, Any], frameworks: list[Framework]) -> set[int]:
    """Return the storages of tensors in use, which are not freed with a cycle."""
    return {fact.storage for item, fact in _tensors(gc.get_objects(), frameworks) if id(item) not in dead}


def _held_by_others(dead: dict[int, Any], frameworks: list[Framework]) -> set[int]:
    """Return storages with other users than dead tensors, or an unknown number; saved tensors of the dead count, too."""
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
