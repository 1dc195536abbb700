"""The tests of this folder run on a machine with an NVIDIA GPU and PyTorch, against the vram that is installed there.

make test-gpu        # or: python -m pytest tests/gpu
"""

import gc
from collections.abc import Iterator
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="these tests need PyTorch, with CUDA")


@pytest.fixture(scope="session", autouse=True)
def pool() -> Iterator[Any]:
    import vram

    if not torch.cuda.is_available():
        pytest.exit("these tests need an NVIDIA GPU that PyTorch can use", returncode=3)
    vram.enable()
    yield vram
    vram.disable()


@pytest.fixture(autouse=True)
def tidy() -> Iterator[None]:
    yield
    torch.cuda.synchronize()
    gc.collect()
    torch.cuda.empty_cache()
