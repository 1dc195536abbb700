"""The tests of this folder import the package from its sources and the C library from the release build, so they need no
installation. The test command builds the library first.
"""

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
os.environ.setdefault("VRAM_LIBRARY", str(ROOT / "build" / "release" / "src" / "libvram.so"))

# What the examples of vram.callbacks take from frameworks: tests/frameworks tests them with the real ones.
BASES = {
    "lightning.pytorch": "Callback",
    "transformers": "TrainerCallback",
    "keras.callbacks": "Callback",
}


@pytest.fixture(scope="module")
def quick_collections() -> Iterator[None]:
    """Collections leave out what PyTorch itself has made: they'd take most of the time."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def frameworks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand-ins of Lightning, Transformers and Keras; and no CuPy."""
    for name, base in BASES.items():
        parts = name.split(".")
        for length in range(1, len(parts) + 1):
            module = ModuleType(".".join(parts[:length]))
            monkeypatch.setitem(sys.modules, module.__name__, module)
            if length > 1:
                setattr(sys.modules[".".join(parts[: length - 1])], parts[length - 1], module)
        setattr(sys.modules[name], base, type(base, (), {}))
    monkeypatch.setitem(sys.modules, "cupy", None)
