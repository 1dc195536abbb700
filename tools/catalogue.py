#!/usr/bin/env python3
"""Keeps the translations in po/ in step with the texts in the sources.

update      writes po/vram.pot from the sources, and merges new texts into po/*.po
check       reports a stale po/vram.pot; texts without an entry and entries without a text; and translations whose
            placeholders differ from the original's
coverage    prints how many texts of each part are translated; --missing lists those that are not
web PATH... prints the translations of the texts in these files and folders as JSON: {"zh_CN": {"Peak": "峰值"}}. The
            pages of web/ mark a text with t("Peak")

Sources mark their texts as src/base/language.hpp describes, in Python as python/vram/_texts.py does. It needs xgettext.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import polib

ROOT = Path(__file__).resolve().parent.parent
PO = ROOT / "po"
MARKS = ["tr:1", "trf:1", "tr_later:1", "tr_context:1c,2"]
KEYWORDS = {
    "C++": [*MARKS, "fail:2", "differ:1", "system_failure:1", "unreadable:1"],
    "C++, errors in English": MARKS,
    "Python": ["tr:1", "tr_later:1"],
}
SUFFIXES = {".cpp": "C++", ".hpp": "C++", ".py": "Python", ".ts": "TypeScript", ".tsx": "TypeScript"}
# xgettext does not read TypeScript: t("Peak") or t("a long " + "text").
TYPESCRIPT = re.compile(r'\bt\(\s*("(?:[^"\\\n]|\\.)*"(?:\s*\+\s*"(?:[^"\\\n]|\\.)*")*)')
FOLDERS = ("src", "python/vram", "python/pytest_vram", "python/tensorboard_vram", "web")
# The errors of these stay English: libvram.so has no catalogue, and the HTTP API answers programs.
ENGLISH = ("src/capi/", "src/pool/", "src/serve/", "src/history/")
# Texts of tables that no function marks: the files, what matches each table in them, and what matches its texts.
TABLES = (
    ("src/watch/figures/*.?pp", r'\.detail = \{(?:[^{}]|"[^"]*")*\}', r'\.(?:name|words) = "([^"]+)"'),
    ("src/watch/figures/*.?pp", r'\.meaning\s*=\s*(?:"(?:[^"\\]|\\.)*"\s*)+', r'(?s)=\s*(".*")'),
    ("deploy/rules.toml", r"(?m)^(?:summary|advice) = .*$", r'= "(.*)"$'),
    ("python/vram/_startup/sitecustomize.py", r"(?m)^_[A-Z_]+ = \".*\"$", r'= "(.*)"$'),
)
HEADER = """\
Texts of vram: messages, help, views, findings and alerts.
Written by tools/catalogue.py; do not edit."""
WORD = re.compile(r"[A-Za-z]{2}")
SEPARATORS = (", ", "; ")
PLACEHOLDER = re.compile(r"\{\{|\}\}|\{((?:[^{}]|\{[^{}]*\})*)\}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("update")
    commands.add_parser("check")
    commands.add_parser("coverage").add_argument("--missing", action="store_true")
    commands.add_parser("web").add_argument("paths", nargs="+", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "update":
        return update()
    if arguments.command == "check":
        return report(problems(), f"{len(template())} texts, {len(languages())} languages")
    if arguments.command == "coverage":
        return coverage(arguments.missing)
    print(json.dumps(web_texts(arguments.paths), ensure_ascii=False, indent=1, sort_keys=True))
    return 0


def languages() -> dict[str, polib.POFile]:
    return {path.stem: polib.pofile(str(path), wrapwidth=0) for path in sorted(PO.glob("*.po"))}


def sources() -> list[Path]:
    found = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            name = path.relative_to(ROOT).as_posix()
            is_test = path.stem.endswith("_test") or any(
                part in name for part in ("/testing/", "/node_modules/", "/test/")
            )
            if path.suffix in SUFFIXES and not is_test:
                found.append(path)
    return found


def extracted(files: Iterable[Path]) -> polib.POFile:
    """Returns the texts that the files mark, each with the files that contain it."""
    catalogue = polib.POFile(wrapwidth=0)
    by_language: dict[str, list[str]] = defaultdict(list)
    for path in files:
        name = path.resolve().relative_to(ROOT).as_posix()
        by_language[SUFFIXES[path.suffix] + (", errors in English" if name.startswith(ENGLISH) else "")].append(name)
    entries: dict[tuple[str, str], polib.POEntry] = {}
    for language, names in by_language.items():
        if language == "TypeScript":
            for entry in typescript(names):
                entries.setdefault(("", entry.msgid), entry)
            continue
        passes: list[tuple[list[str], str | None]] = [(KEYWORDS[language], None)]
        if language == "C++":
            passes.append((["counted:2"], "counted"))
        for keywords, context in passes:
            for entry in xgettext(language.partition(",")[0], keywords, names):
                if not WORD.search(PLACEHOLDER.sub("", entry.msgid)) and entry.msgid not in SEPARATORS:
                    continue  # "{}: {}" is the same in all languages
                if context is not None:
                    entry.msgctxt = context
                known = entries.setdefault((entry.msgctxt or "", entry.msgid), entry)
                known.occurrences = sorted({*known.occurrences, *entry.occurrences})
    for key in sorted(entries, key=lambda key: (entries[key].occurrences[0][0], key)):
        entries[key].flags = []
        # One file is enough to find a text; all of them would change with every use of it.
        entries[key].occurrences = entries[key].occurrences[:1]
        catalogue.append(entries[key])
    return catalogue


def typescript(names: list[str]) -> Iterator[polib.POEntry]:
    for name in names:
        for match in TYPESCRIPT.finditer((ROOT / name).read_text(encoding="utf-8")):
            yield polib.POEntry(msgid=joined(match[1]), occurrences=[(name, "")])


def xgettext(language: str, keywords: list[str], names: list[str]) -> polib.POFile:
    command = ["xgettext", f"--language={language}", "--from-code=UTF-8", "--add-location=file", "--no-wrap"]
    command += ["--force-po", "--keyword", *(f"--keyword={word}" for word in keywords)]
    done = subprocess.run(
        [*command, "--files-from=-", "--output=-"],
        input="\n".join(names),
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"catalogue: xgettext failed (Debian's package gettext has it): {done.stderr}")
    return polib.pofile(done.stdout, wrapwidth=0)


def table_texts() -> Iterable[tuple[str, str]]:
    """Yields the texts of TABLES, each with its file."""
    for pattern, table, text in TABLES:
        for path in sorted(ROOT.glob(pattern)):
            for match in re.finditer(table, path.read_text()):
                for found in re.findall(text, match[0]):
                    yield joined(found), path.relative_to(ROOT).as_posix()


def joined(literals: str) -> str:
    """Returns the text of literals that follow each other, as C++ joins them; a text without quotes as it is."""
    parts = re.findall(r'"(?:[^"\\\n]|\\.)*"', literals) if literals.startswith('"') else []
    return "".join(map(json.loads, parts)) if parts else literals


def template() -> polib.POFile:
    catalogue = extracted(sources())
    known = {key_of(entry): entry for entry in catalogue}
    for text, name in table_texts():
        if ("", text) not in known:
            known["", text] = polib.POEntry(msgid=text, occurrences=[(name, "")])
            catalogue.append(known["", text])
    catalogue.header = HEADER
    catalogue.metadata = {"Content-Type": "text/plain; charset=UTF-8", "Content-Transfer-Encoding": "8bit"}
    return catalogue


def update() -> int:
    current = template()
    current.save(str(PO / "vram.pot"))
    texts = {key_of(entry): entry for entry in current}
    for language, catalogue in languages().items():
        known = {key_of(entry): entry for entry in catalogue}
        merged = [entry_with(entry, known.get(key)) for key, entry in texts.items()]
        catalogue[:] = merged
        catalogue.save(str(PO / f"{language}.po"))
        added, removed = len(texts.keys() - known.keys()), len(known.keys() - texts.keys())
        print(f"po/{language}.po: {added} texts added, {removed} removed")
    return 0


def entry_with(text: polib.POEntry, known: polib.POEntry | None) -> polib.POEntry:
    return polib.POEntry(
        msgctxt=text.msgctxt,
        msgid=text.msgid,
        msgstr=known.msgstr if known else "",
        tcomment=known.tcomment if known else "",
        occurrences=text.occurrences,
    )


def key_of(entry: polib.POEntry) -> tuple[str, str]:
    return entry.msgctxt or "", entry.msgid


def problems() -> list[str]:
    current = template()
    texts = {key_of(entry) for entry in current}
    found = []
    template_file = PO / "vram.pot"
    if not template_file.exists() or polib.pofile(str(template_file), wrapwidth=0) != current:
        found.append("po/vram.pot is not current; run tools/catalogue.py update")
    for language, catalogue in languages().items():
        found += problems_of(catalogue, texts, f"po/{language}.po")
    return found


def problems_of(catalogue: polib.POFile, texts: set[tuple[str, str]], name: str) -> list[str]:
    keys = [key_of(entry) for entry in catalogue]
    found = [f"{name}: no entry for {shown(key)}" for key in sorted(texts - set(keys))]
    found += [f"{name}: no source contains {shown(key)}" for key in sorted(set(keys) - texts)]
    found += [f"{name}: two entries for {shown(key)}" for key in sorted({key for key in keys if keys.count(key) > 1})]
    for entry in catalogue:
        if entry.msgstr and placeholders(entry.msgid) != placeholders(entry.msgstr):
            found.append(f"{name}: placeholders of {entry.msgstr!r} differ from those of {entry.msgid!r}")
        fields = [re.split("[:!]", match[1])[0] for match in PLACEHOLDER.finditer(entry.msgstr) if match[1] is not None]
        if "" in fields and any(fields):
            found.append(f"{name}: number all placeholders or none: {entry.msgstr!r}")
        if "fuzzy" in entry.flags:
            found.append(f"{name}: is marked as fuzzy, {shown(key_of(entry))}")
    return found


def shown(key: tuple[str, str]) -> str:
    return f"{key[1]!r}" + (f" in the context {key[0]!r}" if key[0] else "")


def placeholders(text: str) -> set[tuple[str, str]]:
    """Returns the arguments that a text of fmt or of str.format() names, each with its format. "{} {}" is "{0} {1}"."""
    found = set()
    next_index = 0

    def numbered(field: str) -> str:
        nonlocal next_index
        name, mark, conversion = field.partition("!")
        if name:
            return field
        next_index += 1
        return f"{next_index - 1}{mark}{conversion}"

    for match in PLACEHOLDER.finditer(text):
        if match[1] is None:
            continue
        name, _, form = match[1].partition(":")
        argument = numbered(name)
        form = re.sub(r"\{([^{}]*)\}", lambda nested: "{" + numbered(nested[1]) + "}", form)
        found.add((argument, form))
    return found


def report(found: list[str], summary: str) -> int:
    for problem in found:
        print(problem, file=sys.stderr)
    print(f"{summary}, {len(found)} problems")
    return 1 if found else 0


def part_of(entry: polib.POEntry) -> str:
    """Returns the module, or the folder of a module with folders of its own, of the first source of a text."""
    parts = entry.occurrences[0][0].split("/")
    return "/".join(parts[:3] if parts[1] == "show" else parts[:2])


def coverage(lists_missing: bool) -> int:
    for language, catalogue in languages().items():
        done: dict[str, int] = defaultdict(int)
        all_texts: dict[str, int] = defaultdict(int)
        for entry in catalogue:
            all_texts[part_of(entry)] += 1
            done[part_of(entry)] += bool(entry.msgstr)
            if lists_missing and not entry.msgstr:
                print(f"{entry.occurrences[0][0]}: {shown(key_of(entry))}")
        for part in sorted(all_texts):
            print(f"{language}  {part:<28} {done[part]:>5} of {all_texts[part]:>5}")
        share = 100 * sum(done.values()) / max(sum(all_texts.values()), 1)
        print(f"{language}  {'all':<28} {sum(done.values()):>5} of {sum(all_texts.values()):>5}, {share:.1f} %")
    return 0


def web_texts(paths: list[Path]) -> dict[str, dict[str, str]]:
    """Returns, by language, the translations of the texts in these files and folders. A text without one is left out."""
    files = [file for path in paths for file in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    files = [file for file in files if file.suffix in SUFFIXES]
    wanted = {key_of(entry) for entry in extracted(files)}
    return {
        language: {entry.msgid: entry.msgstr for entry in catalogue if entry.msgstr and key_of(entry) in wanted}
        for language, catalogue in languages().items()
    }


if __name__ == "__main__":
    sys.exit(main())
