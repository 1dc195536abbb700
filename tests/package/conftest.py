"""The tests of this folder import the package from its sources, and use the program and the C library of a build, so they need no
installation. VRAM_BINARY names the program, the library is next to it; default: the release build, which the test command builds first.
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
BINARY = Path(os.environ.get("VRAM_BINARY", ROOT / "build" / "release" / "src" / "vram"))
os.environ.setdefault("VRAM_PROGRAM", str(BINARY))
os.environ.setdefault("VRAM_LIBRARY", str(BINARY.with_name("libvram.so")))

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
