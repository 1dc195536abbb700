"""vram status --prometheus: promtool and Prometheus's Python client accept the page; its options.

VRAM_BINARY names the program under test; tests/fake_nvml is the library.
"""

import pathlib
import re
import subprocess

import pytest
from fake_gpus import GENERATIONS, MIB, Machine
from metrics_page import EVERYTHING, GOLDEN, page_of
from program import vram
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

SCENARIO = EVERYTHING.format(pid=3_000_000_001)
Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture(name="machine", params=GENERATIONS)
def fixture_machine(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Machine:
    return Machine(tmp_path, SCENARIO, request.param)


def lint(page: str) -> list[str]:
    """What promtool says of a page; it ends with 3 where that is about style alone."""
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=page, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode in (0, 3), done.stderr
    assert (done.returncode == 0) == (done.stdout + done.stderr == "")
    return (done.stdout + done.stderr).splitlines()


def series_of(page: str) -> Series:
    found = [sample for family in parse_text(page) for sample in family.samples]
    series = {(sample.name, frozenset(sample.labels.items())): sample.value for sample in found}
    assert len(series) == len(found)
    return series


def value(page: str, name: str, **labels: str) -> float | None:
    return series_of(page).get((name, frozenset(labels.items())))


def test_promtool_has_nothing_to_say(machine: Machine) -> None:
    assert lint(page_of(machine)) == []
    assert lint(page_of(machine, "--process-series", "9")) == []


@pytest.mark.parametrize("name", ["full.prom", "dcgm.prom"])
def test_promtool_reads_the_expected_pages(name: str) -> None:
    for complaint in lint((GOLDEN / name).read_text()):
        assert complaint.startswith("DCGM_FI_")


def test_dcgm_names_break_the_style_as_dcgm_exporters_own_do(machine: Machine) -> None:
    complaints = lint(page_of(machine, "--dcgm-names"))
    style = r"(DCGM_FI_\w+) (label names should be written in 'snake_case' not 'camelCase'|counter metrics should have \"_total\" suffix)"
    assert complaints
    for complaint in complaints:
        assert re.fullmatch(style, complaint), complaint


@pytest.mark.parametrize(
    ("text", "openmetrics"), [("full.prom", "full.openmetrics"), ("dcgm.prom", "dcgm.openmetrics")]
)
def test_the_python_client_reads_openmetrics(text: str, openmetrics: str) -> None:
    families = list(parse_openmetrics((GOLDEN / openmetrics).read_text()))  # type: ignore[no-untyped-call]
    found = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }
    # Reading the text format the client gives every counter its ending, DCGM's too.
    known = series_of((GOLDEN / text).read_text())
    assert found == {
        (re.sub("^(DCGM.*)_total$", r"\1", name), labels): value for (name, labels), value in known.items()
    }
    units = {family.name: family.unit for family in families}
    assert units["vram_gpu_memory_used_bytes"] == "bytes"
    assert units["vram_gpu_pcie_sent_bytes"] == "bytes"
    assert units["vram_gpu_processes"] == ""
    assert {family.type for family in families} <= {"gauge", "counter", "info", "unknown"}


def test_figures(machine: Machine) -> None:
    page = page_of(machine, "--process-series", "1")
    reserved = value(page, "vram_gpu_memory_reserved_bytes", uuid="GPU-0")
    used = value(page, "vram_gpu_memory_used_bytes", uuid="GPU-0")
    free = value(page, "vram_gpu_memory_free_bytes", uuid="GPU-0")
    assert (used, reserved) in [(700 * MIB, 50 * MIB), (750 * MIB, None)]  # the oldest structs don't tell
    assert free == 250 * MIB
    assert value(page, "vram_gpu_power_watts", uuid="GPU-0") == 300
    assert value(page, "vram_gpu_utilization_ratio", uuid="GPU-0") == 0.37
    assert value(page, "vram_gpu_core_clock_hertz", uuid="GPU-0") == 1.98e9
    assert value(page, "vram_gpu_up", uuid="GPU-0") == 1
    assert value(page, "vram_gpu_throttle_active", uuid="GPU-0", reason="power cap") == 1
    assert value(page, "vram_gpu_throttle_active", uuid="GPU-0", reason="hardware thermal") == 0
    assert value(page, "vram_process_memory_used_bytes", uuid="GPU-0", pid="3000000001") == 500 * MIB
    assert value(page, "vram_process_info", pid="3000000002") is None
    assert value(page, "vram_gpu_other_process_memory_bytes", uuid="GPU-0") == 30 * MIB


def test_a_lost_gpu_says_nothing_else(machine: Machine) -> None:
    page = page_of(machine)
    lost = [name for (name, labels) in series_of(page) if ("uuid", "device-2") in labels]
    assert sorted(lost) == ["vram_gpu_asleep", "vram_gpu_error_info", "vram_gpu_info", "vram_gpu_up"]
    assert value(page, "vram_gpu_up", uuid="device-2") == 0


@pytest.mark.parametrize("seed", range(20))
def test_what_a_mad_library_says_can_be_read(seed: int, tmp_path: pathlib.Path) -> None:
    machine = Machine(tmp_path, SCENARIO)
    done = machine.status("--prometheus", "--dcgm-names", "--process-series", "9", FAKE_NVML_CHAOS=str(seed))
    assert done.returncode in (0, 3)
    assert all(complaint.startswith("DCGM_FI_") for complaint in lint(done.stdout))
    series = series_of(done.stdout)
    for (name, labels), figure in series.items():
        assert figure == figure
        total = series.get(("vram_gpu_memory_total_bytes", frozenset(each for each in labels if each[0] == "uuid")))
        if total is not None and re.fullmatch(r"vram_(gpu_memory|process|gpu_mig_memory|pod).*_bytes", name):
            assert figure <= total


def test_without_a_gpu_the_page_says_so(tmp_path: pathlib.Path) -> None:
    done = vram("status", "--gpu", "nvml", "--prometheus", VRAM_NVML=str(tmp_path / "nowhere"))
    assert done.returncode == 3
    assert "warning" in done.stderr
    assert value(done.stdout, "vram_exporter_devices") == 0
    assert value(done.stdout, "vram_exporter_source_failing", source="nvml") == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--prometheus", "--json"), "--prometheus and --json exclude each other"),
        (("--prometheus", "--csv"), "--prometheus and --csv exclude each other"),
        (("--prometheus", "-q"), "--prometheus and -q exclude each other"),
        (("--prometheus", "--watch", "1"), "--prometheus and --watch exclude each other"),
        (("--dcgm-names",), "--dcgm-names requires --prometheus"),
        (("--process-series", "3"), "--process-series requires --prometheus"),
        (("--prometheus", "--process-series", "many"), "--process-series"),
        (("--prometheus", "--process-series", "4294967296"), "--process-series"),
    ],
)
def test_forms_that_exclude_each_other(options: tuple[str, ...], words: str) -> None:
    done = vram("status", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
