#!/usr/bin/env python3
"""Stands in for the program ``vram report RECORDING --html PAGE``, where there is no build: one page for any file.

The content of the recording decides: "fail" is an error, "hang" never ends, "large" is a large page. Each run is a line in
the file that PAGE_PROGRAM_LOG names.
"""

import html
import os
import sys
import time
from pathlib import Path

_POLICY = "default-src 'none'; script-src 'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='; base-uri 'none'"


def main(words: list[str]) -> int:
    recording, page = Path(words[1]), Path(words[3])
    if words[0] != "report" or words[2] != "--html":
        return 2
    log = os.environ.get("PAGE_PROGRAM_LOG")
    if log:
        with open(log, "a") as runs:
            runs.write(f"{recording} {' '.join(words[4:])}\n")
    text = recording.read_bytes().decode(errors="replace")
    if text == "fail":
        print("vram: error: it is <no> recording", file=sys.stderr)
        return 1
    if text == "hang":
        time.sleep(600)
    filling = "x" * (1 << 20) if text == "large" else ""
    policy = f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    page.write_text(
        f"<!doctype html>\n<html>\n<head>\n{policy}\n<title>{html.escape(recording.name)}</title>\n</head>\n"
        f'<body data-kind="a &amp; b">{filling}</body>\n</html>\n'
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
