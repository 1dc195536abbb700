"""The graph of what refers to what among objects that nobody else refers to: its knots, and ways through it.

Objects are known by their id() throughout: nothing here hashes, compares or prints them.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Graph:
    """Nodes by id(); edges as the collector sees them, within the graph only."""

    objects: dict[int, Any] = field(default_factory=dict)
    edges: dict[int, list[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, found: list[Any], more: dict[int, int]) -> Graph:
        """more: edges that the collector does not see, one from an object."""
        objects = {id(item): item for item in found}
        edges = {key: [id(to) for to in gc.get_referents(item) if id(to) in objects] for key, item in objects.items()}
        for source, target in more.items():
            edges[source].append(target)
        return cls(objects, edges)

    def leading_to(self, goals: Iterable[int]) -> Graph:
        """What is left of it without the nodes from which no goal can be reached."""
        sources: dict[int, list[int]] = {}
        for key, targets in self.edges.items():
            for to in targets:
                sources.setdefault(to, []).append(key)
        kept = set(goals)
        waiting = list(kept)
        while waiting:
            more = [key for key in sources.get(waiting.pop(), ()) if key not in kept]
            kept.update(more)
            waiting += more
        edges = {key: [to for to in self.edges[key] if to in kept] for key in kept}
        return Graph({key: self.objects[key] for key in kept}, edges)

    def strong_components(self) -> list[list[int]]:
        """The strongly connected components with a cycle in them (Tarjan 1972, without recursion)."""
        return [c for c in _components(self.edges) if len(c) > 1 or c[0] in self.edges[c[0]]]

    def reached(self, start: Iterable[int], avoid: set[int]) -> set[int]:
        """From start, without entering what is to be avoided."""
        seen = set(start)
        waiting = list(seen)
        while waiting:
            more = [to for to in self.edges[waiting.pop()] if to not in seen and to not in avoid]
            seen.update(more)
            waiting += more
        return seen

    def way(self, start: int, goal: int) -> list[int]:
        """A shortest one of at least one edge, both ends included; [] where there is none."""
        came_from: dict[int, int] = {}
        waiting = deque([start])
        while waiting:
            key = waiting.popleft()
            for to in self.edges[key]:
                if to == goal:
                    return [*_back(came_from, start, key), goal]
                if to not in came_from and to != start:
                    came_from[to] = key
                    waiting.append(to)
        return []


def _back(came_from: dict[int, int], start: int, key: int) -> list[int]:
    way = [key]
    while way[-1] != start:
        way.append(came_from[way[-1]])
    return way[::-1]


def _components(edges: dict[int, list[int]]) -> Iterator[list[int]]:
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    for root in edges:
        work: list[tuple[int, Iterator[int]]] = []
        if root not in order:
            work.append((root, iter(edges[root])))
        while work:
            key, targets = work[-1]
            if key not in order:
                order[key] = low[key] = len(order)
                stack.append(key)
                on_stack.add(key)
            for to in targets:
                if to not in order:
                    work.append((to, iter(edges[to])))
                    break
                if to in on_stack:
                    low[key] = min(low[key], order[to])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[key])
                if low[key] == order[key]:
                    at = len(stack) - 1
                    while stack[at] != key:
                        at -= 1
                    component = stack[at:]
                    del stack[at:]
                    on_stack.difference_update(component)
                    yield component
