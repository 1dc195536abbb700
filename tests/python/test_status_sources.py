"""`vram status` of a recording that is played, and closing its source on request."""

import json
import signal
import subprocess
from typing import Any

from program import BINARY, ROOT, environment, started, vram, vram_json

DEMO = ROOT / "demo/unet_multiscale.pickle.xz"


def test_a_recording_is_a_device_with_one_process() -> None:
    status = vram_json("status", "--gpu", f"sim:{DEMO}")
    (device,) = status["devices"]
    (process,) = status["processes"]
    (use,) = process["uses"]
    assert (device["vendor"], device["name"]) == ("simulated", "simulated GPU")
    assert device["busy_percent"] is None
    assert device["unattributed_bytes"] == 0
    memory = device["memory"]
    assert memory["used_bytes"] + memory["free_bytes"] == memory["total_bytes"]
    allocator = use["allocator"]
    assert allocator["reserved_bytes"] == memory["used_bytes"] == use["used_bytes"]
    assert allocator["cached_bytes"] == allocator["reserved_bytes"] - allocator["allocated_bytes"]
    assert process["command"].endswith(f"status --gpu sim:{DEMO} --json")


def test_what_is_no_recording_is_refused() -> None:
    done = vram("status", "--gpu", "sim:/nowhere/run.vtrace")
    assert done.returncode == 2
    assert "/nowhere/run.vtrace" in done.stderr


def next_document(process: "subprocess.Popen[str]") -> Any:
    """The next document; each ends with a line of its own."""
    lines = []
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line)
        if line == "}\n":
            return json.loads("".join(lines))
    raise AssertionError("the output ended")


def test_a_signal_makes_it_let_go_and_watch_on() -> None:
    words = [BINARY, "status", "--json", "--watch", "0.2", "--gpu", f"sim:{DEMO}"]
    with started(words, stdout=subprocess.PIPE, text=True, env=environment()) as process:
        assert next_document(process)["notes"] == []
        process.send_signal(signal.SIGUSR1)
        notes: list[str] = []
        for _ in range(5):  # a second
            notes = notes or next_document(process)["notes"]
        assert notes == ["sim: let go on request, opened again 30 s later"]
        last = next_document(process)
        assert last["devices"][0]["memory"]["used_bytes"] is None
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == 0
