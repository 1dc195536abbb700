#!/usr/bin/env python3
"""Builds the documentation site in build/site: English, and Chinese in its folder zh. Warnings, such as dead links, are errors.

The tools are installed into an environment of their own, build/site-environment, from tools/requirements-docs.txt. Apart from that,
neither building nor reading the site requires a network. Read it with `python3 -m http.server -d build/site`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = ROOT / "build/site-environment"
REQUIREMENTS = ROOT / "tools/requirements-docs.txt"


def environment() -> Path:
    """Returns the interpreter that has the tools, and installs them if the requirements have changed."""
    python = ENVIRONMENT / "bin/python"
    installed = ENVIRONMENT / "installed.txt"
    if not installed.is_file() or installed.read_text() != REQUIREMENTS.read_text():
        subprocess.run([sys.executable, "-m", "venv", "--clear", ENVIRONMENT], check=True)
        pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--require-hashes"]
        subprocess.run([*map(str, pip), "-r", str(REQUIREMENTS)], check=True)
        shutil.copyfile(REQUIREMENTS, installed)
    return python


def build_site(site: Path) -> None:
    """Builds both languages into a folder, which it replaces."""
    python = environment()
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}  # the theme's advertisement of another program
    for configuration, folder in (("mkdocs.yml", site), ("mkdocs.zh.yml", site / "zh")):
        build = [str(python), "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
        file = ROOT / "tools/site" / configuration
        subprocess.run([*build, "--config-file", str(file)], check=True, cwd=ROOT, env=quiet)


if __name__ == "__main__":
    destination = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT / "build/site"
    build_site(destination)
    print(f"{sum(1 for _ in destination.rglob('*.html'))} pages in {destination}")
