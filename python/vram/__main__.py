"""``python -m vram …`` becomes the program: same process, same arguments, same exit code."""

import os
import sys

from vram import program


def main() -> None:
    """Replace this process by the program."""
    path = str(program())
    os.execv(path, ["vram", *sys.argv[1:]])


if __name__ == "__main__":
    main()
