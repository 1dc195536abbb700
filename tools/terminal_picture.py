#!/usr/bin/env python3
"""Draws a terminal for the documentation: renders what tmux captured, with colours, as a PNG by chromium.

tmux capture-pane -p -e -N | tools/terminal_picture.py docs/images/top.png
"""

from __future__ import annotations

import html
import re
import subprocess
import sys
import tempfile
import unicodedata
from pathlib import Path

SGR = re.compile(r"\x1b\[([0-9;]*)m|\x1b\([A-Z0-9]|[\x0e\x0f]")
# Block characters of adjacent cells must touch each other.
CELL_WIDTH, CELL_HEIGHT, FONT_SIZE, MARGIN = 8.8, 18, 14.65, 10
BACK, TEXT = "#14161b", "#d5d8df"
COLOURS = ["#3b3f48", "#e0626a", "#7fb86a", "#d8a657", "#5f95d6", "#b67fd0", "#56b6b9", "#c8ccd4"]
BRIGHT = ["#6b7080", "#f07a82", "#98cf84", "#ecc07a", "#7fb2f0", "#cc9be4", "#74d0d3", "#f2f4f8"]


class Look:
    """The current colours and attributes, as set by escape codes."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.colour, self.bold, self.faint, self.inverted = TEXT, False, False, False

    def obey(self, codes: list[int]) -> None:
        while codes:
            code = codes.pop(0)
            if code == 0:
                self.reset()
            elif code in (1, 2, 7):
                self.bold, self.faint, self.inverted = (
                    self.bold or code == 1,
                    self.faint or code == 2,
                    self.inverted or code == 7,
                )
            elif code in (22, 27):
                self.bold, self.faint = self.bold and code != 22, self.faint and code != 22
                self.inverted = self.inverted and code != 27
            elif 30 <= code <= 37:
                self.colour = COLOURS[code - 30]
            elif 90 <= code <= 97:
                self.colour = BRIGHT[code - 90]
            elif code == 39:
                self.colour = TEXT
            elif code == 38 and codes[:1] == [5]:
                number = codes[1]
                del codes[:2]
                self.colour = (COLOURS + BRIGHT)[number] if number < 16 else TEXT

    def css(self) -> str:
        front, back = (BACK, self.colour) if self.inverted else (self.colour, "transparent")
        weight = "font-weight:bold;" if self.bold else ""
        return f"color:{front};background:{back};{weight}{'opacity:.55;' if self.faint else ''}"


def fill(character: str, colour: str) -> str | None:
    """Return the background of a cell that a block character fills, since fonts leave gaps between them; None for others."""
    eighths = "▁▂▃▄▅▆▇█".find(character) + 1
    if eighths > 0:
        return f"linear-gradient(to top,{colour} {eighths * 12.5}%,transparent 0)"
    eighths = "▏▎▍▌▋▊▉".find(character) + 1
    if eighths > 0:
        return f"linear-gradient(to right,{colour} {eighths * 12.5}%,transparent 0)"
    shade = {"░": 35, "▒": 55, "▓": 75}.get(character)
    return f"color-mix(in srgb,{colour} {shade}%,transparent)" if shade else None


def columns(text: str) -> int:
    """Return how many cells a text takes."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def spans(line: str, look: Look) -> str:
    """Return the cells of a line, each glyph in the box of its cell, because fonts differ in the widths of glyphs."""
    out, column, at = [], 0, 0
    while at < len(line):
        code = SGR.match(line, at)
        if code:
            look.obey([int(part or 0) for part in (code[1] or "0").split(";")] if code[0].endswith("m") else [])
            at = code.end()
            continue
        wide = columns(line[at])
        place = f"left:{column * CELL_WIDTH:.1f}px;width:{wide * CELL_WIDTH:.1f}px"
        filled = None if look.inverted else fill(line[at], look.colour)
        if filled:
            faint = "opacity:.55" if look.faint else ""
            out.append(f'<i style="{place};background:{filled};{faint}"></i>')
        else:
            out.append(f'<i style="{place};{look.css()}">{html.escape(line[at])}</i>')
        column += wide
        at += 1
    return "".join(out)


def page(text: str) -> tuple[str, int, int]:
    lines = text.rstrip("\n").split("\n")
    look = Look()
    rows = "".join(f'<div style="top:{i * CELL_HEIGHT}px">{spans(line, look)}</div>' for i, line in enumerate(lines))
    width = round(max(columns(SGR.sub("", line)) for line in lines) * CELL_WIDTH) + 2 * MARGIN
    style = (
        f"body{{margin:0;background:{BACK}}}main{{position:relative;margin:{MARGIN}px}}"
        f"div{{position:absolute}}i{{position:absolute;font:normal {FONT_SIZE}px/{CELL_HEIGHT}px 'DejaVu Sans Mono',monospace;"
        f"height:{CELL_HEIGHT}px;white-space:pre;overflow:hidden}}"
    )
    whole = f'<!doctype html><meta charset="utf-8"><style>{style}</style><main>{rows}</main>'
    return whole, width, len(lines) * CELL_HEIGHT + 2 * MARGIN


def draw(text: str, picture: Path) -> None:
    """Draw a terminal with this text, whose colours are escape codes, as a PNG."""
    whole, width, height = page(text)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "screen.html"
        source.write_text(whole)
        words = [
            "chromium",
            "--headless",
            "--no-sandbox",
            "--hide-scrollbars",
            "--force-device-scale-factor=1.25",
            f"--window-size={width},{height}",
        ]
        target = f"--screenshot={picture.resolve()}"
        subprocess.run([*words, target, source.as_uri()], check=True, capture_output=True, timeout=120)


def main() -> int:
    if len(sys.argv) != 2:
        print((__doc__ or "").strip(), file=sys.stderr)
        return 2
    draw(sys.stdin.read(), Path(sys.argv[1]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
