"""`vram demo` and `--gpu sim`: the recordings that are installed with the program, and the error if they are missing.

VRAM_BINARY names the program under test.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from program import BINARY, DEMOS, ROOT, environment, vram, vram_json

UNET = ROOT / "demo" / "unet_multiscale.pickle.xz"
LEAK = ROOT / "demo" / "leak.stacks.pickle.xz"


def in_root(*words: object) -> "subprocess.CompletedProcess[str]":
    """In the sources' folder, where the recordings have short paths."""
    command = [BINARY, *map(str, words)]
    return subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False, timeout=120
    )


def printed(command: str, path: Path) -> str:
    short = path.relative_to(ROOT)
    return f"\n$ vram {command} {short}\n{in_root(command, short).stdout}"


def test_it_prints_what_the_commands_print() -> None:
    done = in_root("demo")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == printed("report", UNET) + printed("report", LEAK) + printed("tune", UNET)


def test_one_recording() -> None:
    assert in_root("demo", "leak").stdout == printed("report", LEAK)


def test_a_reader_that_leaves_is_no_error() -> None:
    done = subprocess.run(
        ["sh", "-c", '{ "$0" demo; echo "code $?" >&2; } | head -2', BINARY],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout == f"\n$ vram report {UNET.relative_to(ROOT)}\n"
    assert done.stderr == "code 0\n"


def test_elsewhere_the_paths_are_absolute_and_can_be_read(tmp_path: Path) -> None:
    done = subprocess.run(
        [BINARY, "demo", "--list"], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120
    )
    listed = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert sorted(listed) == ["leak", "unet"]
    assert sorted(Path(path).resolve() for path in listed.values()) == DEMOS
    assert all(Path(path).is_absolute() for path in listed.values())


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """An installation whose name a shell would take apart; without the recordings."""
    folder = tmp_path / "it's here"
    (folder / "bin").mkdir(parents=True)
    shutil.copy(BINARY, folder / "bin" / "vram")
    return folder


def run(prefix: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [str(prefix / "bin" / "vram"), *words]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, check=False, timeout=120)


def test_an_installation_is_found_from_the_program(prefix: Path) -> None:
    shutil.copytree(ROOT / "demo", prefix / "share" / "vram" / "demo")
    done = run(prefix, "demo", "leak")
    assert done.returncode == 0, done.stderr
    command = done.stdout.splitlines()[1]
    assert command.startswith("$ vram report ")
    words = subprocess.run(
        ["sh", "-c", f"printf '%s\\n' {command[2:]}"], capture_output=True, text=True, check=True, timeout=60
    )
    assert words.stdout.splitlines() == ["vram", "report", str(prefix / "share/vram/demo/leak.stacks.pickle.xz")]


def test_without_the_recordings_it_says_where_they_should_be(prefix: Path) -> None:
    done = run(prefix, "demo")
    assert (done.returncode, done.stdout) == (3, "")
    assert f"no {prefix}/share/vram/demo/unet_multiscale.pickle.xz" in done.stderr
    assert "install vram with pip" in done.stderr
    played = run(prefix, "status", "--gpu", "sim")
    assert played.returncode == 2
    assert f"no {prefix}/share/vram/demo/unet_multiscale.pickle.xz" in played.stderr


def test_the_simulated_gpu_plays_the_first_one() -> None:
    status = vram_json("status", "--gpu", "sim")
    (device,) = status["devices"]
    assert (device["vendor"], device["name"]) == ("simulated", "simulated GPU (demo unet)")
    named = vram_json("status", "--gpu", f"sim:{UNET}")["devices"][0]
    assert device["memory"]["total_bytes"] == named["memory"]["total_bytes"]
    assert status["notes"] == []


# How much of the name 80 columns show depends on how wide the figures are at that moment.
@pytest.mark.parametrize(("columns", "name"), [("80", "simulated GPU"), ("120", "simulated GPU (demo unet)")])
def test_the_screens_say_what_is_played(columns: str, name: str) -> None:
    for words in (["status"], ["top", "--once"]):
        screen = vram(*words, "--gpu", "sim", COLUMNS=columns).stdout
        assert name in screen, screen


def test_metrics_name_it() -> None:
    page = vram("status", "--prometheus", "--gpu", "sim").stdout
    assert 'name="simulated GPU (demo unet)"' in page, page


def test_an_empty_name_is_refused() -> None:
    done = vram("status", "--gpu", "sim:")
    assert done.returncode == 2
    assert "--gpu sim:" in done.stderr, done.stderr


def test_the_bundle_is_small() -> None:
    """It is in every wheel."""
    assert sum(os.stat(path).st_size for path in DEMOS) < 3 << 20
