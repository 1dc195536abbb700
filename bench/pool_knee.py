"""Draws the effect of the pool's settings: utilization against time in the driver, one panel per recording.

    python bench/pool_knee.py OUT.png RECORDING…      # needs matplotlib and build/release/src/vram

Each point is `vram replay RECORDING --allocator vram:handle_size=…,slack_permille=…` on the simulated GPU, whose calls have
the costs measured on an H200. The default is drawn larger.
"""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

VRAM = Path(__file__).resolve().parents[1] / "build" / "release" / "src" / "vram"
HANDLES = (4, 8, 12, 16, 20, 24, 32, 48, 64)
SLACKS = (2, 10, 30)
DEFAULT = (20, 2)
TICKS = (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)


def point(recording: str, handle: int, slack: int) -> tuple[float, float]:
    """Returns utilization and the share of the recorded time in the driver, in percent."""
    spec = f"vram:handle_size={handle}MiB,slack_permille={slack}"
    words = [str(VRAM), "replay", recording, "--allocator", spec, "--json"]
    answer = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    result = answer["results"][0]
    return 100 * result["utilization"], 100 * result["driver_time_ns"] / answer["duration_ns"]


def draw(panel: pyplot.Axes, recording: str) -> None:
    with ThreadPoolExecutor(2) as pool:
        for slack, colour in zip(SLACKS, ("#1f77b4", "#ff7f0e", "#9e9e9e"), strict=True):
            points = list(pool.map(lambda handle, slack=slack: point(recording, handle, slack), HANDLES))
            panel.plot(
                *zip(*[(time, used) for used, time in points], strict=True),
                "o-",
                ms=3,
                lw=0.8,
                color=colour,
                label=f"slack {slack} ‰",
            )
    used, time = point(recording, *DEFAULT)
    panel.plot([time], [used], "o", ms=9, mfc="none", mec="#d62728", mew=1.8, label="default")
    panel.axhline(98, color="#cccccc", lw=0.8)
    panel.set_xscale("log")
    panel.set_xticks([tick for tick in TICKS if panel.get_xlim()[0] <= tick <= panel.get_xlim()[1]])
    panel.xaxis.set_major_formatter("{x:g}")
    panel.xaxis.set_minor_formatter("")
    panel.set_title(Path(recording).name.split(".pickle")[0], fontsize=9)
    panel.tick_params(labelsize=7)


def main() -> None:
    target, *recordings = sys.argv[1:]
    columns = 3
    rows = -(-len(recordings) // columns)
    figure, panels = pyplot.subplots(rows, columns, figsize=(10, 2.6 * rows), squeeze=False)
    for panel, recording in zip(panels.flat, recordings, strict=False):
        draw(panel, recording)
        print(recording, flush=True)
    for panel in panels.flat[len(recordings) :]:
        panel.set_visible(False)
    panels.flat[0].legend(fontsize=7)
    figure.supxlabel("time in the driver, % of the recorded time (handles of 64 MiB left, 4 MiB right)", fontsize=9)
    figure.supylabel("utilization, %", fontsize=9)
    figure.tight_layout()
    figure.savefig(target, dpi=110)


if __name__ == "__main__":
    main()
