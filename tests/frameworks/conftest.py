"""The tests of this folder import the package from its sources, and TensorFlow and JAX (tools/requirements-frameworks.txt).

The tests of a missing package are skipped.
"""

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))


@pytest.fixture(name="only_planted_garbage")
def _only_planted_garbage() -> Iterator[None]:
    """And Python does not collect it by itself before it is looked for."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
