"""The HTML page of a recording, which the program writes: ``vram report TRACE --html FILE`` (docs/html-report.md)."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
from importlib.metadata import PackageNotFoundError
from pathlib import Path

from vram._error import VramError
from vram._installed import program
from vram._sizes import format_size
from vram._texts import tr

_DEFAULT_TIMEOUT = 300.0
_MAX_MESSAGE = 1000
_PREFIX = re.compile(r"^vram: [^ :]+: ")  # "error", in any language


def make_page(
    recording: str | os.PathLike[str],
    max_bytes: int,
    *,
    max_recording_bytes: int | None = None,
    timeout: float = _DEFAULT_TIMEOUT,
) -> bytes:
    """Return the page of a recording.

    Args:
        recording: The file.
        max_bytes: The maximum size of the page.
        max_recording_bytes: The maximum size of the decompressed recording. None: the program's default.
        timeout: The maximum time, in seconds.

    Raises:
        VramError: The program is missing, is older than the option, failed, or took too long; or the page is too large.
    """
    limit = [] if max_recording_bytes is None else ["--max-size", f"{max_recording_bytes}B"]
    with tempfile.TemporaryDirectory(prefix="vram-page-") as folder:
        page = Path(folder, "report.html")
        _run(["report", os.path.abspath(recording), "--html", str(page), *limit], timeout)
        try:
            size = page.stat().st_size
            if size > max_bytes:
                raise VramError(
                    tr("the page takes {}, and the limit is {}").format(format_size(size), format_size(max_bytes))
                )
            return page.read_bytes()
        except OSError as error:
            raise VramError(tr("the page that the program wrote cannot be read: {}").format(error)) from error


def _run(words: list[str], timeout: float) -> None:
    try:
        command = [str(program()), *words]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False)
    except PackageNotFoundError as error:
        raise VramError(
            tr("vram runs from its sources, without its program; set VRAM_PROGRAM to the program vram")
        ) from error
    except subprocess.TimeoutExpired as error:
        raise VramError(tr("the page was not ready after {:.0f} s").format(timeout)) from error
    except OSError as error:
        raise VramError(tr("the program vram cannot be started: {}; set VRAM_PROGRAM to it").format(error)) from error
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or [
            tr("exit code {}").format(done.returncode)
        ]
        raise VramError(_PREFIX.sub("", lines[-1])[:_MAX_MESSAGE])


def commands_for(recording: str | os.PathLike[str]) -> tuple[str, str]:
    """Return the commands that show the page of a recording without a notebook: a file, and a local server."""
    command = f"vram report {shlex.quote(os.fspath(recording))}"
    return f"{command} --html report.html", f"{command} --serve"
