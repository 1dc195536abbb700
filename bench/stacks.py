"""What reading a Python stack costs a thread that has released the GIL, as PyTorch's operators do.

    VRAM_LIBRARY=build/release/src/libvram.so python bench/stacks.py [--depth 25]

Prints nanoseconds of one call of vram_try_capture_stack() through ctypes, less those of a call that does nothing: the least of some
rounds each, in turn. The thread has met the stack before, as in a training loop. The first round warms up.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
from vram._library import library, sized
from vram._prototypes import OK, STACKS_PYTHON, RecordOptions

CALLS, ROUNDS = 5_000, 40


def nanoseconds(call: Callable[[], object]) -> float:
    began = time.perf_counter_ns()
    for _ in range(CALLS):
        call()
    return (time.perf_counter_ns() - began) / CALLS


def at_depth(depth: int) -> float:
    if depth:
        return at_depth(depth - 1)
    calls = (library().vram_try_capture_stack, library().vram_is_recording)
    rounds = [[nanoseconds(call) for call in calls] for _ in range(ROUNDS)]
    captured, nothing = (min(found) for found in zip(*rounds[1:], strict=True))
    return captured - nothing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--depth", type=int, default=25, help="functions around the call (default: %(default)s)")
    args = parser.parse_args()
    options = sized(RecordOptions)
    options.stacks = STACKS_PYTHON
    with tempfile.TemporaryDirectory() as folder:
        if library().vram_record_start(f"{folder}/run.vtrace".encode(), ctypes.byref(options)) != OK:
            raise SystemExit(library().vram_last_error().decode())
        print(f"{at_depth(args.depth):.0f} ns")
        library().vram_record_stop()


if __name__ == "__main__":
    main()
