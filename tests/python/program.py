"""The program under test, run as a user runs it: VRAM_BINARY names it; default: the release build."""

import contextlib
import json
import os
import pathlib
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("VRAM_BINARY", str(ROOT / "build/release/src/vram"))
# AddressSanitizer takes memory and address space of its own, and counts what libraries leave behind at an error.
IS_SANITIZED = pathlib.Path(BINARY).parents[1].name in {"asan", "tsan"}
DEMOS = sorted((ROOT / "demo").glob("*.pickle.xz"))


def environment(**changes: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LD_LIBRARY_PATH") if name in os.environ}
    return {**kept, "LANG": "C.UTF-8", "TERM": "xterm", **changes}


def vram(*arguments: object, **changes: str) -> subprocess.CompletedProcess[str]:
    words = [BINARY, *map(str, arguments)]
    return subprocess.run(
        words,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=120,
        env=environment(**changes),
        stdin=subprocess.DEVNULL,
    )


@contextlib.contextmanager
def started(words: Sequence[object], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """A process for as long as the block: killed at its end, where it still runs."""
    with subprocess.Popen([str(word) for word in words], **options) as process:
        try:
            yield process
        finally:
            process.kill()


def vram_json(*arguments: object) -> Any:
    done = vram(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)
