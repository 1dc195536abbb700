"""Messages in the user's language, from the same catalogues as those of the program ``vram`` (po/*.po).

    tr("GPU {}: memory unknown").format(index)

The English text is in the source, and ``tr()`` returns its translation, or the text itself if there is none. Texts have
the placeholders of ``str.format``. The language is that of the environment (LANGUAGE, LC_ALL, LC_MESSAGES, LANG), as in
src/base/language.hpp; the locale need not be installed. tools/catalogue.py finds the texts, and checks the catalogues.
"""

from __future__ import annotations

import functools
import json
import os
import unicodedata
from pathlib import Path


def tr(text: str) -> str:
    """Return the text in the user's language. Any thread may call this."""
    language = _language(*map(os.environ.get, ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")))
    return _catalogue(language).get(text, text) if language else text


def tr_later(text: str) -> str:
    """Mark a text of a table, which is translated where it is shown: ``tr(text)``."""
    return text


def columns_of(text: str) -> int:
    """Return the columns that a terminal needs for the text: Chinese and Japanese characters take two."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


@functools.lru_cache(maxsize=8)
def _language(language: str | None, *locales: str | None) -> str:
    """The name of a catalogue; "" is English."""
    locale = _without_codeset(next(filter(None, locales), ""))
    if locale in ("", "C", "POSIX"):
        return ""
    for wanted in map(_without_codeset, language.split(":") if language else [locale]):
        same = [name for name in _files() if name.split("_")[0] == wanted.split("_")[0]]
        if same:
            return wanted if wanted in same else same[0]
        if wanted.split("_")[0] in ("", "C", "POSIX", "en"):
            break
    return ""


def _without_codeset(locale: str) -> str:
    return locale.partition(".")[0].partition("@")[0]


@functools.lru_cache(maxsize=1)
def _files() -> dict[str, Path]:
    """The catalogues by language: next to this file, and in a checkout in po/."""
    here = Path(__file__).resolve().parent
    folder = next((path for path in (here / "po", here.parent.parent / "po") if path.is_dir()), here)
    return {path.stem: path for path in sorted(folder.glob("*.po"))}


@functools.lru_cache(maxsize=8)
def _catalogue(language: str) -> dict[str, str]:
    """The translations of a file; entries with a context are the program's alone."""
    texts: dict[str, str] = {}
    entry = {"msgctxt": "", "msgid": "", "msgstr": ""}
    keyword = ""
    for line in [*_files()[language].read_text(encoding="utf-8").splitlines(), ""]:
        if not line and entry["msgid"]:
            if entry["msgstr"] and not entry["msgctxt"]:
                texts[entry["msgid"]] = entry["msgstr"]
            entry = dict.fromkeys(entry, "")
        word, _, rest = line.partition(" ")
        if word in entry:
            keyword, line = word, rest
            entry[word] = ""
        if line.startswith('"') and keyword:
            entry[keyword] += json.loads(line)
    return texts
