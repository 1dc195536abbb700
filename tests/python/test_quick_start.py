"""The commands of docs/quick-start.md and its translation on the recordings of demo/ print what the pages say about them."""

import re
import shlex

import pytest
from program import vram

from source_files import ROOT

PAGES = {"C.UTF-8": "docs/quick-start.md", "zh_CN.UTF-8": "docs/zh/quick-start.md"}

in_each_language = pytest.mark.parametrize("language", PAGES)


def page_in(language: str) -> str:
    return (ROOT / PAGES[language]).read_text(encoding="utf-8")


def commands_of(page: str) -> list[str]:
    return re.findall(r"^\$ vram (\w+ demo/\S+)$", page, re.MULTILINE)


@in_each_language
def test_the_page_has_commands_on_the_bundled_recordings(language: str) -> None:
    assert [command.split()[0] for command in commands_of(page_in(language))] == ["report", "tune"]


@in_each_language
def test_the_commands_print_what_the_page_says(language: str) -> None:
    page = page_in(language)
    for command in commands_of(page):
        done = vram(*shlex.split(command.replace("demo/", f"{ROOT}/demo/")), LC_ALL=language)
        assert (done.returncode, done.stderr) == (0, ""), command
        figures = {
            "report": ["3.41 GiB", "3.71 GiB", "66.7 MiB", "47.1 %", "workloads.py:257"],
            "tune": ["25.2 GiB", "15.4 GiB"],
        }
        for figure in figures[command.split()[0]]:
            assert figure in done.stdout
            assert figure.replace("47.1 %", "47 %").replace("py:257", "py") in page


@in_each_language
def test_the_report_has_the_headings_that_the_page_explains(language: str) -> None:
    page = page_in(language)
    report = vram("report", f"{ROOT}/demo/leak.stacks.pickle.xz", LC_ALL=language).stdout
    headings = re.findall(
        r"^\| ([^|\n]*?)(?:（[A-Z]+）)? \|", page.split("\n## 2")[1].split("\n## 3")[0], re.MULTILINE
    )[2:]
    assert len(headings) == 6
    for heading in headings:
        assert re.search(rf"^{heading}\b", report, re.MULTILINE), heading
