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
import small_png
import terminal_picture
from source_files import ROOT
from steps import StepFailed

WEB = ROOT / "web"
TRANSLATIONS = WEB / "src" / "translations.json"
BINARY = ROOT / "build" / "release" / "src" / "vram"
IMAGES = ROOT / "docs" / "images"
# The pictures of the documents: with the program's language the suffix of their names, what terminals show, and what tests of
# pages draw.
LANGUAGES = {"en": "", "zh_CN": ".zh"}
TERMINALS = {"report": ["report", "demo/leak.stacks.pickle.xz"], "tune": ["tune", "demo/unet_multiscale.pickle.xz"]}
PAGES = ["dashboard", "html-timeline", "html-map"]


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
        pictures: Also write the pictures of the documents into docs/images, in English and in Chinese: of pages, and of
            reports in a terminal.

    Raises:
        StepFailed: a test failed, or Chromium, a Chinese font or the packages are not installed.
    """
    env = {**os.environ, "VRAM_BINARY": str(binary), "VRAM_PYTHON": sys.executable, "NO_COLOR": "1"}
    if pictures:
        _check_fonts()
        env["VRAM_PICTURES"] = str(IMAGES)
        for name, words in TERMINALS.items():
            for language, suffix in LANGUAGES.items():
                _draw_terminal(binary, words, language, IMAGES / f"{name}{suffix}.png")
    output = _node("node_modules/vitest/vitest.mjs", "run", env=env)
    if pictures:
        for name in [*TERMINALS, *PAGES]:
            for suffix in LANGUAGES.values():
                small_png.shrink(IMAGES / f"{name}{suffix}.png")
    passed = re.search(r"Tests +(.+)", output)
    return passed[1].strip() if passed else output


def _check_fonts() -> None:
    if not subprocess.run(["fc-list", ":lang=zh"], capture_output=True, text=True, check=True).stdout:
        raise StepFailed("expected a Chinese font for the Chinese pictures, found none: install fonts-droid-fallback")


def _draw_terminal(binary: Path, words: list[str], language: str, picture: Path) -> None:
    """Draw what the program prints in a language."""
    printed = subprocess.run(
        [binary, *words],
        cwd=ROOT,
        env={
            **os.environ,
            "CLICOLOR_FORCE": "1",
            "COLUMNS": "101",
            "LC_ALL": f"{language}.UTF-8",
            "LANGUAGE": language,
        },
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=60,
    )
    terminal_picture.draw(printed.stdout, picture)


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
