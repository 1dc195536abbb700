"""A stack that a thread has met is known again while another thread holds the GIL, as PyTorch's operators run without it."""

from __future__ import annotations

import ctypes
import os
import subprocess
import threading
from pathlib import Path

from vram._library import sized
from vram._prototypes import STACKS_PYTHON, RecordOptions

HELPER = """\
#include <stdint.h>
#include <unistd.h>
uint32_t capture_after(uint32_t (*capture)(void), unsigned microseconds) {
  usleep(microseconds);
  return capture();
}
void keep_busy(unsigned microseconds) { usleep(microseconds); }
"""
CAPTURED_AFTER_US, HELD_US = 200_000, 600_000


def test_a_stack_that_was_met_needs_no_gil(tmp_path: Path) -> None:
    source, built = tmp_path / "helper.c", tmp_path / "helper.so"
    source.write_text(HELPER)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", built, source], check=True, timeout=60)
    without_gil, with_gil = ctypes.CDLL(str(built)), ctypes.PyDLL(str(built))
    library = ctypes.CDLL(os.environ["VRAM_LIBRARY"])
    options = sized(RecordOptions)
    options.stacks = STACKS_PYTHON
    assert library.vram_record_start(os.fsencode(tmp_path / "run.vtrace"), ctypes.byref(options)) == 0
    capture = ctypes.cast(library.vram_try_capture_stack, ctypes.c_void_p)
    may_hold = threading.Event()

    def hold() -> None:
        may_hold.wait(timeout=60)
        with_gil.keep_busy(HELD_US)

    holder = threading.Thread(target=hold)
    holder.start()
    captured = []
    for holds in (False, True):
        if holds:
            may_hold.set()
        captured.append(without_gil.capture_after(capture, CAPTURED_AFTER_US))
    holder.join(timeout=60)
    assert library.vram_record_stop() == 0
    assert captured[0] != 0
    assert captured == [captured[0]] * 2
