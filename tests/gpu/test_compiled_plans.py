"""Plans of compiled blocks compute what the uncompiled model computes, whatever each block keeps."""

from collections.abc import Callable
from typing import Any


def test_gradients_of_compiled_blocks_are_those_of_the_model(run: Callable[..., Any]) -> None:
    found = run("compiled_gradients.py", "native")
    assert {name: len(each) for name, each in found["differences"].items()} == {"resnet": 5, "gpt": 5}
    for each in found["differences"].values():
        assert max(each.values()) < 1e-10, found
