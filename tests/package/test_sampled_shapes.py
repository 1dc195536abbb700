"""The convolutions that bench/prediction/plans_sampled.py asks cuDNN about."""

from __future__ import annotations

import importlib
import json
import lzma
import multiprocessing
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

FOLDER = Path(__file__).parents[2] / "bench" / "prediction"


@pytest.fixture
def sampled(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(FOLDER))
    names = ("shapes", "shapes_images", "shapes_others", "plans_sampled")
    module = importlib.import_module("plans_sampled")
    monkeypatch.setattr(module, "TORCHVISION_SHARE", 0)
    yield module
    for name in names:
        sys.modules.pop(name, None)


def test_layers_have_the_shapes_that_pytorch_computes(sampled: Any) -> None:
    found = [question for number in range(150) for question in sampled.group(number)[1]]
    assert len(found) > 1000
    for question in found:
        x, weight = (torch.empty(shape, device="meta") for shape in (question.x, question.weight))
        call: Any = functional.conv2d if x.dim() == 4 else functional.conv3d
        groups = x.shape[1] // weight.shape[1]
        y = call(x, weight, None, question.stride, question.padding, question.dilation, groups)
        # An inverse leaves out what a stride does not reach.
        missing = [a - b for a, b in zip(question.y, y.shape, strict=True)]
        assert not any(missing), question
        assert set(question.directions) >= {"weight"}
        assert len(question.directions) >= 2


def test_the_number_of_a_group_decides_its_questions(sampled: Any) -> None:
    assert [sampled.group(number) for number in range(20)] == [sampled.group(number) for number in range(20)]


def test_every_family_is_asked(sampled: Any) -> None:
    names = {sampled.group(number)[0] for number in range(800)}
    assert names == {build.__name__ for build, _ in sampled.FAMILIES}


def test_workers_write_each_question_once(sampled: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampled, "LAYERS_OF_PART", 10)
    asked: list[Any] = []
    counter = multiprocessing.get_context("fork").Value("q", 0)

    def answer(direction: str, question: Any) -> list[int]:
        asked.append((direction, question))
        until[0] = 0 if len(asked) > 200 else until[0]
        return [2, 65, len(asked), 28, 0]

    until = [float("inf")]
    monkeypatch.setattr(sampled.time, "time", lambda: float("inf") if until[0] == 0 else 0.0)
    sampled.loop(tmp_path, answer, counter, 2, 1.0)
    assert sampled.joined(tmp_path, tmp_path) == []
    rows = [
        json.loads(line)
        for path in tmp_path.glob("plans-*.jsonl.xz")
        for line in lzma.decompress(path.read_bytes()).splitlines()
    ]
    answers = [answers[letter][2] for row in rows for layer in row[3] for answers in layer[7:] for letter in answers]
    assert sorted(answers) == list(range(1, len(asked) + 1))
    assert len(set(asked)) == len(asked)
    assert {row[0] % 2 for row in rows} == {0}
