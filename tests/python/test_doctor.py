"""vram doctor, the program: its findings on a machine with the GPUs of fake_nvml and fake_cuda."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import pytest
from fake_gpus import Machine
from program import BINARY, IS_SANITIZED, ROOT, environment, vram

BUILD = pathlib.Path(BINARY).parents[1]
CUDA = next(iter(sorted(BUILD.glob("tests/fake_cuda/libcuda.so.1"))), pathlib.Path("/nowhere"))
TWO = """
devices 2
version 580.95.05
device 0
name NVIDIA H200
uuid GPU-a
pci 0 0x19 0
total 1000M
used 300M
device 1
name NVIDIA H200
uuid GPU-b
pci 0 0x1a 0
total 1000M
used 300M
"""


class Patient:
    def __init__(self, folder: pathlib.Path, scenario: str = TWO) -> None:
        self.machine = Machine(folder, scenario)
        self.variables = {**self.machine.environment, "VRAM_CUDA_DRIVER": str(CUDA), "VRAM_BOARD": str(folder / "b")}

    def examine(self, *options: str, code: int | None = None, **changes: str) -> Any:
        done = vram("doctor", "--json", *options, **{**self.variables, **changes})
        if code is not None:
            assert done.returncode == code, done.stdout + done.stderr
        assert done.stderr == ""
        return json.loads(done.stdout)

    def ids(self, *options: str, **changes: str) -> set[str]:
        return {finding["id"] for finding in self.examine(*options, code=None, **changes)["findings"]}


@pytest.fixture
def patient(tmp_path: pathlib.Path) -> Patient:
    return Patient(tmp_path)


def test_a_machine_that_works(patient: Patient) -> None:
    report = patient.examine()
    assert report["schema"] == "vram.doctor/1"
    assert report["usable_gpus"] == 2
    ids = {finding["id"] for finding in report["findings"]}
    assert {"driver.good", "health.good", "vram.other_library"} <= ids
    assert not any(one.startswith(("torch.", "jax.", "tf.", "cuda.", "platform.")) for one in ids)


def test_no_gpu_usable_is_code_3(patient: Patient) -> None:
    nothing = {"VRAM_NVML": "/nowhere/libnvidia-ml.so.1", "VRAM_CUDA_DRIVER": "/nowhere/libcuda.so.1"}
    if not pathlib.Path("/dev/dri").exists() and not pathlib.Path("/proc/driver/nvidia").exists():
        report = patient.examine(code=3, **nothing)
        assert report["usable_gpus"] == 0


def test_something_bad_is_code_1(patient: Patient) -> None:
    report = patient.examine(code=1, PYTORCH_CUDA_ALLOC_CONF="expandible_segments:True")
    bad = [finding for finding in report["findings"] if finding["severity"] == "bad"]
    assert [finding["id"] for finding in bad][:1] == ["torch.unknown_key"]
    assert bad[0]["repair"]["commands"] == ["export PYTORCH_CUDA_ALLOC_CONF='expandable_segments:True'"]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:32", "torch.small_split"),
        ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True", "torch.good"),
        ("PYTORCH_NO_CUDA_MEMORY_CACHING", "1", "torch.no_caching"),
        ("CUDA_LAUNCH_BLOCKING", "1", "cuda.launch_blocking"),
        ("CUDA_MODULE_LOADING", "EAGER", "cuda.eager_loading"),
        ("CUDA_VISIBLE_DEVICES", "0,2", "cuda.visible_invalid"),
        ("CUDA_VISIBLE_DEVICES", "GPU-b,GPU-b", "cuda.visible_twice"),
        ("CUDA_VISIBLE_DEVICES", "", "cuda.visible_none"),
        ("JAX_PLATFORMS", "cuda", "jax.preallocates"),
        ("XLA_PYTHON_CLIENT_MEM_FRACTION", "1.5", "jax.fraction"),
        ("TF_GPU_ALLOCATOR", "async", "tf.unknown_allocator"),
        ("NCCL_BUFFSIZE", "67108864", "nccl.large_buffers"),
        ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=1G", "mps.limits"),
        ("VRAM_BOARDS", "/tmp", "vram.unknown_variable"),
        ("LD_PRELOAD", "/nowhere/libjemalloc.so", "cuda.preload_missing"),
    ],
)
def test_variables(patient: Patient, name: str, value: str, expected: str) -> None:
    if name == "LD_PRELOAD":  # of which the loader complains, too
        done = vram("doctor", "--json", **{**patient.variables, name: value})
        assert expected in done.stdout
        assert done.stdout.index("{") == 0
    else:
        assert expected in patient.ids(**{name: value})
    assert expected not in patient.ids()


def test_a_process_by_its_number(patient: Patient) -> None:
    sleeping = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); import time; time.sleep(600)"],
        stdout=subprocess.PIPE,
        env=environment(CUDA_LAUNCH_BLOCKING="1"),
    )
    try:
        assert sleeping.stdout is not None
        sleeping.stdout.readline()
        ids = patient.ids("--pid", str(sleeping.pid), TF_GPU_ALLOCATOR="async")
        assert "cuda.launch_blocking" in ids
        assert "tf.unknown_allocator" not in ids, "that is the shell's"
    finally:
        sleeping.kill()
        sleeping.communicate(timeout=60)


def test_a_process_that_is_none() -> None:
    for pid, expected in (
        ("0", "expected a running process"),
        ("4194305", "expected a running process"),
        ("99999999999", "--pid takes a whole number up to 4294967295"),
    ):
        done = vram("doctor", "--pid", pid)
        assert (done.returncode, expected in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize("error", [4, 9, 15, 18, 999])
def test_a_library_that_does_not_start(patient: Patient, error: int) -> None:
    report = patient.examine(FAKE_NVML_FAIL=f"nvmlInit_v2={error}")
    assert report["usable_gpus"] == 0
    ids = {finding["id"] for finding in report["findings"]}
    assert "driver.good" not in ids
    assert ("driver.version_mismatch" in ids) == (error == 18)


def test_a_gpu_that_is_ill(tmp_path: pathlib.Path) -> None:
    ill = TWO + "ecc 0 2 0 2\nrows 0 1 on off\nthrottle 0x40\ncompute-mode 2\nrecovery 1\n"
    patient = Patient(tmp_path, ill)
    expected = {"health.ecc", "health.row_remap_pending", "health.throttling", "mps.prohibited", "health.recovery"}
    assert expected <= patient.ids()
    patient.machine.become(TWO)
    assert not expected & patient.ids()


def test_in_a_pid_namespace(patient: Patient) -> None:
    inside = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*inside, "true"], check=False, capture_output=True, timeout=120).returncode != 0:
        pytest.skip("no namespaces here")
    done = subprocess.run(
        [*inside, BINARY, "doctor", "--json"],
        env=environment(container="podman", **patient.variables),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    ids = {finding["id"] for finding in json.loads(done.stdout)["findings"]}
    assert {"container.pid_namespace", "container.good"} <= ids


@pytest.mark.skipif(IS_SANITIZED, reason="of the program as it is shipped")
def test_limits(patient: Patient) -> None:
    def examined(limit: str) -> str:
        words = ["sh", "-c", f'ulimit {limit}; exec "$0" doctor --json', BINARY]
        return subprocess.run(
            words, env=environment(**patient.variables), capture_output=True, text=True, check=False, timeout=120
        ).stdout

    assert "limits.open_files" in examined("-n 512")
    assert "limits.address_space" in examined("-v 33554432")  # 32 GiB: the fake driver has room in it


def test_the_screen(patient: Patient) -> None:
    done = vram("doctor", **{**patient.variables, "PYTORCH_CUDA_ALLOC_CONF": "max_split_size:\x1b[2J"})
    assert done.returncode == 1
    assert "\x1b" not in done.stdout
    lines = done.stdout.splitlines()
    assert "PyTorch's allocator" in lines
    assert "      unset PYTORCH_CUDA_ALLOC_CONF" in lines, "a command is alone on its line"
    whole = vram("doctor", "--all", **patient.variables).stdout
    assert "    vram.other_library" in whole.splitlines()


def test_nothing_is_executed(patient: Patient, tmp_path: pathlib.Path) -> None:
    """Programs that it names in its commands are on the path, and none is run."""
    ran = tmp_path / "ran"
    for name in ("nvidia-smi", "dmesg", "modprobe", "sudo", "docker", "ldconfig", "nvidia-modprobe"):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\ntouch {ran}\n")
        program.chmod(0o755)
    patient.examine(PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}", FAKE_NVML_FAIL="nvmlInit_v2=999")
    assert not ran.exists()


def our_variables() -> set[str]:
    """Every variable of ours that a source outside of tests names."""
    sources = [file for ending in ("*.cpp", "*.hpp") for file in (ROOT / "src").rglob(ending)]
    sources += (ROOT / "python/vram").rglob("*.py")
    known = ROOT / "src/doctor/checks/environment.cpp"
    tests = [file for file in sources if file.stem.endswith("_test") or "testing" in file.parts]
    text = "\n".join(file.read_text() for file in sources if file not in tests and file != known)
    return set(re.findall(r"[\"'](VRAM_[A-Z][A-Z_]*)[\"']", text))


def test_every_variable_of_ours_is_known_and_no_other(patient: Patient) -> None:
    ours = our_variables()
    assert {"VRAM_NVML", "VRAM_BOARD", "VRAM_RECORD", "VRAM_STARTUP"} <= ours
    listed = re.findall(r'"(VRAM_\w+)"', (ROOT / "src/doctor/checks/environment.cpp").read_text())
    assert set(listed) == ours

    def wrong_names(names: set[str]) -> list[str]:
        sleeping = subprocess.Popen(["sleep", "600"], env=environment(**dict.fromkeys(names, "/nowhere")))
        try:
            findings = patient.examine("--pid", str(sleeping.pid))["findings"]
            return [finding["what"] for finding in findings if finding["id"] == "vram.unknown_variable"]
        finally:
            sleeping.kill()
            sleeping.wait(timeout=60)

    assert wrong_names(ours) == []
    titles = wrong_names({name + "X" for name in ours})
    assert len(titles) == len(ours)
    for name in ours:
        assert any(f"no variable {name}X; {name} may be meant" in title for title in titles), name


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--stress", "1s", "--all"], "--stress and --all exclude each other"),
        (["--stress", "1s", "--pid", "1"], "--stress and --pid exclude each other"),
        (["--device", "0"], "require --stress TIME"),
        (["--gpu", "sim"], "require --stress TIME"),
        (["--leave", "1GiB"], "require --stress TIME"),
        (["--seed", "7"], "require --stress TIME"),
        (["--compare", "/nowhere"], "require --stress TIME"),
        (["--fail-above", "20%"], "require --stress TIME"),
        (["--force"], "require --stress TIME"),
        (["--pid", "many"], "--pid"),
    ],
)
def test_options_that_do_not_go_together(words: list[str], why: str) -> None:
    done = vram("doctor", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr


def test_a_report_goes_to_a_file(patient: Patient, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "report"
    for options in ((), ("--json",)):
        shown = vram("doctor", *options, **patient.variables)
        done = vram("doctor", *options, "-o", file, **patient.variables)
        assert (done.returncode, done.stdout) == (shown.returncode, "")
        assert done.stderr == ""
        text = file.read_text()
        if options:
            assert {one["id"] for one in json.loads(text)["findings"]} >= {"driver.good", "health.good"}
        else:
            first, other = (re.sub(r"\d\d:\d\d:\d\d", "", each.splitlines()[0]) for each in (text, shown.stdout))
            assert first == other
    missing = vram("doctor", "-o", tmp_path / "nowhere/report", **patient.variables)
    assert missing.returncode not in (0, 1)
    assert "nowhere/report" in missing.stderr
