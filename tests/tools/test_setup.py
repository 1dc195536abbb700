"""`make setup` on unusual machines: without apt, or with a Python newer than .venv."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from source_files import ROOT


@pytest.mark.parametrize("there", [[], ["apt-get"], ["dpkg-query"]])
def test_a_system_with_half_of_apt_is_told_what_is_needed(tmp_path: Path, there: list[str]) -> None:
    for name in there:
        (tmp_path / name).write_text("#!/bin/sh\nexit 99\n")
        (tmp_path / name).chmod(0o755)
    bash = shutil.which("bash")
    assert bash
    command = [bash, str(ROOT / "tools/setup.sh"), "python"]
    said = subprocess.run(command, env={"PATH": str(tmp_path)}, capture_output=True, text=True, timeout=60)
    assert "setup: no apt here. Needed, by their Debian names: python3 python3-venv" in said.stderr
    assert said.returncode == 0


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with the Makefile and a .venv that is ready and newer than what it is made of."""
    for name in ("Makefile", *(f"tools/{path.name}" for path in (ROOT / "tools").glob("requirements*.txt"))):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for folder in ("tools/npm", "web"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "package-lock.json").touch()
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/ready").touch()
    return tmp_path


def planned(project: Path, target: str = ".venv/ready") -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", "--dry-run", "-o", "setup-python", target]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=True, timeout=60)
    return " ".join(done.stdout.split())


def interpreter(project: Path, text: str) -> None:
    (project / ".venv/bin/python").write_text(f"#!/bin/sh\n{text}\n")
    (project / ".venv/bin/python").chmod(0o755)


def test_an_environment_whose_interpreter_runs_is_kept(project: Path) -> None:
    interpreter(project, "exit 0")
    assert "-m venv" not in planned(project)
    os.utime(project / ".venv/ready", (1, 1))  # other requirements: installed into the same environment
    assert "-m venv .venv" in planned(project)


def test_an_environment_that_an_upgrade_of_python_has_broken_is_made_anew(project: Path) -> None:
    (project / ".venv/bin/python").symlink_to("/nowhere/python3")
    assert "-m venv --clear .venv" in planned(project)
    (project / ".venv/bin/python").unlink()
    interpreter(project, "echo 'No module named pip' >&2; exit 1")  # of another version: its packages lie elsewhere
    assert "-m venv --clear .venv" in planned(project)


def test_setup_goes_on_one_step_at_a_time(project: Path) -> None:
    """apt-get refuses to run twice at once."""
    (project / "tools/setup.sh").write_text(
        "#!/bin/sh\n[ $1 != test ] || exit 0\nmkdir running || exit 9\nsleep 0.3\nrmdir running\n"
    )
    (project / "tools/setup.sh").chmod(0o755)
    interpreter(project, "exit 0")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", "-j4", "setup"]
    said = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=60)
    assert said.returncode == 0, said.stderr


def test_a_new_environment_is_made(project: Path) -> None:
    shutil.rmtree(project / ".venv")
    assert "-m venv .venv" in planned(project)
