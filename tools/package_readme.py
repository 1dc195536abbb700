"""Writes the readme of a package's metadata: README.md with absolute links, because a package index lacks the repository.

pyproject.toml names this module as the provider of the field ``readme`` (``tool.dynamic-metadata``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FENCED = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:|#)([^)\s]+)\)")


def dynamic_metadata(settings: Mapping[str, Any], project: Mapping[str, Any]) -> dict[str, Any]:
    """Return the readme as scikit-build-core expects it from a provider.

    Args:
        settings: Settings of the provider in pyproject.toml; it has none.
        project: The table [project] of pyproject.toml; its Homepage is the address of the repository.

    Raises:
        ValueError: Settings were given.
    """
    if settings:
        raise ValueError(f"package_readme has no settings, got {dict(settings)}")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return {"readme": {"content-type": "text/markdown", "text": with_absolute_links(text, project["urls"]["Homepage"])}}


def with_absolute_links(text: str, repository: str) -> str:
    """Return a Markdown text whose relative links and images lead to the main branch of a GitHub repository."""

    def absolute(link: re.Match[str]) -> str:
        mark, label, target = link.groups()
        return f"{mark}[{label}]({repository}/{'raw' if mark else 'blob'}/main/{target})"

    parts = FENCED.split(text)
    parts[::2] = [LINK.sub(absolute, part) for part in parts[::2]]  # fenced code stays unchanged
    return "".join(parts)
