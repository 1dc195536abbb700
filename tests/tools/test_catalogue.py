"""tools/catalogue.py finds the texts of sources, and what is wrong with a translation."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import polib
import pytest

import catalogue
from source_files import ROOT

needs_xgettext = pytest.mark.skipif(shutil.which("xgettext") is None, reason="xgettext is not installed")


@pytest.fixture(name="tree")
def fixture_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one source of each language."""
    files = {
        "src/a/show.cpp": 'add(tr("plain text")); trf("{} of {:>{}}", a, b, c); fail(Code::kIo, "cannot read {}", path);\n'
        'counted(n, "block"); tr_context("verb", "free"); constexpr auto k = tr_later("of a "\n  "table"); f("no text");\n',
        "src/a/show_test.cpp": 'tr("of a test");\n',
        "src/capi/vram.cpp": 'fail(Code::kIo, "of libvram.so");\n',
        "python/vram/_m.py": 'print(tr("{} uses no GPU").format(name))\n',
        "web/src/page.tsx": 'const row = <td title={t("Peak")}>{t("a long " +\n  "text of {0}", 1)}</td>; set("x"); t(name);\n',
        "po/xx.po": 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(catalogue, "ROOT", tmp_path)
    monkeypatch.setattr(catalogue, "PO", tmp_path / "po")
    return tmp_path


def translate(tree: Path, texts: dict[str, str]) -> None:
    po = polib.pofile(str(tree / "po/xx.po"), wrapwidth=0)
    for entry in po:
        entry.msgstr = texts.get(entry.msgid, entry.msgstr)
    po.save()


@needs_xgettext
def test_every_kind_of_text_is_found(tree: Path) -> None:
    catalogue.update()
    found = {(entry.msgctxt, entry.msgid) for entry in polib.pofile(str(tree / "po/xx.po"))}
    assert found == {
        (None, "plain text"),
        (None, "{} of {:>{}}"),
        (None, "cannot read {}"),
        ("counted", "block"),
        ("verb", "free"),
        (None, "of a table"),
        (None, "{} uses no GPU"),
        (None, "Peak"),
        (None, "a long text of {0}"),
    }
    assert catalogue.problems() == []


@needs_xgettext
def test_an_update_keeps_translations(tree: Path) -> None:
    catalogue.update()
    translate(tree, {"plain text": "einfacher Text"})
    source = tree / "src/a/show.cpp"
    source.write_text(source.read_text() + 'tr("one more");\n')
    assert any("not current" in problem for problem in catalogue.problems())
    assert any("no entry for 'one more'" in problem for problem in catalogue.problems())
    catalogue.update()
    assert catalogue.problems() == []
    assert {entry.msgid: entry.msgstr for entry in polib.pofile(str(tree / "po/xx.po"))}[
        "plain text"
    ] == "einfacher Text"


@needs_xgettext
def test_an_entry_that_no_source_has_is_reported(tree: Path) -> None:
    catalogue.update()
    source = tree / "src/a/show.cpp"
    source.write_text(source.read_text().replace("plain text", "other text"))
    assert any("no source contains 'plain text'" in problem for problem in catalogue.problems())


@needs_xgettext
@pytest.mark.parametrize(
    ("translation", "is_good"),
    [
        ("{1:>{2}} hat {0}", True),
        ("{} von {:>{}}", True),
        ("{} von {}", False),
        ("{} von {1:>{2}}", False),
        ("{}", False),
        ("{0} von {0:>{2}}", False),
        ("{0} von {1:>{2}} und {3}", False),
        ("", True),
    ],
)
def test_placeholders_are_those_of_the_original(tree: Path, translation: str, is_good: bool) -> None:
    catalogue.update()
    translate(tree, {"{} of {:>{}}": translation})
    assert (catalogue.problems() == []) == is_good


@needs_xgettext
def test_the_texts_of_a_page_are_json(tree: Path) -> None:
    catalogue.update()
    translate(tree, {"Peak": "Spitze", "plain text": "einfacher Text"})
    assert catalogue.web_texts([tree / "web"]) == {"xx": {"Peak": "Spitze"}}


@needs_xgettext
def test_the_command_prints_json() -> None:
    done = subprocess.run(
        [sys.executable, "tools/catalogue.py", "web", "python/vram/monitoring/_measurement.py"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        timeout=60,
    )
    assert json.loads(done.stdout)["zh_CN"]["GPU {}: memory unknown"] == "GPU {}：显存未知"


def test_braces_that_are_text_are_no_placeholders() -> None:
    assert catalogue.placeholders("{{not}} {0:.1f} {name}") == {("0", ".1f"), ("name", "")}
