"""The environment, the path and the age of the sources that the build of portable packages uses."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import debian
import portable
import wheels
from steps import StepFailed


def test_the_build_gets_a_chosen_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    passed = {"PATH": os.environ["PATH"], "HOME": "/h", "CCACHE_DIR": "/c", "ZIG_GLOBAL_CACHE_DIR": "/z"}
    passed |= {"PIP_INDEX_URL": "i", "https_proxy": "p", "NO_PROXY": "n", "SSL_CERT_FILE": "s", "TMPDIR": "/tmp"}
    dropped = {"CFLAGS": "-O0", "CXXFLAGS": "-g", "LDFLAGS": "-v", "CMAKE_ARGS": "-DX=1", "SKBUILD_CMAKE_DEFINE": "X=1"}
    dropped |= {"CC": "false", "PYTHONPATH": "/p", "CPATH": "/usr/include", "MAKEFLAGS": "-n", "LC_ALL": "zh_CN.UTF-8"}
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in (passed | dropped).items():
        monkeypatch.setenv(name, value)
    assert debian.chosen_environment() == {**passed, "LANG": "C.UTF-8"}
    seen = {line.partition("=")[0]: line.partition("=")[2] for line in debian.call("env").splitlines()}
    assert seen == debian.chosen_environment()
    for module in (wheels, portable):  # not steps.call, which passes everything on
        assert vars(module)["call"] is debian.call


def test_a_path_with_a_space_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheels, "ROOT", Path("/home/a user/vram"))
    monkeypatch.setattr(wheels, "environment", lambda: pytest.fail("it has begun to build"))
    with pytest.raises(StepFailed, match=r"'/home/a user/vram'.*without spaces"):
        wheels.build(portable.Target("x86_64"))


def unpacked(folder: Path, version: str) -> Path:
    (folder / f"zlib-{version}" / "debian").mkdir(parents=True)
    first = f"zlib (1:{version}-1) stable; urgency=medium"
    (folder / f"zlib-{version}" / "debian/changelog").write_text(f"{first}\n\n  * Fixed.\n")
    (folder / f"zlib_{version}-1.dsc").touch()
    return folder / f"zlib-{version}"


def test_what_is_built_is_keyed_by_the_version_of_its_sources(tmp_path: Path) -> None:
    sources = {"zlib": unpacked(tmp_path, "1.2.13")}
    assert portable.origins(sources) == ["zlib (1:1.2.13-1) stable; urgency=medium"]
    (sources["zlib"] / "debian/changelog").write_text("")
    with pytest.raises(StepFailed, match=r"zlib-1.2.13/debian/changelog is empty"):
        portable.origins(sources)


class Apt:
    """apt-get, as far as source_packages asks it."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.asked: list[str] = []
        self.is_reachable = True

    def __call__(self, *command: str | Path) -> str:
        words = [str(word) for word in command]
        if "update" in words:
            self.asked.append("update")
            if not self.is_reachable:
                raise StepFailed("could not resolve")
        elif "--print-uris" in words:
            self.asked.append("look up")
            return f"'https://nowhere.invalid/z/zlib_{self.version}-1.dsc' zlib_{self.version}-1.dsc 2309 SHA256:0\n"
        elif "source" in words:
            self.asked.append("fetch")
            unpacked(Path(words[words.index("-C") + 1]), self.version)
        return ""


@pytest.fixture
def apt(monkeypatch: pytest.MonkeyPatch) -> Apt:
    made = Apt("1.2.13")
    monkeypatch.setattr(debian, "call", made)
    monkeypatch.setattr(debian, "need", lambda *_: None)
    monkeypatch.setattr(debian, "_os_release", lambda: {"VERSION_CODENAME": "some"})
    monkeypatch.setattr(debian, "_archives", lambda: [("https://nowhere.invalid", "some", "main")])
    return made


def test_sources_are_looked_up_again_after_a_day(tmp_path: Path, apt: Apt, capsys: pytest.CaptureFixture[str]) -> None:
    ready = tmp_path / "zlib" / "ready"
    assert debian.source_packages(["zlib"], tmp_path)["zlib"].name == "zlib-1.2.13"
    assert apt.asked == ["update", "fetch"]
    assert debian.source_packages(["zlib"], tmp_path)["zlib"].name == "zlib-1.2.13"
    assert apt.asked == ["update", "fetch"]
    two_days_ago = time.time() - 2 * 86400
    os.utime(ready, (two_days_ago, two_days_ago))
    apt.asked.clear()
    assert debian.source_packages(["zlib"], tmp_path)["zlib"].name == "zlib-1.2.13"
    assert apt.asked == ["update", "look up"]
    assert ready.stat().st_mtime > time.time() - 3600
    os.utime(ready, (two_days_ago, two_days_ago))
    apt.version, apt.asked = "1.2.14", []
    assert debian.source_packages(["zlib"], tmp_path)["zlib"].name == "zlib-1.2.14"
    assert apt.asked == ["update", "look up", "fetch"]
    os.utime(ready, (two_days_ago, two_days_ago))
    apt.is_reachable, apt.asked = False, []
    assert debian.source_packages(["zlib"], tmp_path)["zlib"].name == "zlib-1.2.14"
    assert apt.asked == ["update"]
    assert "zlib" in capsys.readouterr().err


def test_a_copy_that_is_cut_off_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "libz.a").write_text("an archive")
    place = tmp_path / "sysroot" / "libz.a"

    def cut_off(_: Path, to: Path) -> None:
        Path(to).write_text("an ar")
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr("shutil.copy", cut_off)
        with pytest.raises(OSError, match="no space left"):
            portable.put(tmp_path / "libz.a", place)
    assert not place.exists()
    portable.put(tmp_path / "libz.a", place)
    assert place.read_text() == "an archive"
    assert [path.name for path in place.parent.iterdir()] == ["libz.a"]
