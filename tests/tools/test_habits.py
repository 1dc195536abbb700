"""tools/habits.py fills the tables of both pages from one file."""

from __future__ import annotations

from pathlib import Path

import pytest

import habits
from source_files import ROOT

ROWS = """
[[habit]]
group = "look"
words = ["nvidia-smi", "显存占用"]
today = "nvidia-smi | head"
now = "vram status"
en = "Who uses it."
zh = "谁在用。"
not_en = "Never."
not_zh = "从不。"
"""


def page(group: str) -> str:
    return f"# Page\n\n<!-- habits: {group} -->\nold\n<!-- end of habits -->\n\nend\n"


def tree(path: Path, group: str) -> Path:
    for name, text in ((habits.SOURCE, ROWS), ("docs/habits.md", page(group)), ("docs/zh/habits.md", page(group))):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text, encoding="utf-8")
    return path


def test_the_pages_follow_from_the_rows() -> None:
    for name, text in habits.products(ROOT):
        assert (ROOT / name).read_text(encoding="utf-8") == text


def test_a_table_in_each_language(tmp_path: Path) -> None:
    pages = dict(habits.products(tree(tmp_path, "look")))
    assert "| `nvidia-smi \\| head` | `vram status` | Who uses it. | Never. |\n" in pages["docs/habits.md"]
    assert "| `nvidia-smi \\| head` | `vram status` | 谁在用。 | 从不。 |\n" in pages["docs/zh/habits.md"]
    assert "old" not in pages["docs/habits.md"]
    assert pages["docs/habits.md"].endswith("<!-- end of habits -->\n\nend\n")


def test_a_group_without_a_table(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"docs/habits.md has tables of \['free'\]"):
        list(habits.products(tree(tmp_path, "free")))


def test_check_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path, "look")
    monkeypatch.setattr("sys.argv", ["habits.py", "--check"])
    assert habits.main(tmp_path) == 1
    monkeypatch.setattr("sys.argv", ["habits.py"])
    assert habits.main(tmp_path) == 0
    monkeypatch.setattr("sys.argv", ["habits.py", "--check"])
    assert habits.main(tmp_path) == 0
