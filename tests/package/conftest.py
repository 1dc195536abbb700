"""These tests import the package from its sources, and the C library from the release build: what they test needs no
installation. The test command builds the library before it runs them."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
os.environ.setdefault("VRAM_LIBRARY", str(ROOT / "build" / "release" / "src" / "libvram.so"))
