"""``%load_ext vram`` in IPython and Jupyter: ``%%vram``, ``%vram`` and a status line. See docs/notebook.md.

``import vram`` imports this module, which imports IPython only when IPython loads the extension.
"""

from __future__ import annotations

from typing import Any


def load_ipython_extension(shell: Any) -> None:
    """Add the magics to a shell; IPython calls this for ``%load_ext vram``."""
    from vram.notebook._extension import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Remove the magics and all hooks from a shell; IPython calls this for ``%unload_ext vram``."""
    from vram.notebook._extension import unload

    unload(shell)
