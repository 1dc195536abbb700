"""The segments that vram serve lists of a running program are those of PyTorch's snapshot, for each of its allocators."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

PATIENCE_S = 60.0
SECRET = "a-secret-of-the-tests-0123456789"

# Holds blocks of several sizes and streams, with holes between them, and prints what PyTorch's snapshot has.
PROGRAM = """\
import json, select, sys
import torch, vram
if sys.argv[1] == "pool":
    vram.enable()
board = vram.Board()
side = torch.cuda.Stream()
kept = [torch.empty(size, dtype=torch.uint8, device="cuda") for size in (700, 3 << 20, 5 << 20, 40 << 20, 1 << 10, 9 << 20)]
with torch.cuda.stream(side):
    kept.append(torch.empty(24 << 20, dtype=torch.uint8, device="cuda"))
del kept[1], kept[2]
torch.cuda.synchronize()
found = [
    [each["address"], each["total_size"], each["stream"], [[block["size"], block["state"]] for block in each["blocks"]]]
    for each in torch.cuda.memory_snapshot()
]
print(json.dumps(found), flush=True)
while not select.select([sys.stdin], [], [], 0.01)[0]:
    vram.step()  # which answers requests
"""


def until(find: Callable[[], Any]) -> Any:
    end = time.monotonic() + PATIENCE_S
    while not (found := find()):
        assert time.monotonic() < end, "not within a minute"
        time.sleep(0.1)
    return found


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    token = tmp_path / "token"
    token.write_text(SECRET + "\n")
    token.chmod(0o600)
    words = [
        shutil.which("vram") or "vram",
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--history",
        "off",
        "--token-file",
        str(token),
    ]
    log = tmp_path / "log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            words, stdout=errors, stderr=errors, env={**os.environ, "VRAM_BOARD": str(tmp_path / "board")}
        )
    try:
        yield until(lambda: re.search(r"127\.0\.0\.1:[1-9]\d*", log.read_text()))[0]
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def listed(address: str, pid: int) -> Any:
    """Returns None until the program has listed its segments."""
    connection = http.client.HTTPConnection(address, timeout=PATIENCE_S)
    headers = {"Authorization": f"Bearer {SECRET}", "Content-Type": "application/json"}
    try:
        connection.request("POST", "/api/v1/segments", body=json.dumps({"pid": pid}), headers=headers)
        answer = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    return answer["list"]


@pytest.mark.parametrize("allocator", ["native", "expandable", "pool"])
def test_segments_and_blocks_are_those_of_the_snapshot(address: str, allocator: str, tmp_path: Path) -> None:
    settings = "expandable_segments:True" if allocator == "expandable" else ""
    environment = {**os.environ, "VRAM_BOARD": str(tmp_path / "board"), "PYTORCH_CUDA_ALLOC_CONF": settings}
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, allocator],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    with program:
        assert program.stdout is not None
        expected = json.loads(program.stdout.readline())
        found = until(lambda: listed(address, program.pid))
        program.communicate("")
    states = {0: "inactive", 1: "active_allocated", 2: "active_awaiting_free"}
    assert sum(len(blocks) for _, _, _, blocks in expected) >= 5  # those that are kept
    assert sorted(expected) == sorted(
        [
            each["address"],
            each["size_bytes"],
            each["stream"],
            [[size, states[state]] for size, state in zip(each["sizes"], each["states"], strict=True)],
        ]
        for each in found["segments"]
    )
    assert found["reserved_bytes"] == sum(size for _, size, _, _ in expected)
