"""vram doctor --stress, the program: on the simulated GPU, and on the fake driver (tests/fake_cuda, tests/fake_nvml)."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
from typing import Any

import pytest
from fake_gpus import Machine, wait_until
from program import BINARY, IS_SANITIZED, environment, vram

MIB = 1 << 20
FAKE_CUDA = pathlib.Path(BINARY).parents[1] / "tests/fake_cuda/libcuda.so.1"
# What a pass over the memory takes, and more; with every access checked that is long. On a busy machine, neither is.
ENOUGH = ("5s", "20s", "60s") if IS_SANITIZED else ("1s", "5s", "30s")
SIM = ("--gpu", "sim:32MiB")


def stress(*words: str | pathlib.Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """`vram doctor --stress`, again with more time as long as it ended before anything was compared."""
    for seconds in ENOUGH:
        done = vram("doctor", "--stress", seconds, *words, **variables)
        said = pathlib.Path(words[words.index("-o") + 1]).read_text() if "-o" in words else done.stdout
        if not ("NOTHING TESTED" in said or '"verdict": "untested"' in said):
            break
    return done


def report_of(done: subprocess.CompletedProcess[str], code: int = 0) -> Any:
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)


def cuda(capacity: int = 48 * MIB, **changes: str) -> dict[str, str]:
    return {"VRAM_CUDA_DRIVER": str(FAKE_CUDA), "FAKE_CUDA_CAPACITY": str(capacity), **changes}


NO_NVML = {"VRAM_NVML": "/nowhere/libnvidia-ml.so.1"}


def test_the_simulated_gpu_passes() -> None:
    report = report_of(stress(*SIM, "--json", "--leave", "4MiB", "--seed", "7"))
    assert report["schema"] == "vram.stress/1"
    assert report["verdict"] == "passed"
    assert (report["seed"], report["leave_bytes"]) == (7, 4 * MIB)
    assert report["device"]["is_simulated"]
    fill = report["fill"]
    assert (fill["free_bytes"], fill["obtained_bytes"]) == (32 * MIB, 28 * MIB)
    assert fill["compared_bytes"] >= fill["covered_bytes"] > 0
    assert fill["compared_bytes"] == sum(each["compared_bytes"] for each in fill["passes"])
    storm = report["storm"]
    assert storm["allocations"] > 0
    assert storm["peak_requested_bytes"] <= storm["peak_reserved_bytes"] <= 28 * MIB
    assert {"host to device, pinned", "cuMemCreate", "pool allocate"} <= {each["name"] for each in report["figures"]}


def test_text_and_file(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "report"
    done = stress(*SIM, "-o", file)
    assert (done.returncode, done.stdout) == (0, "")
    text = file.read_text()
    assert text.startswith("PASSED")
    assert "speeds are those of this machine's own memory" in text
    assert list(tmp_path.iterdir()) == [file]


def test_comparing_with_an_earlier_report(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "before.json"
    assert stress(*SIM, "--json", "-o", file).returncode == 0
    report = json.loads(file.read_text())
    for figure in report["figures"]:  # a machine that was a hundred times as fast at everything
        for name in ("quarter", "median", "three_quarters"):
            worth = figure[name] // 100 if figure["unit"] == "nanoseconds" else figure[name] * 100
            figure[name] = max(worth, 1)
    file.write_text(json.dumps(report))
    worse = report_of(stress(*SIM, "--json", "--compare", file), code=1)
    assert worse["verdict"] == "passed"
    assert worse["comparison"]["is_failing"]
    assert {each["trend"] for each in worse["comparison"]["changes"]} <= {"failing", "same"}
    assert "worse by > 10 %" in stress(*SIM, "--compare", file).stdout
    other = stress("--gpu", "sim:16MiB", "--compare", file)
    assert other.returncode == 2
    assert "different GPUs can't be compared" in other.stderr


def test_an_interrupt_ends_it_in_order() -> None:
    words = [BINARY, "doctor", "--stress", "600s", "--gpu", "sim:32MiB", "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment()) as process:
        try:
            caught = pathlib.Path(f"/proc/{process.pid}/status")
            wait_until(lambda: int(caught.read_text().split("SigCgt:")[1].split()[0], 16) & 2 != 0)  # SIGINT
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 1
    report = json.loads(out)
    assert (report["verdict"], report["was_cut_short"]) == ("cut_short", True)


def test_the_fake_driver_passes_without_telemetry() -> None:
    report = report_of(stress("--json", **cuda(), **NO_NVML))
    assert report["verdict"] == "passed"
    device = report["device"]
    assert (device["name"], device["index"], device["total_bytes"]) == ("Fake GPU", None, 48 * MIB)
    assert report["health"]["before"] is None
    assert report["fill"]["obtained_bytes"] == 24 * MIB  # no more than half is left to others


def test_a_bit_that_comes_out_wrong() -> None:
    # The first copy to the host that is not of zeros; the seed selects the chunk it comes from for comparing.
    wrong = cuda(FAKE_CUDA_BAD_COPY="1")
    report = report_of(stress("--seed", "0", "--json", **wrong, **NO_NVML), code=1)
    assert report["verdict"] == "errors"
    assert report["bad_words"]["count"] == 1
    (word,) = report["bad_words"]["first"]
    assert int(word["bits"], 16) == int(word["expected"], 16) ^ int(word["found"], 16)
    assert int(word["bits"], 16).bit_count() == 1
    assert "ERRORS FOUND" in stress("--seed", "0", **wrong, **NO_NVML).stdout


def scenario(*lines: str) -> str:
    gpu = ("device 0", "total 48M", "used 0M", "uuid GPU-00000000-0000-0000-0000-000000000000")
    return "\n".join(["devices 1", *gpu, *lines]) + "\n"


def test_who_else_uses_it_is_asked_for(tmp_path: pathlib.Path) -> None:
    machine = Machine(tmp_path, scenario(f"process compute {os.getpid()} 10M"))
    done = stress("--device", "0", "--json", **cuda(), **machine.environment)
    assert done.returncode == 2
    assert f"pid {os.getpid()} " in done.stderr
    assert "--force" in done.stderr
    report = report_of(stress("--device", "0", "--json", "--force", **cuda(), **machine.environment))
    assert [other["pid"] for other in report["others"]] == [os.getpid()]
    assert report["device"]["index"] == 0
    assert report["health"]["before"] is not None


def test_no_gpu() -> None:
    done = stress(VRAM_CUDA_DRIVER="/nowhere/libcuda.so.1", **NO_NVML)
    assert done.returncode == 3
    assert "expected the CUDA driver" in done.stderr
    done = vram("doctor", "--stress", "1s", "--device", "7", **cuda(), **NO_NVML)
    assert done.returncode == 3
    assert "found 7" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--stress", "soon"], "--stress"),
        (["--stress", "0.1s"], "1s to 24h"),
        (["--stress", "1s", "--gpu", "simple"], "sim or sim:SIZE"),
        (["--stress", "1s", "--gpu", "sim:1KiB"], "at least"),
        (["--stress", "1s", "--leave", "much"], "--leave"),
        (["--stress", "1s", "--device", "-1"], "--device"),
        (["--stress", "1s", "--fail-above", "-3%"], "--fail-above"),
        (["--stress", "1s", "--compare", "/nowhere"], "--compare"),
        (["--stress", "1s", "--compare", __file__], "expected a report"),
    ],
)
def test_bad_usage(arguments: list[str], why: str) -> None:
    done = vram("doctor", *arguments)
    assert done.returncode == 2
    assert why in done.stderr
