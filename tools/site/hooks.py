"""The hooks of MkDocs: which pages the site has, links between them, headings' anchors as on GitHub, and words to search for."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

from markdown import Markdown
from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import c_headers
import commands
import habit_entries
import http_api
import pages
import python_api

CODE = re.compile(r"<code>[^<]*</code>")
# Browsers would break the line after its hyphens.
OPTION = re.compile(r"(?<![\w-])--?[a-zA-Z][\w-]*")


class Half:
    """The English or the Chinese half of the site, while it is built."""

    def __init__(self, config: MkDocsConfig) -> None:
        half: dict[str, str] = config.extra["half"]
        self.titles: dict[str, str] = config.extra["titles"]
        self.language, self.other = half["language"], half["other"]
        self.folders = {self.language: half["folder"], self.other: half["other_folder"]}
        self.index = half["index"]
        self.sources = pages.sources(half["home"], half["index"], self.language == "zh")
        self.page = ""  # the page that is rendered now
        self.generated: dict[str, dict[str, str]] = {}  # section -> page -> text
        self.anchors: dict[str, int] = {}  # of the page that is rendered now

    def page_of(self, source: str) -> str | None:
        """The page of a file of the repository, in this half; that of a translation is the page of the original."""
        for page, made_from in self.sources.items():
            if made_from == source:
                return page
        if source.startswith("include/vram/"):
            return f"c/{Path(source).stem}.md"
        original = source.replace("docs/zh/", "docs/")
        return next((page for page, made_from in self.sources.items() if original in (made_from, f"docs/{page}")), None)

    def is_translated(self) -> bool:
        """Whether the page that is rendered is in this half's language, or made from the program's own texts."""
        source = self.sources.get(self.page)
        return self.language == "en" or source is None or source.startswith(("docs/zh/", "README.zh-CN"))


HALF: Half  # the one that is built


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    global HALF  # MkDocs calls functions of this module, in this order
    HALF = Half(config)
    config.markdown_extensions.append(RepositoryLinks(config.extra["repository"]))
    config.mdx_configs["toc"]["slugify"] = github_anchor
    return config


def github_anchor(heading: str, _separator: str) -> str:
    """Returns the anchor that GitHub gives to a heading, also if it is not the first of its text."""
    return pages.numbered_anchor(heading, HALF.anchors)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    kept = [file for file in files if not file.src_uri.endswith(".md")]
    for page, source in HALF.sources.items():
        kept.append(File.generated(config, page, abs_src_path=str(pages.ROOT / source)))
    HALF.generated = {
        "commands": commands.pages(HALF.language),
        "python": python_api.pages(),
        "c": c_headers.pages(),
        "http": http_api.pages(),
    }
    for section in HALF.generated.values():
        kept += [File.generated(config, page, content=text) for page, text in section.items()]
    assets = Path(__file__).parent / "assets"
    kept += [File.generated(config, f"assets/{path.name}", abs_src_path=str(path)) for path in assets.iterdir()]
    config.nav = navigation()
    return Files(kept)


def navigation() -> list[Any]:
    """The list of pages as MkDocs reads it, followed by the generated ones."""
    titles = HALF.titles

    def entries(group: pages.Group) -> list[Any]:
        found: list[Any] = []
        for entry in group.entries:
            if isinstance(entry, pages.Group):
                found.append({entry.title: entries(entry)})
            elif (page := HALF.page_of(pages.resolved(HALF.index, entry[1]))) is not None:
                found.append({entry[0]: page})
        return found

    listed = pages.groups((pages.ROOT / HALF.index).read_text(encoding="utf-8"))
    guides: list[Any] = [{group.title: entries(group)} for group in listed]
    start = [{titles["home"]: "index.md"}, {titles["contents"]: "contents.md"}]
    reference: list[Any] = [{titles[name]: list(section)} for name, section in HALF.generated.items()]
    (guides[0][listed[0].title])[:0] = start
    next(group for group in guides if titles["reference"] in group)[titles["reference"]] += reference
    guides.append({titles["project"]: [{titles[Path(page).stem]: page} for page in pages.OTHERS.values()]})
    return guides


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    HALF.page = page.file.src_uri
    HALF.anchors = {}
    if HALF.page == "habits.md":
        markdown = habit_entries.with_anchors(markdown)
    if not HALF.is_translated():
        return f'!!! note "本页尚无中文译文"\n\n{markdown}'
    original = pages.ROOT / "docs" / HALF.page
    if (
        HALF.language == "zh"
        and original.is_file()
        and pages.shape(markdown) != pages.shape(original.read_text(encoding="utf-8"))
    ):
        first, rest = markdown.split("\n", maxsplit=1)
        return f'{first}\n\n!!! note "英文原文有更新，本页译文尚未跟上"\n{rest}'
    return markdown


class RepositoryLinks(Extension):
    """Links of the repository's files become links of the site: to its pages, or to the file in the public repository."""

    def __init__(self, repository: str) -> None:
        super().__init__()
        self.repository = repository

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 - the name that Markdown calls
        md.treeprocessors.register(_LinkProcessor(md, self.repository), "repository_links", 6)  # before those of MkDocs


class _LinkProcessor(Treeprocessor):
    def __init__(self, md: Markdown, repository: str) -> None:
        super().__init__(md)
        self.repository = repository

    def run(self, root: Element) -> None:
        self.add_original_anchors(root)
        for element in root.iter():
            for attribute in ("href", "src"):
                target = element.get(attribute)
                if target and HALF.page in HALF.sources and not re.match(r"\w+:|#|/|&|\x02", target):
                    element.set(attribute, self.changed(target))

    def add_original_anchors(self, root: Element) -> None:
        """Gives the headings of a translation the anchors of the original too, which links of other pages name."""
        source = HALF.sources.get(HALF.page, "")
        if source != f"docs/{HALF.language}/{HALF.page}":
            return
        originals, own = (
            pages.anchors((pages.ROOT / name).read_text(encoding="utf-8")) for name in (f"docs/{HALF.page}", source)
        )
        headings = [element for element in root if re.fullmatch(r"h\d", element.tag)]
        if len(originals) != len(own):  # the translation is behind, so the links lead to its beginning
            root[:0] = [Element("span", {"id": anchor}) for anchor in originals if anchor not in own]
            return
        for heading, anchor, own_anchor in zip(headings, originals, own, strict=True):
            if anchor != own_anchor:
                mark = Element("span", {"id": anchor})
                mark.tail, heading.text = heading.text, None
                heading.insert(0, mark)

    def changed(self, target: str) -> str:
        path, mark, anchor = target.partition("#")
        source = pages.resolved(HALF.sources[HALF.page], path)
        if source.startswith("docs/images/"):
            return pages.relative(HALF.page, source.removeprefix("docs/"))
        if (page := HALF.page_of(source)) is None:
            kind = "tree" if (pages.ROOT / source).is_dir() else "blob"
            return f"{self.repository}/{kind}/main/{source}{mark}{anchor}"
        if _language_of(source) not in ("", HALF.language) and page == HALF.page:
            return f"half:{HALF.other}"  # the same page in the other language
        return pages.relative(HALF.page, page) + mark + anchor


def _language_of(source: str) -> str:
    if source.startswith("docs/zh/") or source == "README.zh-CN.md":
        return "zh"
    return "en" if source.startswith("docs/") or source == "README.md" else ""


def on_post_page(output: str, page: Page, **_: Any) -> str:
    """Sets the links from this page to itself in each language."""
    own = pages.address(page.file.src_uri)
    folder = os.path.dirname(HALF.folders[HALF.language] + own)
    for language, prefix in HALF.folders.items():
        link = os.path.relpath(prefix + own, folder or ".")
        output = output.replace(f'"#alternate-{language}"', f'"{link}"').replace(f'"half:{language}"', f'"{link}"')
    return CODE.sub(lambda code: OPTION.sub(r'<span class="option">\g<0></span>', code[0]), output)


@event_priority(-100)  # after the search has written its index
def on_post_build(config: MkDocsConfig) -> None:
    index = Path(config.site_dir) / "search/search_index.json"
    content = json.loads(index.read_text(encoding="utf-8"))
    content["docs"] += habit_entries.entries(HALF.language)
    index.write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")
    for worker in Path(config.site_dir).glob("assets/javascripts/workers/search.*.js"):
        worker.write_text(habit_entries.with_changes(worker.read_text(encoding="utf-8")), encoding="utf-8")
