"""vram status --watch: processes that come and go, devices and drivers that disappear and return, a driver that hangs.

VRAM_BINARY names the program under test.
"""

import pathlib
import subprocess

import pytest
from fake_gpus import GENERATIONS, MIB, Machine, Watch, wait_until
from program import BINARY, environment, started

TWO = (
    "device 0\nname First\nuuid GPU-0\ntotal 1000M\nused {}M\ndevice 1\nname Second\nuuid GPU-1\ntotal 500M\nused 20M\n"
)
LOST = TWO + "lost\n"
FIRST, SECOND = 3_000_000_001, 3_000_000_002  # no kernel gives such pids


def one(*processes: tuple[int, int]) -> str:
    used = sum(size for _, size in processes)
    lines = [f"process compute {pid} {size}M" for pid, size in processes]
    return "\n".join([f"device 0\nname First\nuuid GPU-0\ntotal 1000M\nused {used}M\nreserved 0", *lines, ""])


@pytest.mark.parametrize("generation", GENERATIONS)
def test_processes_come_and_go(generation: str, tmp_path: pathlib.Path) -> None:
    machine = Machine(tmp_path, one((FIRST, 100)), generation)
    with Watch(machine) as watch:

        def pids_become(*pids: int) -> list[int]:
            document = watch.until(lambda found: [each["pid"] for each in found["processes"]] == list(pids))
            assert document["devices"][0]["unattributed_bytes"] == 0
            return [each["uses"][0]["used_bytes"] // MIB for each in document["processes"]]

        assert pids_become(FIRST) == [100]
        machine.become(one((FIRST, 150), (SECOND, 30)))
        assert pids_become(FIRST, SECOND) == [150, 30]
        machine.become(one((SECOND, 40)))
        assert pids_become(SECOND) == [40]
        machine.become(one())
        assert pids_become() == []
        assert watch.interrupt() == 0


def test_ticks_keep_their_period(tmp_path: pathlib.Path) -> None:
    with Watch(Machine(tmp_path, one())) as watch:
        times = [watch.until(lambda _: True)["time_unix_ns"] for _ in range(11)]
    assert 1.9 < (times[-1] - times[0]) / 1e9 < 6  # ten of 0.2 s; a busy machine makes some late, none early


def test_traffic_is_told_after_a_few_looks(tmp_path: pathlib.Path) -> None:
    machine = Machine(tmp_path, one() + "gpm 37.4 1000 0.5 30 40\npcie 5 6\npcie-bits 32\n")
    with Watch(machine) as watch:
        first = watch.until(lambda _: True)["devices"][0]
        assert (first["memory_bandwidth_percent"], first["pcie_sent_bytes_per_second"]) == (None, None)
        device = watch.until(lambda found: found["devices"][0]["memory_bandwidth_percent"] is not None)["devices"][0]
    assert (device["memory_bandwidth_percent"], device["pcie_sent_bytes"]) == (37, None)
    assert (device["pcie_sent_bytes_per_second"], device["pcie_received_bytes_per_second"]) == (1000 * MIB, MIB // 2)
    assert (device["nvlink_sent_bytes_per_second"], device["nvlink_received_bytes_per_second"]) == (30 * MIB, 40 * MIB)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_device_falls_off_the_bus_and_comes_back(generation: str, tmp_path: pathlib.Path) -> None:
    machine = Machine(tmp_path, TWO.format(300), generation)
    with Watch(machine) as watch:
        watch.until(lambda found: found["devices"][1]["error"] is None)
        machine.become(LOST.format(310))
        first, second = watch.until(lambda found: found["devices"][1]["error"] is not None)["devices"]
        assert (first["error"], first["memory"]["used_bytes"]) == (None, 310 * MIB)
        assert second["error"] == "GPU is lost (15)"
        assert (second["index"], second["name"], second["process_count"]) == (1, "Second", None)
        assert set(second["memory"].values()) == {None}
        machine.become(TWO.format(320))
        second = watch.until(lambda found: found["devices"][1]["error"] is None)["devices"][1]
        assert second["memory"]["used_bytes"] == 20 * MIB
        assert watch.interrupt() == 0


def test_the_driver_is_unloaded_and_loaded_again(tmp_path: pathlib.Path) -> None:
    machine = Machine(tmp_path, "version 1.0\n" + TWO.format(300))
    with Watch(machine) as watch:
        watch.until(lambda found: found["devices"][0]["error"] is None)
        machine.become("driver unloaded\n" + TWO.format(300))
        gone = watch.until(lambda found: found["notes"] and all(each["error"] for each in found["devices"]))
        assert [each["name"] for each in gone["devices"]] == ["First", "Second"]
        assert gone["notes"][0].startswith("nvml: ")
        machine.become("version 2.0\n" + TWO.format(300) + "device 2\nname Third\nuuid GPU-2\ntotal 100M\nused 7M\n")
        back = watch.until(lambda found: found["devices"][0]["error"] is None)
        assert [each["name"] for each in back["devices"]] == ["First", "Second", "Third"]
        assert {each["driver"] for each in back["devices"]} == {"2.0"}
        assert back["notes"] == []
        assert watch.interrupt() == 0


def test_watching_begins_before_there_is_a_driver(tmp_path: pathlib.Path) -> None:
    machine = Machine(tmp_path, "driver unloaded\n")
    with Watch(machine) as watch:
        assert "load NVIDIA's kernel module" in watch.until(lambda found: found["devices"] == [])["notes"][0]
        machine.become(one((FIRST, 1)))
        assert watch.until(lambda found: found["devices"] != [])["devices"][0]["name"] == "First"


def test_a_hanging_driver_holds_up_nobody_who_leaves(tmp_path: pathlib.Path) -> None:
    machine = Machine(tmp_path, one((FIRST, 100)))
    hangs = "nvmlDeviceGetMemoryInfo_v2"
    with Watch(machine) as watch:
        watch.until(lambda found: found["devices"] != [])
        machine.become(f"hang {hangs} 600000\n" + one((FIRST, 100)))
        wait_until(lambda: machine.last_call() == f"{hangs} 0")
        assert watch.interrupt() == 0  # within 5 s


def test_a_reader_that_leaves_ends_it(tmp_path: pathlib.Path) -> None:
    machine = Machine(tmp_path, one((FIRST, 100)))
    words = [BINARY, "status", "--gpu", "nvml", "--watch", "0.1", "--csv"]
    with started(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(**machine.environment)
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        lines = [process.stdout.readline() for _ in range(3)]
        process.stdout.close()
        assert process.wait(timeout=10) == 0
        assert process.stderr.read() == ""
    assert [line.startswith("time_unix_ns,host,") for line in lines] == [True, False, False]  # one head for all
