#!/usr/bin/env python3
"""Builds and tests the pages of web/: web.py --install | build | check | test | pictures.

The bundle web/dist is committed, so that building the program needs no Node.js; `check` proves that it is what the sources give.
Node.js is a wheel from tools/requirements-node.txt, the packages are those of web/package-lock.json. `make setup` installs both.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import catalogue
import node
import terminal_picture
from source_files import ROOT
from steps import StepFailed

WEB = ROOT / "web"
TRANSLATIONS = WEB / "src" / "translations.json"
BINARY = ROOT / "build" / "release" / "src" / "vram"


def install() -> None:
    """Install the packages of web/package-lock.json next to it.

    Raises:
        StepFailed: npm failed; the message has its output.
    """
    node.install_packages(WEB)


def build() -> str:
    """Write the translations of the texts from po/, and the bundle.

    Returns:
        A remark for people: the size of each page's script and style.

    Raises:
        StepFailed: the bundler failed, or the packages are not installed.
    """
    TRANSLATIONS.write_text(_translations(), encoding="utf-8")
    return _node("build.mjs").strip()


def check() -> str:
    """Check the types of the sources, and that web/dist is built from them and from the translations in po/.

    Returns:
        A remark for people: the size of each page's script and style.

    Raises:
        StepFailed: a check failed, or the packages are not installed.
    """
    if TRANSLATIONS.read_text(encoding="utf-8") != _translations():
        raise StepFailed(
            f"{TRANSLATIONS.relative_to(ROOT)} differs from po/: run tools/web.py build, and commit what it writes"
        )
    _node("node_modules/typescript/bin/tsc", "--noEmit")
    return _node("build.mjs", "--check").strip()


def run_tests(binary: Path = BINARY, *, pictures: bool = False) -> str:
    """Run the tests: the modules in Node.js, and the pages that `binary` writes in Chromium.

    Args:
        binary: The program.
        pictures: Also write the pictures of the documents into docs/images: of pages, and of the report that README.md shows.

    Raises:
        StepFailed: a test failed, or Chromium or the packages are not installed.
    """
    env = {**os.environ, "VRAM_BINARY": str(binary), "VRAM_PYTHON": sys.executable, "NO_COLOR": "1"}
    if pictures:
        env["VRAM_PICTURES"] = str(ROOT / "docs" / "images")
        _draw_report(binary)
    output = _node("node_modules/vitest/vitest.mjs", "run", env=env)
    passed = re.search(r"Tests +(.+)", output)
    return passed[1].strip() if passed else output


def _draw_report(binary: Path) -> None:
    """Draw the report in README.md, of the recording of `vram demo` that leaks."""
    report = subprocess.run(
        [binary, "report", "demo/leak.stacks.pickle.xz"],
        cwd=ROOT,
        env={**os.environ, "CLICOLOR_FORCE": "1", "COLUMNS": "101", "LC_ALL": "C.UTF-8", "LANGUAGE": "en"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=60,
    )
    terminal_picture.draw(report.stdout, ROOT / "docs" / "images" / "report.png")


def _translations() -> str:
    texts = catalogue.web_texts([WEB / "src"])
    return json.dumps(texts, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def _node(script: str, *arguments: str, env: dict[str, str] | None = None) -> str:
    if not (WEB / "node_modules").is_dir():
        raise StepFailed("the packages of web/ are not installed. Run `make setup`, which installs them")
    return node.run("node", script, *arguments, at=WEB, env=env)


def main() -> int:
    try:
        match sys.argv[1:]:
            case ["--install"]:
                install()
            case ["build"]:
                print(build())
            case ["check"]:
                print(check())
            case ["test"]:
                print(run_tests())
            case ["pictures"]:
                print(run_tests(pictures=True))
            case _:
                print(__doc__.splitlines()[0], file=sys.stderr)
                return 2
    except StepFailed as failure:
        print(failure, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
