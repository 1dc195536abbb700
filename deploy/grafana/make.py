#!/usr/bin/env python3
"""Writes the four dashboards next to this file: vram-fleet.json, vram-node.json, vram-gpu.json, vram-processes.json.

    make.py [FOLDER]

A test checks that the files are up to date. docs/metrics.md explains the metrics.
"""

from __future__ import annotations

import json
import pathlib
import sys

from devices import gpu, processes
from machines import fleet, node

if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent
    for board in (fleet(), node(), gpu(), processes()):
        (folder / f"{board['uid']}.json").write_text(json.dumps(board, indent=1) + "\n")
