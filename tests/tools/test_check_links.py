"""The link checker accepts the links that GitHub opens, and reports the others with their lines."""

from pathlib import Path, PurePosixPath

import pytest

from check_links import problems, read_document, slug

FILES = {
    "README.md": "# The title\n\n## The title\n\n## `vram top`: keys & more\n\n## 此刻谁在使用\n\n<a id='by-hand'></a>\n",
    "docs/guide.md": "",
    "src/main.cpp": "",
}


def found(root: Path, guide: str) -> list[str]:
    """What is wrong with this text, as the guide of a small repository."""
    for name, text in {**FILES, "docs/guide.md": guide}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return list(problems(root, {PurePosixPath(name) for name in FILES}))


@pytest.mark.parametrize(
    "link",
    [
        "../README.md",
        "/README.md",
        "../src",
        "../src/",
        "..",
        "../README.md#the-title",
        "../README.md#the-title-1",
        "../README.md#vram-top-keys--more",
        "../README.md#此刻谁在使用",
        "../README.md#%E6%AD%A4%E5%88%BB%E8%B0%81%E5%9C%A8%E4%BD%BF%E7%94%A8",
        "../README.md#by-hand",
        "../src/main.cpp#L10",
        "#here",
        "https://nowhere.invalid/x#y",
        "mailto:someone@nowhere.invalid",
    ],
)
def test_links_that_lead_somewhere_pass(tmp_path: Path, link: str) -> None:
    assert found(tmp_path, f"# Here\n\n[text]({link})\n") == []


@pytest.mark.parametrize(
    ("link", "reason"),
    [
        ("README.md", "found nothing there"),
        ("../Readme.md", "found nothing there"),
        ("../../README.md", "found nothing there"),
        ("../README.md#the-title-2", "README.md has no heading with this anchor"),
        ("../README.md#The-title", "README.md has no heading with this anchor"),
        ("#there", "docs/guide.md has no heading with this anchor"),
        ("../src/main.cpp#main", "only Markdown files have anchors"),
    ],
)
@pytest.mark.parametrize("form", ["[text]({})", "![text]({})", "[text][1]\n\n[1]: {}", "| a |\n|---|\n| [text]({}) |"])
def test_links_that_lead_nowhere_are_named(tmp_path: Path, link: str, reason: str, form: str) -> None:
    (problem,) = found(tmp_path, "# Here\n\n" + form.format(link))
    assert problem.startswith("docs/guide.md:")
    assert f": {link}: " in problem
    assert reason in problem


def test_the_line_of_a_broken_link_is_given(tmp_path: Path) -> None:
    (problem,) = found(tmp_path, "# Here\n\ntext\n\n<img alt='x' src='gone.png'>\n")
    assert problem == "docs/guide.md:5: gone.png: expected a file or a folder of the repository, found nothing there"


def test_code_holds_no_links() -> None:
    assert read_document("`[a](gone.md)`\n\n```\n[a](gone.md)\n# no heading\n```\n").links == []
    assert read_document("```\n# no heading\n```\n").anchors == set()


def test_slugs_are_those_of_github() -> None:
    assert slug("What is new, what isn't?") == "what-is-new-what-isnt"
    assert slug("  a_b - c  ") == "a_b---c"
