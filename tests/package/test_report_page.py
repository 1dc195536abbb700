"""The page of a report in Python and in a notebook. The program that writes pages is a stand-in (tests/data/page_program.py)."""

from __future__ import annotations

import os
import re
import shutil
from html import unescape
from pathlib import Path

import pytest

import vram
from vram.reports import make_page

ROOT = Path(__file__).resolve().parents[2]
LEAK = ROOT / "demo" / "leak.stacks.pickle.xz"
_FRAME = re.compile(r'<iframe [^>]*sandbox="allow-scripts"[^>]* height="(\d+)" [^>]*srcdoc="([^"]*)"></iframe>')


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file with the runs of the program."""
    log = tmp_path / "runs"
    log.touch()
    monkeypatch.setenv("VRAM_PROGRAM", str(ROOT / "tests" / "data" / "page_program.py"))
    monkeypatch.setenv("PAGE_PROGRAM_LOG", str(log))
    return log


def recording_with(text: str, folder: Path) -> Path:
    file = folder / "run.vtrace"
    file.write_text(text)
    return file


def test_the_page_is_what_the_program_writes(tmp_path: Path, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = tmp_path / "-- <odd> $(name).vtrace"
    odd.touch()
    monkeypatch.chdir(tmp_path)
    assert b"<title>-- &lt;odd&gt; $(name).vtrace</title>" in make_page(odd.name, 1 << 20, max_recording_bytes=77)
    assert runs.read_text() == f"{odd} --max-size 77B\n"


def test_what_goes_wrong_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(vram.VramError, match=r"^it is <no> recording$"):
        make_page(recording_with("fail", tmp_path), 1 << 20)
    with pytest.raises(vram.VramError, match=r"^the page takes 1 MiB, and the limit is 0.98 MiB$"):
        make_page(recording_with("large", tmp_path), 1000 << 10)
    with pytest.raises(vram.VramError, match=r"not ready after 1 s"):
        make_page(recording_with("hang", tmp_path), 1 << 20, timeout=1)
    monkeypatch.setenv("VRAM_PROGRAM", "/bin/true")
    with pytest.raises(vram.VramError, match=r"the page that the program wrote cannot be read"):
        make_page(LEAK, 1 << 20)
    monkeypatch.setenv("VRAM_PROGRAM", str(tmp_path / "none"))
    with pytest.raises(vram.VramError, match=r"cannot be started: .*none.*; set VRAM_PROGRAM"):
        make_page(LEAK, 1 << 20)


def test_no_page_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "logs").mkdir()
    for text in ("", "fail", "large"):
        with pytest.raises(vram.VramError):
            make_page(recording_with(text, tmp_path / "logs"), 1)
    assert list(tmp_path.glob("vram-page-*")) == []


def test_a_report_is_a_sandboxed_frame_below_its_summary() -> None:
    report = vram.load(LEAK)
    shown = report._repr_html_()
    (frame,) = _FRAME.finditer(shown)
    page = unescape(frame[2])
    assert page.replace('<base href="about:srcdoc">', "") == report.to_html()
    assert page.index("<base") < page.index("Content-Security-Policy")  # after it, the policy forbids the base
    assert shown.index(report.findings[0].title) < frame.start()
    assert "<details><summary>" in shown
    assert _FRAME.search(report.show(height=333)._repr_html_())[1] == "333"  # type: ignore[index]
    assert repr(report.show()) == repr(report)


def test_a_view_makes_its_page_once(runs: Path) -> None:
    view = vram.load(LEAK).show()
    assert view._repr_html_() == view._repr_html_()
    assert runs.read_text().count("\n") == 1


def test_without_a_page_the_summary_says_why_and_how_to_open_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = tmp_path / "a b<c>.pickle.xz"
    shutil.copy(LEAK, odd)
    report = vram.load(odd)
    shown = report.show(max_size=100)._repr_html_()
    assert "<iframe" not in shown
    assert "<details open>" in shown
    assert report.findings[0].title in shown
    assert "the page of 27,687 events is larger than the limit of 100 B" in shown
    assert f"vram report '{odd}' --html report.html" in unescape(shown)
    assert "<c>" not in shown
    monkeypatch.setenv("VRAM_PROGRAM", "/bin/false")
    assert "No page: exit code 1." in report._repr_html_()


def test_the_page_is_of_the_file_that_was_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "run.pickle.xz"
    shutil.copy(LEAK, file)
    monkeypatch.chdir(tmp_path)
    report = vram.load("run.pickle.xz")
    monkeypatch.chdir("/")
    assert "<title>run.pickle.xz</title>" in report.to_html()
    os.utime(file, ns=(0, 0))
    with pytest.raises(vram.VramError, match=r"the file has changed since vram\.load\(\)"):
        report.to_html()
    file.unlink()
    assert "has changed" in report._repr_html_()


def test_wrong_arguments_are_errors() -> None:
    report = vram.load(LEAK)
    with pytest.raises(ValueError, match="plenty"):
        report.show(max_size="plenty")
    with pytest.raises(ValueError, match="height"):
        report.show(height=0)
