"""These tests import the package from its sources, and TensorFlow and JAX (tools/requirements-frameworks.txt).

Each package's tests are skipped where it is missing.
"""

import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
