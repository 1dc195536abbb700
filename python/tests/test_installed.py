"""What `pip install .` must leave behind: run with the interpreter of the environment that it was installed into."""

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest

import vram

ROOT = Path(__file__).resolve().parents[2]
RECORDING = ROOT / "demo" / "leak.stacks.pickle.xz"
# What the C library brings or itself loads (libgcc_s), and nothing else, may be needed at run time.
LIBC = re.compile(r"lib(c|m|pthread|dl|rt|gcc_s)\.so\.\d+|ld-linux[\w.-]*\.so\.\d+")
# The oldest C library that a wheel built on Debian 12 must run with: RHEL 9's.
NEWEST_GLIBC = (2, 34)


def run(*command: "str | Path") -> str:
    return subprocess.run(
        [str(word) for word in command], check=True, capture_output=True, text=True, timeout=120
    ).stdout


def on_path() -> Path:
    found = shutil.which("vram", path=str(Path(sys.executable).parent))
    assert found, "no vram next to the interpreter"
    return Path(found)


def test_one_version_for_all() -> None:
    stated = re.search(r"project\(vram VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())
    assert stated
    assert vram.__version__ == stated[1]
    said = run(on_path(), "--version")
    assert re.fullmatch(rf"vram {re.escape(stated[1])} \((commit \w{{7,}}(-dirty)?|unknown commit), Release\)\n", said)
    if (ROOT / ".git").exists():
        assert "(commit " in said


def test_the_demo_needs_nothing_but_what_was_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # paths below the working directory are printed relative to it
    assert run(sys.executable, "-m", "vram", "demo") == run(on_path(), "demo")
    listed = [Path(line.split(maxsplit=1)[1]) for line in run(on_path(), "demo", "--list").splitlines()]
    sources = sorted((ROOT / "demo").glob("*.xz"))
    assert sorted((path.name, path.read_bytes()) for path in listed) == [
        (path.name, path.read_bytes()) for path in sources
    ]
    assert [path for path in listed if path.resolve() in sources] == []
    assert "simulated GPU (demo unet)" in run(on_path(), "status", "--gpu", "sim")


def test_manual_pages_and_completions_are_where_they_are_searched() -> None:
    share = on_path().parent.parent / "share"
    pages = {path.name: path.read_text() for path in (share / "man/man1").glob("vram*.1")}
    assert pages.pop("vram.1") == run(on_path(), "help", "--man")
    assert "vram-report.1" in pages
    for name, page in pages.items():
        assert page == run(on_path(), "help", "--man", name.removeprefix("vram-").removesuffix(".1"))
    for shell, path in {
        "bash": "bash-completion/completions/vram",
        "zsh": "zsh/site-functions/_vram",
        "fish": "fish/vendor_completions.d/vram.fish",
    }.items():
        assert (share / path).read_text() == run(on_path(), "completion", shell)


def test_messages_are_chinese_in_a_chinese_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    chinese_page = on_path().parent.parent / "share/man/zh_CN/man1/vram-report.1"
    for name in ("LANGUAGE", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert "用法：vram report" in run(on_path(), "help", "report")
    assert chinese_page.read_text() == run(on_path(), "help", "--man", "report")
    use = vram.DeviceUse(device=0)
    assert str(use) == "GPU 0：显存未知"
    assert re.search("[\u4e00-\u9fff]", vram.load(RECORDING).findings[0].title)


def test_the_package_is_the_installed_one() -> None:
    assert ROOT / "python" not in Path(vram.__file__).parents
    assert vram.program() == on_path().resolve()


def test_module_is_the_program() -> None:
    arguments = ["report", "--json", str(RECORDING)]
    assert run(sys.executable, "-m", "vram", *arguments) == run(on_path(), *arguments)


def test_reports_are_read_in_python() -> None:
    """Without pandas and PyArrow, which are not installed here."""
    assert vram.load(RECORDING).to_dict() == json.loads(run(on_path(), "report", "--json", RECORDING))


def test_module_passes_the_exit_code_on() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "vram", "report", "/nowhere"], capture_output=True, check=False, timeout=120
    )
    assert done.returncode == 2


def test_wheel_fits_every_python() -> None:
    metadata = distribution("vram").read_text("WHEEL") or ""
    assert re.search(r"^Tag: py3-none-\w*linux\w*$", metadata, re.MULTILINE)


def test_package_is_typed() -> None:
    assert (Path(vram.__file__).parent / "py.typed").is_file()


def test_the_adapters_sources_come_along() -> None:
    """They are compiled on the user's machine, against the user's PyTorch."""
    package = Path(vram.__file__).parent
    kept = ROOT / "python" / "vram" / "torch" / "adapter"
    sources = [path.relative_to(kept) for path in kept.rglob("*") if path.is_file()]
    assert sources
    installed = package / "torch" / "adapter"
    assert [path for path in sources if (installed / path).read_text() != (kept / path).read_text()] == []
    header = Path("vram") / "vram.h"
    assert (package / "include" / header).read_text() == (ROOT / "include" / header).read_text()


def test_run_finds_the_package_beside_the_program(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("print('imported')\n")  # no PyTorch that a pool could be under
    command = [str(on_path()), "run", "--pool", "--", sys.executable, "-c", "import torch"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=120)
    assert (done.returncode, done.stdout) == (0, "imported\n")
    assert re.fullmatch("vram: the program runs without the pool: .*\n", done.stderr)


def test_pytest_finds_the_plug_in(tmp_path: Path) -> None:
    assert "--vram-max" in run(sys.executable, "-m", "pytest", "--help", "--rootdir", tmp_path)


def test_without_pytorch_enable_says_so() -> None:
    with pytest.raises(vram.VramError, match="torch can't be imported"):
        vram.enable()
    assert not vram.is_enabled()


def test_program_needs_the_c_library_alone() -> None:
    needed = re.findall(
        r"\(NEEDED\)\s+Shared library: \[(.*?)\]", run("readelf", "--dynamic", "--wide", vram.program())
    )
    assert needed
    assert [name for name in needed if not LIBC.fullmatch(name)] == []


def test_program_runs_with_an_older_c_library() -> None:
    versions = re.findall(r"GLIBC_(\d+)\.(\d+)", run("readelf", "--version-info", "--wide", vram.program()))
    newest = max((int(major), int(minor)) for major, minor in versions)
    assert newest <= max(NEWEST_GLIBC, newer_than_debian_12())


def newer_than_debian_12() -> "tuple[int, ...]":
    """Built on a newer system, the program can only ask for that system's library; (0, 0) elsewhere."""
    release = Path("/etc/os-release").read_text()
    if re.search(r'^VERSION_ID="?12"?$', release, re.MULTILINE):
        return (0, 0)
    built_here = re.search(r"(\d+)\.(\d+)$", run("getconf", "GNU_LIBC_VERSION").strip())
    assert built_here
    return tuple(int(part) for part in built_here.groups())
