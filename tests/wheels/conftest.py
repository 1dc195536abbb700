"""The wheels in dist/ (`make wheels`), unpacked once, and the systems to run them on. A skipped test names what the
machine lacks. With VRAM_NO_SKIP=1, as before a release, a test that would be skipped fails.
"""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

import wheels
from debian import Lacking, debian_root, need
from portable import FOLDER
from source_files import ROOT

RECORDINGS = sorted((ROOT / "demo").glob("*.pickle.xz"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("VRAM_NO_SKIP"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome, report.longrepr = "failed", f"VRAM_NO_SKIP is set, but this test cannot run here: {reason}"
    return report


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the folder with a wheel's files as an installer leaves them; files next to the interpreter are below prefix/."""
    done: dict[str, Path] = {}

    def unpack(architecture: str) -> Path:
        if architecture not in done:
            folder = tmp_path_factory.mktemp(architecture)
            with zipfile.ZipFile(wheels.wheel_of(architecture)) as wheel:
                wheel.extractall(folder)
            (data,) = folder.glob("vram-*.data")
            shutil.copytree(data / "data", folder / "prefix")
            shutil.move(data / "scripts", folder / "prefix" / "bin")
            (folder / "prefix" / "bin" / "vram").chmod(0o755)
            done[architecture] = folder
        return done[architecture]

    return unpack


@pytest.fixture(scope="session")
def debian_11() -> Path:
    """A root with Debian 11 (glibc 2.31), Python 3.9 and pip, of this processor."""
    if os.uname().machine != "x86_64":
        pytest.skip("this machine's processor is not x86-64")
    if os.geteuid() != 0:
        pytest.skip("chroot needs root")
    try:
        return debian_root(FOLDER / "roots" / "debian-11-amd64", "bullseye", "amd64", ["python3", "python3-pip"])
    except Lacking as lacking:
        pytest.skip(str(lacking))


@pytest.fixture(scope="session")
def aarch64() -> Path:
    """A root with Debian 11 and Python 3.9 for arm64, unpacked: its programs run by qemu."""
    try:
        need("qemu-aarch64-static", "qemu-user-static")
        return debian_root(FOLDER / "roots" / "debian-11-arm64", "bullseye", "arm64", ["python3"])
    except Lacking as lacking:
        pytest.skip(str(lacking))


@pytest.fixture
def inside(debian_11: Path) -> Iterator[Path]:
    """A scratch folder inside the Debian 11 root, with the recordings."""
    folder = debian_11 / "scratch"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for recording in RECORDINGS:
        shutil.copy(recording, folder)
    yield folder
    shutil.rmtree(folder)
