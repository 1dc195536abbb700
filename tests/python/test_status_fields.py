"""vram status --fields: chosen figures, a line for each GPU or process and sample, for people and as CSV."""

import csv
import io
import os
import pathlib
import pty
import select
import signal
import subprocess
import termios
import time

import pytest
from fake_gpus import Machine
from program import BINARY, environment, vram

TWO = """device 0
name NVIDIA H200
uuid GPU-0
compute-capability 9 0
total 1000M
used 300M
utilization 37 12
milliwatts 300000
bar1 2000M 10M
process compute 3000000001 200M
process compute 3000000002 90M
device 1
name Second
uuid GPU-1
total 500M
used 20M
"""


def test_a_line_for_each_gpu(tmp_path: pathlib.Path) -> None:
    done = Machine(tmp_path, TWO).status("--fields", "used,free,busy,power,bar1.used,compute_capability")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "# index  used  free  busy  power  bar1.used  compute_capability",
        "#         MiB   MiB     %      W        MiB",
        "      0   300   700    37    300         10  9.0",
        "      1    20   480     -      -          -  -",
    ]


def test_a_line_for_each_process(tmp_path: pathlib.Path) -> None:
    done = Machine(tmp_path, TWO).status("--fields", "pid,process.used")
    rows = [line.split() for line in done.stdout.splitlines() if not line.startswith("#")]
    assert rows == [["0", "3000000001", "200"], ["0", "3000000002", "90"], ["1", "-", "-"]]


def test_number_formats_follow_the_compute_capability(tmp_path: pathlib.Path) -> None:
    machine = Machine(tmp_path, TWO)
    first, second = machine.look()["devices"]
    assert first["tensor_core_formats"] == ["FP16", "BF16", "TF32", "FP8", "INT8"]
    assert second["tensor_core_formats"] is None
    assert "tensor cores                FP16, BF16, TF32, FP8, INT8" in machine.status("-q").stdout


def test_csv_has_these_columns_only(tmp_path: pathlib.Path) -> None:
    done = Machine(tmp_path, TWO).status("--csv", "--fields", "index,used,name,throttle_reasons")
    rows = list(csv.reader(io.StringIO(done.stdout, newline="")))
    assert rows[0] == ["index", "memory.used_bytes", "name", "throttle_reasons"]
    assert [row[:3] for row in rows[1:]] == [["0", str(300 << 20), "NVIDIA H200"], ["1", str(20 << 20), "Second"]]


def test_every_listed_field_can_be_chosen(tmp_path: pathlib.Path) -> None:
    rows, _, _ = vram("status", "--fields", "list", COLUMNS="120").stdout.partition("\n\n")
    names = [line.split()[0] for line in rows.splitlines() if not line.startswith(" ")]
    assert len(names) > 90
    done = Machine(tmp_path, TWO).status("--fields", ",".join(names))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0].split()[1:] == names


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--fields", "usd"], "found 'usd' (nearest name: used)"),
        (["--fields", "temp"], "(nearest names: temperature, memory_temperature)"),
        (["--fields", "used,"], "found ''"),
        (["--fields", "used", "--json"], "--fields and --json exclude each other"),
        (["--fields", "used", "--prometheus"], "--fields and --prometheus exclude each other"),
    ],
)
def test_wrong_fields_are_errors(words: list[str], error: str) -> None:
    done = vram("status", *words)
    assert done.returncode == 2
    assert error in done.stderr


def test_samples_scroll_and_a_note_is_said_once(tmp_path: pathlib.Path) -> None:
    machine = Machine(tmp_path, TWO)
    words = [BINARY, "status", "--gpu", "nvml", "--fields", "used", "--watch", "0.1"]
    watch = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(**machine.environment)
    )
    assert watch.stdout is not None
    first = [watch.stdout.readline() for _ in range(8)]
    machine.become("driver unloaded\n")
    time.sleep(1)
    watch.send_signal(signal.SIGINT)
    _, errors = watch.communicate(timeout=60)
    assert first[:2] == ["# index  used\n", "#         MiB\n"]
    assert first[2:] == ["      0   300\n", "      1    20\n"] * 3  # the header comes once
    assert errors.count("nvml: ") == 1


def test_a_narrow_terminal_gets_what_fits_and_a_warning(tmp_path: pathlib.Path) -> None:
    machine = Machine(tmp_path, TWO)
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 30)) if hasattr(termios, "tcsetwinsize") else pytest.skip("needs Python 3.11")
    watch = subprocess.Popen(
        [BINARY, "status", "--gpu", "nvml", "--fields", "used,free,busy,temperature,power"],
        stdout=theirs,
        stderr=subprocess.PIPE,
        text=True,
        env={**environment(**machine.environment), "TERM": "xterm", "COLUMNS": "30"},
    )
    _, errors = watch.communicate(timeout=60)
    os.close(theirs)
    text = b""
    while select.select([ours], [], [], 0.2)[0]:
        try:
            text += os.read(ours, 4096)
        except OSError:
            break
    os.close(ours)
    lines = text.decode().splitlines()
    assert lines[0] == "# index  used  free  busy"
    assert max(map(len, lines)) <= 30
    assert "no room in 30 columns for temperature, power" in errors
