"""Grows decision trees whose leaves have labels, and writes them as vram/dry/_workspaces.py reads them. Needs NumPy and Numba.

A node takes the split, among those of a random share of the measures, after which two calls of a side most often have the same label; calls whose
labels are of the same kind count in part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit


@dataclass(frozen=True)
class Growth:
    """How trees grow."""

    share: float = 0.4  # of the measures, at each node
    min_leaf: int = 2
    kind_weight: float = 0.5
    max_depth: int = 60


@njit(cache=True)  # type: ignore[misc]
def _squares(labels: Any, weights: Any, chosen: Any, total: Any) -> Any:
    """Returns the sum of the squared weights of the labels, and the label that weighs most; `total` has their weights then."""
    for i in chosen:
        total[labels[i]] = 0.0
    for i in chosen:
        total[labels[i]] += weights[i]
    squares, most, best = 0.0, -1.0, 0
    for i in chosen:
        weight = total[labels[i]]
        squares += weight * weights[i]
        if weight > most:
            most, best = weight, labels[i]
    return squares, best, most


@njit(cache=True)  # type: ignore[misc]
def _split(
    values: Any, order: Any, chosen: Any, labels: Any, weights: Any, left: Any, right: Any, min_leaf: int
) -> Any:
    """Returns for each place between two sorted calls how pure both sides are; of `left` and `right`, those of the labels are overwritten."""
    squares, _, _ = _squares(labels, weights, chosen, right)
    for i in chosen:
        left[labels[i]] = 0.0
    count = len(chosen)
    below, above, weight_below, weight_above = 0.0, squares, 0.0, 0.0
    for i in chosen:
        weight_above += weights[i]
    scores = np.full(count, -1.0)
    for place in range(count - 1):
        i = chosen[order[place]]
        label, weight = labels[i], weights[i]
        below += 2 * weight * left[label] + weight * weight
        left[label] += weight
        above += weight * weight - 2 * weight * right[label]
        right[label] -= weight
        weight_below += weight
        weight_above -= weight
        if place + 1 >= min_leaf and count - place - 1 >= min_leaf and values[order[place]] != values[order[place + 1]]:
            scores[place] = below / weight_below + above / weight_above
    return scores


@njit(cache=True)  # type: ignore[misc]
def _best_split(
    codes: Any,
    chosen: Any,
    labels: Any,
    kinds: Any,
    weights: Any,
    measures: Any,
    left: Any,
    right: Any,
    tried_count: int,
    min_leaf: int,
    kind_weight: float,
    least: float,
) -> Any:
    """Returns the measure of the split that is best, and better than `least`, and the codes around its limit; -1 if there is none."""
    best, best_measure, low, high, tried = least, -1, 0, 0, 0
    for each in measures:
        if tried >= tried_count and (best_measure >= 0 or tried >= 3 * tried_count):
            break
        values = codes[each][chosen]
        if values.min() == values.max():
            continue
        tried += 1
        order = np.argsort(values)
        scores = _split(values, order, chosen, labels, weights, left, right, min_leaf)
        scores += kind_weight * _split(values, order, chosen, kinds, weights, left, right, min_leaf)
        place = scores.argmax()
        if scores[place] > best:
            best, best_measure = scores[place], each
            low, high = values[order[place]], values[order[place + 1]]
    return best_measure, low, high


@njit(cache=True)  # type: ignore[misc]
def grow(
    codes: Any,
    labels: Any,
    kinds: Any,
    weights: Any,
    tried_count: int,
    min_leaf: int,
    kind_weight: float,
    max_depth: int,
    seed: int,
) -> Any:
    """Returns the nodes of a tree: measure (-1: a leaf), the codes around the limit, the first child (the second follows), and label.

    `codes` has a row for each measure, with the ranks of its values.
    """
    np.random.seed(seed)
    measure_count, count = codes.shape
    members = np.arange(count)
    most = 2 * count
    measure, low, high = np.full(most, -1, np.int32), np.zeros(most, np.int32), np.zeros(most, np.int32)
    child, leaf, depth = np.zeros(most, np.int32), np.zeros(most, np.int32), np.zeros(most, np.int32)
    start, end = np.zeros(most, np.int64), np.zeros(most, np.int64)
    end[0] = count
    size = max(labels.max(), kinds.max()) + 1
    left, right = np.zeros(size), np.zeros(size)
    measures = np.arange(measure_count)
    nodes, node = 1, 0
    while node < nodes:
        chosen = members[start[node] : end[node]].copy()
        squares, leaf[node], heaviest = _squares(labels, weights, chosen, left)
        total = 0.0
        for i in chosen:
            total += weights[i]
        kind_squares, _, _ = _squares(kinds, weights, chosen, left)
        best = (squares + kind_weight * kind_squares) / total * (1 + 1e-12)
        best_measure = -1
        if heaviest < total * 0.999999 and len(chosen) >= 2 * min_leaf and depth[node] < max_depth:
            np.random.shuffle(measures)
            best_measure, low[node], high[node] = _best_split(
                codes, chosen, labels, kinds, weights, measures, left, right, tried_count, min_leaf, kind_weight, best
            )
        if best_measure >= 0:
            measure[node], child[node] = best_measure, nodes
            is_below = codes[best_measure][chosen] <= low[node]
            middle = start[node] + is_below.sum()
            members[start[node] : middle] = chosen[is_below]
            members[middle : end[node]] = chosen[~is_below]
            start[nodes], end[nodes], start[nodes + 1], end[nodes + 1] = start[node], middle, middle, end[node]
            depth[nodes] = depth[nodes + 1] = depth[node] + 1
            nodes += 2
        node += 1
    return measure[:nodes], low[:nodes], high[:nodes], child[:nodes], leaf[:nodes]


def roundest(low: int, high: int) -> int:
    """Returns the number from `low` to below `high` that a power of two divides best; of several, the one in the middle."""
    if low <= 0 < high:
        return 0
    step = 1
    while -(-low // (2 * step)) * 2 * step < high:
        step *= 2
    first, last = -(-low // step), (high - 1) // step
    return (first + last) // 2 * step


def pruned(measure: Any, child: Any, leaf: Any) -> Any:
    """Returns `measure` without the splits after which all leaves have the same label."""
    measure = measure.copy()
    for node in range(len(measure) - 1, -1, -1):
        if measure[node] >= 0:
            first = child[node]
            if measure[first] < 0 and measure[first + 1] < 0 and leaf[first] == leaf[first + 1]:
                measure[node], leaf[node] = -1, leaf[first]
    return measure


def written(tree: Any, values: list[Any]) -> tuple[list[int], list[int]]:
    """Returns the splits and values of a tree, level by level; `values` has the sorted values of each measure."""
    measure, low, high, child, leaf = tree
    measure = pruned(measure, child, leaf)
    splits, limits, level = [], [], [0]
    while level:
        following = []
        for node in level:
            number = int(measure[node])
            splits.append(number + 1)
            if number < 0:
                limits.append(int(leaf[node]))
            else:
                limits.append(roundest(int(values[number][low[node]]), int(values[number][high[node]])))
                following += [int(child[node]), int(child[node]) + 1]
        level = following
    return splits, limits
