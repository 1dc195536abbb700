"""vram.dry._workspaces: estimates of the workspaces of convolutions by trees of cuDNN's answers, without asking it."""

from __future__ import annotations

import itertools
import json
import lzma
import random
from pathlib import Path
from typing import Any

import torch

from vram.dry import _workspaces
from vram.dry._convolutions import Workspaces
from vram.dry._workspaces import DATA, DIRECTIONS, FORWARD, WEIGHT, Estimates, measures, size_of

NAME = "convolutions-2.11.json.xz"
ANSWERS = Path(__file__).parents[2] / "bench/prediction/plans-h100/plans-0.jsonl.xz"


def measured(direction: str = FORWARD, **changed: Any) -> dict[str, int]:
    """The measures of a 1 x 1 convolution of two images of 8 x 8 points in bfloat16, from 3 channels to 16."""
    call: dict[str, Any] = {
        "dtype": "bfloat16", "is_last": False, "input": (2, 3, 8, 8), "weight": (16, 3, 1, 1), "output": (2, 16, 8, 8), "stride": (1, 1),
        "padding": (0, 0), "dilation": (1, 1),
    }  # fmt: skip
    return {**measures(direction, **(call | changed))}


def test_parts_are_copies_with_padded_channels_and_sums() -> None:
    found = measured()
    images, outputs = 2 * 64, 2 * 64 * 16
    assert (found["x0"], found["x"], found["xg"]) == (images * 3 * 2, images * 8 * 2, images * 8 * 2)
    assert (found["w0"], found["w"], found["y"], found["y0"]) == (16 * 3 * 2, 16 * 8 * 2, outputs * 2, outputs * 2)
    assert (found["p0"], found["p"], found["np"]) == (16 * 3 * 4, 16 * 8 * 4, 2 * 16 * 3 * 4)
    assert (found["o"], found["q"]) == (outputs * 4, 64 * 64 * 4)
    # Channels first have to become channels last, but a kernel of one point is the same in both.
    assert found["t"] == found["xg"] + found["w"] + found["yg"]
    last = measured(is_last=True)
    assert last["t"] == last["xg"] + last["w"]


def test_channels_of_each_group_are_padded() -> None:
    found = measured(weight=(16, 1, 3, 3), input=(2, 4, 8, 8))
    assert (found["groups"], found["group_ins"], found["group_outs"]) == (4, 1, 4)
    assert (found["x"], found["xg"]) == (2 * 8 * 64 * 2, 2 * 32 * 64 * 2)


def test_sums_are_read() -> None:
    found = measured()
    assert size_of("", found) == 0
    assert size_of("x0 + 7 p + 512", found) == found["x0"] + 7 * found["p"] + 512


def test_the_median_of_the_trees_counts() -> None:
    names = ["kernel", "batch"]
    # A node for kernels of at most 1 point; both of its children are leaves.
    by_kernel = [[1, 0, 0], [1, 1, 2]]
    data = {
        "measures": names, "sums": ["x + w + y", "w"],
        "directions": {FORWARD: {"engines": [[[], []], [[measured()["signature"]], [0]]],
                                 "labels": [[1, "7 p"], [1, ""], [0, "512"]],
                                 "trees": [by_kernel, [[0], [0]], [[0], [2]]]}},
    }  # fmt: skip
    estimates, found = Estimates(data), measured()
    copies = found["x"] + found["w"] + found["y"]
    # Of a signature that the engine was not seen with, it makes the copies that it needs.
    sizes = sorted([copies, copies + 7 * found["p"], found["t"] + 512])
    assert estimates.workspace(FORWARD, found) == sizes[1] + 16
    larger = measured(weight=(16, 3, 3, 3), padding=(1, 1))
    assert larger["signature"] != found["signature"]
    sizes = sorted([larger["t"] + 512, larger["t"] + 7 * larger["p"], larger["t"] + 512])
    assert estimates.workspace(FORWARD, larger) == sizes[1] + 16


def test_a_tree_is_read_level_by_level() -> None:
    chosen = random.Random(3)

    def grown(depth: int) -> Any:
        return chosen.randrange(50) if depth == 0 or chosen.random() < 0.2 else (chosen.randrange(3), chosen.randrange(9), grown(depth - 1), grown(depth - 1))  # fmt: skip

    def label(tree: Any, values: list[int]) -> int:
        return tree if isinstance(tree, int) else label(tree[2] if values[tree[0]] <= tree[1] else tree[3], values)

    for _ in range(20):
        tree = grown(6)
        splits, values, level = [], [], [tree]
        while level:
            splits += [0 if isinstance(node, int) else node[0] + 1 for node in level]
            values += [node if isinstance(node, int) else node[1] for node in level]
            level = [child for node in level if not isinstance(node, int) for child in node[2:]]
        read = _workspaces._Tree(splits, values)
        for _ in range(50):
            point = [chosen.randrange(10) for _ in range(3)]
            assert read.label(point) == label(tree, point)


def test_most_estimates_are_what_cudnn_answered_about_networks_that_no_tree_was_learned_from() -> None:
    estimates = Estimates.load(NAME)
    exact = {name: [0, 0] for name in DIRECTIONS}
    with lzma.open(ANSWERS, "rt") as lines:
        for line in itertools.islice(lines, 400):
            group, _, dtype, layers = json.loads(line)
            for x, weight, y, stride, padding, dilation, is_last, answers in layers if group % 2 else ():
                for name in DIRECTIONS:
                    if answer := answers.get(name[0]):
                        shapes = tuple(map(tuple, (x, weight, y, stride, padding, dilation)))
                        found = estimates.workspace(name, measures(name, dtype, bool(is_last), *shapes))
                        exact[name][0] += abs(found - answer[2]) < 2048
                        exact[name][1] += 1
    shares = {name: right / count for name, (right, count) in exact.items()}
    assert all(count > 1000 for _, count in exact.values())
    assert shares[FORWARD] > 0.84
    assert shares[DATA] > 0.84
    assert shares[WEIGHT] > 0.6


def test_a_transposed_convolution_counts_as_the_one_that_it_inverts() -> None:
    small, large, weight = (
        torch.empty(shape, device="meta") for shape in ((4, 64, 16, 16), (4, 32, 32, 32), (64, 32, 2, 2))
    )
    how = [2, 2], [0, 0], [1, 1]
    trees = Workspaces(NAME)
    pairs = {FORWARD: DATA, DATA: FORWARD, WEIGHT: WEIGHT}
    sizes = {}
    for direction, inverse in pairs.items():
        sizes[direction] = trees.bytes_of(direction, small, weight, large, *how, True, 1)
        assert sizes[direction] == trees.bytes_of(inverse, large, weight, small, *how, False, 1)
    assert any(sizes.values())
