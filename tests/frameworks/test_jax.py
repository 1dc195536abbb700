"""vram.jax and find_cycles() with the real JAX, on the CPU."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import vram
from vram._frameworks import framework_of

jax = pytest.importorskip("jax", reason="needs tools/requirements-frameworks.txt")

PYTHON = Path(__file__).resolve().parents[2] / "python"


def make_array() -> Any:
    return jax.numpy.ones((1000, 1000))


def test_a_profile_has_the_bytes_and_the_line_of_what_lives(tmp_path: Path) -> None:
    array = make_array()
    array.block_until_ready()
    file = tmp_path / "memory.prof"
    jax.profiler.save_device_memory_profile(str(file))
    for profile in (vram.jax.import_profile(), vram.jax.import_profile(file)):
        (site,) = [site for site in profile.sites if site.frame and site.frame.function == "make_array" and site.bytes]
        assert (site.bytes, site.count, site.kind, site.device) == (4_000_000, 1, "buffer", "cpu:0")
        assert site.frame is not None
        assert (Path(site.frame.file).name, site.frame.line) == (
            "test_jax.py", make_array.__code__.co_firstlineno + 1
        )  # fmt: skip
        assert site.frame in site.stack
    del array


def test_a_profile_forgets_what_is_freed() -> None:
    array = make_array()
    before = vram.jax.import_profile().bytes
    del array
    assert vram.jax.import_profile().bytes == before - 4_000_000


class Node:
    me: Any
    x: Any


@pytest.mark.usefixtures("only_planted_garbage")
def test_a_cycle_that_holds_an_array_is_found() -> None:
    node = Node()
    node.me, node.x = node, jax.numpy.zeros((64, 32), dtype="int16")
    del node
    (cycle,) = vram.find_cycles(devices="all", collect=True)
    assert (cycle.bytes, cycle.path, cycle.tensors) == (
        64 * 32 * 2, "Node.x -> Tensor[64, 32] int16", ("Tensor[64, 32] int16 cpu:0",)
    )  # fmt: skip
    assert vram.find_cycles(devices="all") == []


@pytest.mark.usefixtures("only_planted_garbage")
def test_what_lives_and_what_is_deleted_is_no_find() -> None:
    node = Node()
    deleted = jax.numpy.zeros(8)
    node.me, node.x = node, deleted
    deleted.delete()
    alive = Node()
    alive.me, alive.x = alive, jax.numpy.zeros(8)
    del node, deleted
    assert vram.find_cycles(devices="all") == []
    assert alive.x.sum() == 0


def test_jax_on_the_cpu_has_no_devices_of_ours() -> None:
    framework = framework_of("jax")
    jax.numpy.zeros(1)
    assert (framework.devices(), framework.current_device()) == ([], None)
    assert framework.tensor(Node()) is None


def test_what_is_out_of_memory() -> None:
    framework = framework_of("jax")
    jax_error: Any = jax.errors.JaxRuntimeError
    error = jax_error("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8 bytes.")
    assert framework.is_out_of_memory(error)
    assert not framework.is_out_of_memory(jax_error("INTERNAL: x"))
    assert not framework.is_out_of_memory(RuntimeError("RESOURCE_EXHAUSTED: x"))


def _run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(PYTHON)},
        timeout=120,
    )
    return done.stdout


def test_asking_for_devices_sets_up_none() -> None:
    code = """
import jax, vram
from vram._frameworks import framework_of
from jax._src import xla_bridge
print(framework_of("jax").devices(), xla_bridge.backends_are_initialized())
vram.jax.preallocate(False)
"""
    assert _run(code) == "[] False\n"


@pytest.mark.parametrize(
    "late",
    [
        lambda: vram.jax.preallocate(True),
        lambda: vram.jax.memory_fraction(0.5),
        lambda: vram.jax.allocator("platform"),
    ],
)
def test_a_setting_that_comes_too_late_is_an_error(late: Callable[[], None]) -> None:
    jax.numpy.zeros(1)
    with pytest.raises(vram.VramError, match=r"would have no effect.*before the program's first operation"):
        late()
