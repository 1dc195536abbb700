"""Files of real machines (tests/data/recorded_gpus), unpacked for the program under test.

The format of a tree is described in src/gpu/testing/recorded_tree.hpp.
"""

import pathlib

from program import ROOT

TREES = sorted((ROOT / "tests/data/recorded_gpus").glob("*.tree"))


def unpack(tree: pathlib.Path, folder: pathlib.Path) -> None:
    """Makes the sys and proc of a tree in a folder."""
    (folder / "sys").mkdir(parents=True)
    (folder / "proc").mkdir()
    files: dict[pathlib.Path, list[str]] = {}
    lines: list[str] = []
    for line in tree.read_text().splitlines():
        if line.startswith("\t"):
            lines.append(line[1:])
        elif " -> " in line and not line.startswith("#"):
            link, target = line.split(" -> ")
            (folder / link).parent.mkdir(parents=True, exist_ok=True)
            (folder / link).symlink_to(target)
        elif line and not line.startswith("#"):
            lines = files.setdefault(folder / line, [])
    for file, content in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(line + "\n" for line in content))
