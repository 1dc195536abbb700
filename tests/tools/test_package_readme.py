"""The readme that a package index shows has no link that needs the repository."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import package_readme
from check_links import read_document
from source_files import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
HOME = PROJECT["urls"]["Homepage"]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The description in the metadata of a wheel of this checkout."""
    folder = tmp_path_factory.mktemp("metadata")
    # backend-path is honoured by front ends only; the hook itself finds the provider by pyproject.toml.
    hook = "import sys; from scikit_build_core.build import prepare_metadata_for_build_wheel as make; make(sys.argv[1])"
    subprocess.run([sys.executable, "-c", hook, folder], cwd=ROOT, check=True, timeout=120)
    (metadata,) = folder.glob("*.dist-info/METADATA")
    headers, _, description = metadata.read_text(encoding="utf-8").partition("\n\n")
    assert "\nDescription-Content-Type: text/markdown" in headers
    return description


def test_every_link_is_absolute_and_leads_to_the_same_file(shown: str) -> None:
    ours = read_document((ROOT / "README.md").read_text()).links
    theirs = read_document(shown).links
    assert len(ours) == len(theirs) > 0
    for our, their in zip(ours, theirs, strict=True):
        if our.target.startswith("#"):  # within the page
            assert their.target == our.target
            continue
        assert urlsplit(their.target).scheme == "https"
        path = their.target.removeprefix(f"{HOME}/blob/main/").removeprefix(f"{HOME}/raw/main/")
        assert path == our.target
        assert urlsplit(our.target).scheme or (ROOT / urlsplit(our.target).path).exists()


def test_images_lead_to_the_image_itself(shown: str) -> None:
    assert f"({HOME}/raw/main/docs/images/report.png)" in shown


@pytest.mark.parametrize("text", ["[a](https://b.org)", "[a](mailto:a@b.org)", "```\nd[a](b)\n```\n"])
def test_other_text_stays(text: str) -> None:
    assert package_readme.with_absolute_links(text, HOME) == text


def test_the_package_is_built_without_the_documentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A source distribution has README.md but no docs/.
    (tmp_path / "README.md").write_text("[guide](docs/guide.md)")
    monkeypatch.setattr(package_readme, "ROOT", tmp_path)
    made = package_readme.dynamic_metadata({}, PROJECT)["readme"]
    assert made["text"] == f"[guide]({HOME}/blob/main/docs/guide.md)"
