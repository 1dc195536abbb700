"""The tests of this folder run on a machine with an NVIDIA GPU and PyTorch, with the installed vram; without a GPU they
are skipped.

make test-gpu        # or: python -m pytest tests/gpu
"""

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="these tests need PyTorch, with CUDA")

PROGRAMS = Path(__file__).with_name("programs")


@pytest.fixture(scope="session", autouse=True)
def pool() -> Iterator[Any]:
    if not torch.cuda.is_available():
        pytest.skip("these tests need an NVIDIA GPU that PyTorch can use")
    import vram

    vram.enable()
    yield vram
    vram.disable()


@pytest.fixture(autouse=True)
def tidy() -> Iterator[None]:
    yield
    torch.cuda.synchronize()
    gc.collect()
    torch.cuda.empty_cache()


@pytest.fixture(scope="session")
def run() -> Callable[..., Any]:
    """Runs one of programs/ in a process of its own, so that its figures are its own: run("NAME.py", "native").

    The first word is what serves its memory: "native", "expandable" (PyTorch's own allocator) or "pool". Gives what the
    last line of its output says, JSON.
    """

    def run(program: str, allocator: str) -> Any:
        settings = "expandable_segments:True" if allocator == "expandable" else ""
        environment = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": settings, "CUDA_VISIBLE_DEVICES": "0"}
        words: list[str | Path] = [sys.executable, PROGRAMS / program, allocator]
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment, timeout=120)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run
