"""vram status, once: its output with each generation of the management library, and without one.

VRAM_BINARY names the program under test; tests/fake_nvml is the library.
"""

import csv
import io
import json
import pathlib
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from fake_gpus import GENERATIONS, MIB, Machine
from program import vram

TWO = """
version 550.54.15
device 0
name NVIDIA H200
uuid GPU-0
pci 0 0x19 0
total 1000M
used 300M
reserved 50M
utilization 37 12
celsius 45
clocks 1980 2619
milliwatts 300000
power-limit 700000
throttle 0x4
bar1 2000M 10M
ecc 1 0 5 2
persistence on
process compute 3000000001 200M max max 40
process graphics 3000000001 200M
process compute 3000000002 30M
process compute 3000000003 2000M
device 1
name NVIDIA H200
uuid GPU-1
pci 0 0x2a 0
total 1000M
used 700M
reserved 50M
process compute 3000000001 400M
"""
# Pids that no kernel gives.
BOTH, SMALL, TOO_LARGE = 3_000_000_001, 3_000_000_002, 3_000_000_003


@pytest.fixture(name="machine", params=GENERATIONS)
def fixture_machine(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Machine:
    machine = Machine(tmp_path, TWO, request.param)
    machine.environment["GENERATION"] = request.param
    return machine


def tells_reserved(machine: Machine) -> bool:
    """The oldest structs have no such figure; used has it in it."""
    return machine.environment["GENERATION"] != "1"


def test_figures_are_exact(machine: Machine) -> None:
    first, second = machine.look()["devices"]
    reserved = 50 * MIB if tells_reserved(machine) else None
    used = 300 * MIB if reserved else 350 * MIB
    assert first["memory"] == {
        "total_bytes": 1000 * MIB,
        "used_bytes": used,
        "free_bytes": 650 * MIB,
        "reserved_bytes": reserved,
    }
    assert first["unaccounted_bytes"] == (0 if reserved else None)
    assert (first["uuid"], first["pci_id"], first["driver"]) == ("GPU-0", "0000:19:00.0", "550.54.15")
    assert (first["busy_percent"], first["temperature_celsius"], first["power_milliwatts"]) == (37, 45, 300_000)
    assert (first["core_mhz"], first["memory_mhz"], first["throttle_reasons"]) == (1980, 2619, ["power cap"])
    assert first["ecc_ever"] == {"corrected": 5, "uncorrected": 2}
    assert first["is_persistent"] is True
    for unsaid in ("busy_percent", "temperature_celsius", "power_milliwatts", "throttle_reasons", "is_persistent"):
        assert second[unsaid] is None, unsaid
    assert second["unattributed_bytes"] == (300 * MIB if reserved else 350 * MIB)


def test_processes_and_what_cannot_be(machine: Machine) -> None:
    document = machine.look()
    uses = {process["pid"]: process["uses"] for process in document["processes"]}
    assert list(uses) == [BOTH, SMALL, TOO_LARGE]
    first, second = uses[BOTH]
    assert (first["device"], first["used_bytes"], first["busy_percent"]) == (0, 200 * MIB, 40)
    assert (first["is_compute"], first["is_graphics"]) == (True, True)
    assert (second["device"], second["used_bytes"], second["is_graphics"]) == (1, 400 * MIB, False)
    assert uses[TOO_LARGE][0]["used_bytes"] is None  # more than the device has
    assert document["devices"][0]["process_count"] == 3
    assert document["devices"][0]["unattributed_bytes"] is None  # with one unknown, so is what remains


def test_clients_of_mps_are_told(machine: Machine) -> None:
    machine.become(TWO + f"process mps {BOTH} 400M\n")
    uses = machine.look()["processes"][0]["uses"]
    has_mps = machine.environment["GENERATION"] != "1"
    assert [use["is_mps"] for use in uses] == [False, has_mps]
    assert ("compute (MPS client)" in machine.status("-q").stdout) == has_mps
    page = machine.status("--prometheus", "--process-series", "5").stdout
    device, gpu = uses[1]["device"], "GPU-" + str(uses[1]["device"])
    assert (f'vram_gpu_mps_clients{{uuid="{gpu}"}} 1\n' in page) == has_mps
    assert (f'vram_process_mps_client{{uuid="{gpu}",pid="{BOTH}"}} 1\n' in page) == has_mps
    assert page.count("\nvram_process_mps_client{") == page.count("\nvram_gpu_mps_clients{") == int(has_mps)
    words = ("top", "--once", "--gpu", "nvml", "--filter", f"type:mps gpu:{device}")
    assert ("M+C" in vram(*words, **machine.environment).stdout) == has_mps


def test_text(machine: Machine) -> None:
    done = machine.status()
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].endswith("UTC  driver 550.54.15")
    first = [line.split() for line in lines if line.startswith("0 ")]
    reserved = ["50", "MiB"] if tells_reserved(machine) else ["-"]
    used = "300" if tells_reserved(machine) else "350"
    figures = [used, "MiB", *reserved, "650", "MiB", "1000", "MiB", "37", "%", "45", "C", "300", "W", "/", "700", "W"]
    assert first == [["0", "NVIDIA", "H200", *figures]]
    assert "▲ clocks held down: power cap" in done.stdout
    hidden = [line.split()[0] for line in lines if "hidden: gone, or in another pid namespace" in line]
    assert hidden == [str(BOTH), str(SMALL), str(TOO_LARGE), str(BOTH)]
    assert max(map(len, lines)) <= 100


def test_detail_is_exact(machine: Machine) -> None:
    detail = machine.status("-q").stdout
    used = "300 MiB (314,572,800 B)" if tells_reserved(machine) else "350 MiB (367,001,600 B)"
    assert re.search(rf"^    used +{re.escape(used)}$", detail, re.MULTILINE)
    assert re.search(r"^  BAR1\n    total +1\.95 GiB \(2,097,152,000 B\)$", detail, re.MULTILINE)
    assert re.search(r"^    power limit +700 W$", detail, re.MULTILINE)
    assert re.search(rf"^  process {SMALL}$", detail, re.MULTILINE)


def test_csv_has_a_row_for_each_use(machine: Machine) -> None:
    done = machine.status("--csv")
    assert (done.returncode, done.stderr) == (0, "")
    rows = list(csv.DictReader(io.StringIO(done.stdout, newline="")))
    uses = [(row["device"], row["pid"], row["used_bytes"]) for row in rows]
    assert uses == [
        ("0", str(BOTH), str(200 * MIB)),
        ("0", str(SMALL), str(30 * MIB)),
        ("0", str(TOO_LARGE), ""),
        ("1", str(BOTH), str(400 * MIB)),
    ]
    assert rows[0]["device_reserved_bytes"] == (str(50 * MIB) if tells_reserved(machine) else "")
    assert rows[3]["device_free_bytes"] == str(250 * MIB)


def test_parts_of_a_device(tmp_path: pathlib.Path) -> None:
    parts = "mig on\npart 1 0 500M 110M 3g.71gb\npart 2 0 400M 20M 2g.35gb\n"
    users = "process compute 3000000001 100M 1 0\nprocess compute 3000000001 10M 2 0\n"
    machine = Machine(tmp_path, f"device 0\nname H\nuuid GPU-0\ntotal 1000M\nused 130M\nreserved 0\n{parts}{users}")
    document = machine.look()
    device = document["devices"][0]
    instances = [
        (part["gpu_instance"], part["profile"], part["memory"]["used_bytes"]) for part in device["mig_instances"]
    ]
    assert instances == [(1, "3g.71gb", 110 * MIB), (2, "2g.35gb", 20 * MIB)]
    uses = document["processes"][0]["uses"]
    assert [(use["gpu_instance"], use["used_bytes"]) for use in uses] == [(1, 100 * MIB), (2, 10 * MIB)]
    assert (device["process_count"], device["unattributed_bytes"]) == (1, 20 * MIB)
    assert "MIG 2/0 2g.35gb" in machine.status().stdout


def memories(device: Any) -> Iterator[Any]:
    """Everything that is part of the device's memory."""
    yield from device["memory"].values()
    for part in device["mig_instances"]:
        yield from part["memory"].values()


def test_whatever_the_library_answers_is_survived_and_bounded(machine: Machine) -> None:
    seen = set()
    for seed in range(50):
        done = machine.status("--json", FAKE_NVML_CHAOS=str(seed), FAKE_NVML_PROCESSES="20")
        document = json.loads(done.stdout)
        assert done.returncode == (0 if document["devices"] else 3), done.stderr
        totals = {device["index"]: device["memory"]["total_bytes"] for device in document["devices"]}
        figures = [(each["index"], bytes_) for each in document["devices"] for bytes_ in memories(each)]
        figures += [(use["device"], use["used_bytes"]) for each in document["processes"] for use in each["uses"]]
        assert [each for each in figures if None not in (each[1], totals[each[0]]) and each[1] > totals[each[0]]] == []
        seen.add(done.stdout.count("null"))
    assert len(seen) > 10  # no seed is like the other


def nothing_found(done: "subprocess.CompletedProcess[str]") -> "subprocess.CompletedProcess[str]":
    assert done.returncode == 3
    return done


def test_no_gpu_is_the_environments_fault(tmp_path: pathlib.Path) -> None:
    words, advice = (
        ("status", "--gpu", "nvml"),
        "install NVIDIA's driver, or make its libraries visible in the container",
    )
    nowhere = {"VRAM_NVML": str(tmp_path / "libnvidia-ml.so.1")}
    text = nothing_found(vram(*words, **nowhere)).stdout
    assert "no GPU was found" in text
    assert advice in " ".join(text.split())
    document = json.loads(nothing_found(vram(*words, "--json", **nowhere)).stdout)
    assert (document["devices"], len(document["notes"])) == ([], 1)
    assert document["notes"][0].endswith(advice)
    table = nothing_found(vram(*words, "--csv", **nowhere))
    assert table.stdout.count("\n") == 1
    assert table.stderr.startswith("vram: warning: nvml: ")
    assert advice in table.stderr


def test_no_driver_is_said(tmp_path: pathlib.Path) -> None:
    done = Machine(tmp_path, "driver unloaded\n").status()
    assert done.returncode == 3
    assert "load NVIDIA's kernel module, or run on a machine with a GPU" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--json", "--csv"], "--json and --csv exclude each other: use one of them"),
        (["-q", "--json"], "-q and --json exclude each other: --json prints everything already"),
        (["--watch", "soon"], "--watch: expected a time such as 1.5s, 250ms or 3min, found 'soon'"),
        (["--watch", "0.05"], "--watch takes at least 0.1 seconds, found '0.05'"),
        (["--gpu", "tpu"], "--gpu: expected nvml (NVIDIA), drm (AMD, Intel), sim or sim:RECORDING, found 'tpu'"),
        (["more"], "one argument too many: 'more'"),
    ],
)
def test_what_is_wrong_with_the_words(words: list[str], said: str) -> None:
    done = vram("status", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"vram: error: {said}")
