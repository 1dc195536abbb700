#!/usr/bin/env python3
"""Makes the fonts that pictures are drawn with, src/pictures/fonts: those letters of Debian's fonts that pictures need.

Needs the packages fonts-roboto-unhinted and fonts-droid-fallback, whose licence is Apache-2.0, and pyftsubset (of fonttools).
Run it when a translation of a text in pictures has a character that the font lacks: a test of src/pictures names it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import polib

from source_files import ROOT

FONTS = Path("/usr/share/fonts/truetype")
FOLDER = ROOT / "src" / "pictures" / "fonts"
# Latin, Greek, Cyrillic; punctuation, arrows and signs, as far as the font has them.
LATIN = "20-7E,A0-17F,370-3FF,400-45F,2010-2015,2018-201E,2020-2022,2026,2030,2032,2033,2039,203A,20AC,2122,2212,2248,2260,2264,2265,FFFD"
# Their texts appear in pictures.
SOURCES = ("src/pictures/", "src/pages/groups.cpp", "src/show/names.cpp", "src/explain/moment/", "src/explain/names/")
NUMBERS = "src/base/bytes"


def han_characters() -> str:
    """Returns the characters of translations beyond Latin that pictures may show.

    The catalogue names one of the sources of a text only, so a text also counts that a source contains.
    """
    found: set[str] = set()
    files = [file for source in SOURCES for file in sorted((ROOT / source).glob("*.cpp")) or [ROOT / source]]
    sources = "".join(file.read_text(encoding="utf-8") for file in files if file.is_file())
    for catalogue in sorted((ROOT / "po").glob("*.po")):
        for entry in polib.pofile(str(catalogue)):
            places = [place for place, _ in entry.occurrences]
            is_in_pictures = any(place.startswith((*SOURCES, NUMBERS)) for place in places)
            if is_in_pictures or f'"{entry.msgid}"' in sources:
                found.update(entry.msgstr)
    return "".join(sorted(character for character in found if ord(character) >= 0x3000))


def subset(font: Path, name: str, *choice: str) -> None:
    words = ["--no-hinting", "--layout-features=", "--notdef-outline", "--name-IDs=", "--drop-tables+=GDEF,GPOS,GSUB"]
    command = ["pyftsubset", str(font), *choice, *words, f"--output-file={FOLDER / name}"]
    subprocess.run(command, check=True)
    print(f"{FOLDER / name}: {(FOLDER / name).stat().st_size} bytes")


def main() -> int:
    subset(FONTS / "roboto/unhinted/RobotoTTF/Roboto-Regular.ttf", "latin.ttf", f"--unicodes={LATIN}")
    subset(FONTS / "droid/DroidSansFallbackFull.ttf", "han.ttf", f"--text={han_characters()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
