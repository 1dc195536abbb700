"""Commands replace only files that vram wrote, whatever the path names.

VRAM_BINARY names the program under test.
"""

from __future__ import annotations

import os
import resource
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from program import BINARY, DEMOS, IS_SANITIZED, ROOT, environment, vram

DEMO = DEMOS[0]
STARTUP = ROOT / "python" / "vram" / "_startup"
WEIGHTS = b"PK\x03\x04 six months of training"
VTRACE = b"\x89vtrace\n"

Command = Callable[..., "subprocess.CompletedProcess[str]"]


def report(out: object, *more: object) -> subprocess.CompletedProcess[str]:
    return vram("report", DEMO, "-o", out, *more)


def report_json(out: object, *more: object) -> subprocess.CompletedProcess[str]:
    return vram("report", DEMO, "--json", "-o", out, *more)


def replay(out: object, *more: object) -> subprocess.CompletedProcess[str]:
    return vram("replay", DEMO, "--json", "-o", out, *more)


def tune(out: object, *more: object) -> subprocess.CompletedProcess[str]:
    return vram("tune", DEMO, "--capacity", "8GiB", "-o", out, *more)


def doctor(out: object, *more: object) -> subprocess.CompletedProcess[str]:
    return vram("doctor", "-o", out, *more)


def convert(out: object, *more: object) -> subprocess.CompletedProcess[str]:
    return vram("convert", DEMO, out, *more)


def record(out: object, *more: object) -> subprocess.CompletedProcess[str]:
    return vram("run", "--record", out, *more, "--", "true", VRAM_STARTUP=str(STARTUP))


COMMANDS = [report, report_json, replay, tune, doctor, convert, record]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_vram_did_not_write_stays(command: Command, tmp_path: Path) -> None:
    weights = tmp_path / "weights.csv"
    weights.write_bytes(WEIGHTS)
    done = command(weights)
    assert done.returncode == 2
    assert f"{weights} was not written by vram and is left unchanged" in done.stderr
    assert weights.read_bytes() == WEIGHTS
    assert [path.name for path in tmp_path.iterdir()] == ["weights.csv"]


@pytest.mark.parametrize("command", [report, replay, tune, convert, record])
def test_force_replaces_it(command: Command, tmp_path: Path) -> None:
    weights = tmp_path / "weights.csv"
    weights.write_bytes(WEIGHTS)
    assert ", or add --force\n" in command(weights).stderr
    done = command(weights, "--force")
    assert done.returncode == 0, done.stderr
    assert not weights.exists() or weights.read_bytes() != WEIGHTS


@pytest.mark.parametrize("command", COMMANDS)
def test_what_it_wrote_itself_is_replaced(command: Command, tmp_path: Path) -> None:
    for name in ("out.csv", "out.jsonl", "out.vtrace") if command is convert else ("out",):
        done = command(tmp_path / name)
        again = command(tmp_path / name)
        assert done.returncode == again.returncode, (again.returncode, again.stderr)
        assert again.stderr == done.stderr


def test_what_is_refused_is_refused_before_the_work(tmp_path: Path) -> None:
    """A tuning takes long; a file that can't be read shows that nothing was read yet."""
    (tmp_path / "notes").write_text("mine")
    done = vram("tune", tmp_path / "missing.pickle", "-o", tmp_path / "notes")
    assert "notes was not written by vram" in done.stderr


# vram wrote the recording itself, so that it could replace it.
@pytest.mark.parametrize(
    "words",
    [
        ("report", "run.vtrace", "-o", "run.vtrace"),
        ("report", "run.vtrace", "--html", "./run.vtrace"),
        ("report", "run.vtrace", "--svg", "link.vtrace", "--force"),
        ("report", "other.vtrace", "run.vtrace", "--json", "-o", "run.vtrace"),
        ("report", "runs", "-o", "runs/run.vtrace"),
        ("diff", "other.vtrace", "run.vtrace", "-o", "run.vtrace"),
        ("diff", "other.vtrace", "run.vtrace", "--save-baseline", "run.vtrace"),
        ("diff", "run.vtrace", "--save-baseline", "run.vtrace"),
        ("diff", "other.vtrace", "runs", "--junit", "runs/run.vtrace"),
        ("diff", "other.vtrace", "run.vtrace", "--html", "run.vtrace"),
        ("diff", "base.toml", "run.vtrace", "--sarif", "base.toml"),
        ("replay", "run.vtrace", "-o", "run.vtrace"),
        ("tune", "run.vtrace", "--capacity", "8GiB", "-o", "run.vtrace"),
        ("plan", "run.vtrace", "-o", "run.vtrace"),
        ("convert", "run.vtrace", "run.vtrace"),
    ],
    ids=" ".join,
)
def test_an_input_is_never_the_output(words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs"
    folder.mkdir()
    for path in (tmp_path / "run.vtrace", tmp_path / "other.vtrace", folder / "run.vtrace"):
        assert vram("convert", DEMO, path).returncode == 0
    (tmp_path / "link.vtrace").symlink_to("run.vtrace")
    assert vram("diff", tmp_path / "run.vtrace", "--save-baseline", tmp_path / "base.toml").returncode == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    done = vram(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "input and output are the same file; name another output" in done.stderr
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    "words",
    [
        ("-o", "new.txt", "--junit", "./new.txt"),
        ("--sarif", "old.txt", "--html", "link.txt", "--force"),
        ("--junit", "new.txt", "--save-baseline", "new.txt"),
    ],
    ids=" ".join,
)
def test_two_outputs_are_never_the_same_file(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to("old.txt")
    done = vram("diff", DEMO, DEMO, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "two outputs are the same file; name another one" in done.stderr
    assert not (tmp_path / "new.txt").exists()
    assert (tmp_path / "old.txt").read_text() == "old"
    for_devices = vram("diff", DEMO, DEMO, "--junit", "/dev/null", "--sarif", "/dev/null", "--force")
    assert for_devices.returncode == 0, for_devices.stderr


def test_the_last_line_of_a_text_says_who_wrote_it(tmp_path: Path) -> None:
    report(tmp_path / "report.txt")
    text = (tmp_path / "report.txt").read_text()
    assert text.splitlines()[-1].startswith("Written by vram ")
    assert text.startswith(vram("report", DEMO).stdout[:40])
    report_json(tmp_path / "report.json")
    assert "Written by" not in (tmp_path / "report.json").read_text()


@pytest.mark.parametrize("command", [report, report_json, replay, convert])
def test_a_pipe_is_written_in_place(command: Command, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    done = command(pipe)
    reader.join(60)
    assert done.returncode == 0, done.stderr
    assert len(read[0]) > 100
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_device_stays_one(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a device")
    null = tmp_path / "null.csv"
    os.mknod(null, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    for command in (report, replay, convert, record):
        done = command(null)
        assert done.returncode == 0, done.stderr
        assert stat.S_ISCHR(null.stat().st_mode)
    assert [path.name for path in tmp_path.iterdir()] == ["null.csv"]


def test_standard_output_by_its_name_comes_in_order(tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    words = f"echo first; '{BINARY}' report '{DEMO}' --json -o /dev/stdout; echo last"
    with out.open("w") as file:
        subprocess.run(["sh", "-c", words], stdout=file, check=True, timeout=120, env=environment())
    lines = out.read_text().splitlines()
    assert (lines[0], lines[1], lines[-1]) == ("first", "{", "last")


def test_a_link_stays_and_the_file_behind_it_is_replaced(tmp_path: Path) -> None:
    link, target = tmp_path / "link.json", tmp_path / "target.json"
    link.symlink_to("target.json")
    for _ in range(2):
        assert report_json(link).returncode == 0
        assert link.is_symlink()
        assert target.read_text().startswith("{")
    target.write_bytes(WEIGHTS)
    assert report_json(link).returncode == 2
    assert target.read_bytes() == WEIGHTS


def limit_file_sizes() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))


def test_a_limit_of_file_sizes_is_an_error(tmp_path: Path) -> None:
    words = [str(word) for word in (BINARY, "convert", DEMO, tmp_path / "out.csv")]
    done = subprocess.run(
        words, capture_output=True, text=True, preexec_fn=limit_file_sizes, timeout=120, check=False, env=environment()
    )
    assert done.returncode == 2, (done.returncode, done.stderr)
    assert "out.csv: File too large" in done.stderr
    assert list(tmp_path.iterdir()) == []


LOCKS = """
import fcntl, sys, time
file = open(sys.argv[1], "rb+")
fcntl.flock(file, fcntl.LOCK_EX)
print("locked", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("command", COMMANDS)
def test_a_recording_that_runs_is_not_replaced(command: Command, tmp_path: Path) -> None:
    running = tmp_path / "run.csv"
    running.write_bytes(VTRACE)
    with subprocess.Popen([sys.executable, "-c", LOCKS, running], stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"locked\n"
        for words in ([], ["--force"]):
            if words and command is doctor:
                continue
            done = command(running, *words)
            assert done.returncode == 2
            assert "is being written by another recording or command" in done.stderr
        process.kill()
    assert running.read_bytes() == VTRACE


def test_permissions_stay(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    report_json(out)
    out.chmod(0o640)
    report_json(out)
    assert stat.S_IMODE(out.stat().st_mode) == 0o640


@pytest.mark.skipif(IS_SANITIZED, reason="builds with sanitizers have no libvram.so")
def test_vram_record_in_python(tmp_path: Path) -> None:
    weights = tmp_path / "weights.pt"
    weights.write_bytes(WEIGHTS)
    code = """
import sys, vram
path = sys.argv[1]
try:
    vram.record(path)
except vram.VramError as error:
    print(error)
assert not vram.is_recording()
with vram.record(path, force=True):
    try:
        vram.record(path)
    except vram.VramError as error:
        print(error)
"""
    library = Path(BINARY).with_name("libvram.so")
    done = subprocess.run(
        [sys.executable, "-c", code, weights],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env=environment(VRAM_LIBRARY=str(library), PYTHONPATH=str(ROOT / "python")),
    )
    refused, running = done.stdout.splitlines()
    assert "weights.pt was not written by vram" in refused
    assert "is being recorded already" in running
    assert weights.read_bytes().startswith(VTRACE)
