"""`vram status` of AMD's GPUs: the kernel's files of a made-up machine, with ROCm SMI (tests/fake_rocm_smi)."""

import json
import pathlib
import signal
import subprocess
import sys
from typing import Any

import pytest
from fake_gpus import wait_until
from program import BINARY, IS_SANITIZED, ROOT, environment

TREE = ROOT / "tests/data/drm/amdgpu_6.8_kfd.tree"
LIBRARY = pathlib.Path(BINARY).parents[1] / "tests/fake_rocm_smi/7/librocm_smi64.so"
TWO = """
device 0x4300
market-name not asked for
ecc 99 99
pages RRP
device 0xc300
market-name AMD Instinct MI210
ecc 4 1
pages
"""
# Its own /sys, as root in a namespace; /proc is this machine's.
INSIDE = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", 'mount --bind "$0" /sys && exec "$@"']


def unpack(tree: pathlib.Path, folder: pathlib.Path) -> None:
    """Return sys/ of a machine in one file (src/gpu/testing/recorded_tree.hpp)."""
    path = None
    for line in tree.read_text().splitlines():
        if line.startswith("\t"):
            assert path is not None
            with path.open("a") as file:
                file.write(line[1:] + "\n")
        elif line.startswith("sys/"):
            path = folder / line
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        else:
            path = folder / "other"


class AmdMachine:
    def __init__(self, folder: pathlib.Path, scenario: str = TWO) -> None:
        self.folder = folder
        self.calls = folder / "calls"
        self.calls.touch()
        (folder / "scenario").write_text(scenario)
        unpack(TREE, folder)

    def words(self, *options: str) -> list[str]:
        return [*INSIDE, str(self.folder / "sys"), BINARY, "status", "--gpu", "drm", *options]

    def environment(self, **changes: str) -> dict[str, str]:
        fake = {
            "VRAM_ROCM_SMI": str(LIBRARY),
            "FAKE_ROCM_SCENARIO": str(self.folder / "scenario"),
            "FAKE_ROCM_CALLS": str(self.calls),
        }
        return environment(**(fake | changes))

    def status(self, *options: str, **changes: str) -> str:
        done = subprocess.run(
            self.words(*options), capture_output=True, text=True, timeout=60, env=self.environment(**changes)
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def look(self, **changes: str) -> Any:
        return json.loads(self.status("--json", **changes))["devices"]

    def look_with_library(self) -> Any:
        """Repeat until the library answered in time: a sample waits for it only for a moment."""
        seen: list[Any] = []

        def is_named() -> bool:
            self.calls.write_text("")
            seen[:] = self.look()
            return bool(seen[1]["name"] == "AMD Instinct MI210")

        wait_until(is_named)
        return seen


@pytest.fixture(autouse=True)
def namespaces(tmp_path: pathlib.Path) -> None:
    if subprocess.run([*INSIDE, str(tmp_path), "true"], check=False, capture_output=True, timeout=120).returncode != 0:
        pytest.skip("no namespaces here")


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> AmdMachine:
    return AmdMachine(tmp_path)


def test_the_library_fills_what_the_kernel_leaves_open(machine: AmdMachine) -> None:
    first, second = machine.look_with_library()
    assert (first["pci_id"], first["name"]) == ("0000:43:00.0", "Instinct MI210")
    assert first["ecc_since_boot"] == {"corrected": 17, "uncorrected": 2}
    assert first["retired_pages"] == {
        "corrected": None,
        "uncorrected": None,
        "of_any_cause": 2,
        "is_pending": True,
        "has_failed": False,
    }
    assert (second["pci_id"], second["name"]) == ("0000:c3:00.0", "AMD Instinct MI210")
    assert second["ecc_since_boot"] == {"corrected": 4, "uncorrected": 1}
    assert second["retired_pages"]["of_any_cause"] == 0
    assert first["memory"]["used_bytes"] == 55834574848, "the kernel's own"
    calls = machine.calls.read_text().splitlines()
    assert (calls[0], calls[-1]) == ("rsmi_init 0", "rsmi_shut_down 0")


@pytest.mark.skipif(IS_SANITIZED, reason="builds with sanitizers have no libvram.so")
def test_memory_in_python_has_the_librarys_names(machine: AmdMachine) -> None:
    code = "import vram; print([gpu.name for gpu in vram.memory().gpus if gpu.vendor == 'amd'])"
    library = pathlib.Path(BINARY).with_name("libvram.so")
    surroundings = machine.environment(VRAM_LIBRARY=str(library), PYTHONPATH=str(ROOT / "python"))
    command = [*INSIDE, str(machine.folder / "sys"), sys.executable, "-c", code]

    def is_named() -> bool:
        machine.calls.write_text("")
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120, env=surroundings)
        return done.stdout == "['Instinct MI210', 'AMD Instinct MI210']\n"

    wait_until(is_named)
    assert machine.calls.read_text().endswith("rsmi_shut_down 0\n")


def test_every_view_has_retired_pages(machine: AmdMachine) -> None:
    bad = "0x00000001 : 0x00001000 : R\n0x00000002 : 0x00001000 : R\n0x00000009 : 0x00001000 : P\n"
    (machine.folder / "sys/class/drm/card2/device/ras/gpu_vram_bad_pages").write_text(bad)
    page = machine.status("--prometheus")
    assert 'vram_gpu_retired_pages_total{uuid="df36cd97be6d2a1e",cause="unknown"} 2' in page
    assert 'vram_gpu_page_retirement_pending{uuid="df36cd97be6d2a1e"} 1' in page
    detail = machine.status("-q")
    assert "2 for causes not told; one waits for a reset" in detail
    assert "a bad page of the memory waits to be retired" in machine.status()


def test_without_the_library(machine: AmdMachine) -> None:
    first, second = machine.look(VRAM_ROCM_SMI="/nowhere/librocm_smi64.so")
    assert (first["name"], second["name"]) == ("Instinct MI210", "AMD GPU 1002:740f")
    assert first["ecc_since_boot"]["corrected"] == 17
    assert (first["retired_pages"], second["retired_pages"]) == (None, None)


@pytest.mark.parametrize("fault", ["hang rsmi_init 600000", "fail rsmi_init 8", "throw rsmi_dev_market_name_get"])
def test_a_library_that_does_not_work_is_as_none(tmp_path: pathlib.Path, fault: str) -> None:
    machine = AmdMachine(tmp_path, fault + TWO)
    first, second = machine.look()
    assert (first["name"], second["name"]) == ("Instinct MI210", "AMD GPU 1002:740f")
    assert first["memory"]["total_bytes"] == 68702699520


def test_a_sleeping_card_keeps_the_library_shut(machine: AmdMachine) -> None:
    (machine.folder / "sys/class/drm/card1/device/power/runtime_status").write_text("suspended\n")
    first, second = machine.look()
    assert (first["is_asleep"], second["is_asleep"]) == (False, True)
    assert machine.calls.read_text() == ""


def test_a_signal_lets_go_of_the_library(machine: AmdMachine) -> None:
    with subprocess.Popen(
        machine.words("--watch", "0.2", "--json"), stdout=subprocess.DEVNULL, env=machine.environment()
    ) as process:
        try:
            wait_until(lambda: "rsmi_dev_memory_reserved_pages_get 1" in machine.calls.read_text())
            process.send_signal(signal.SIGUSR1)
            wait_until(lambda: machine.calls.read_text().endswith("rsmi_shut_down 0\n"))
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=60) == 0
        finally:
            process.kill()
