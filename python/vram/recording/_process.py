"""What a recording says about its process: its rank among others, its machine, its frameworks."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

from vram._library import library

# Of torchrun, Open MPI, MPICH and Slurm, in this order: rank and number of ranks.
_RANKS = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
)


def rank() -> tuple[int, int] | None:
    """This process's number among those that work together, and how many they are; None: it works alone."""
    for own, all_of_them in _RANKS:
        found, count = os.environ.get(own, ""), os.environ.get(all_of_them, "")
        if found.isdecimal() and count.isdecimal() and int(count) > 1:
            return int(found), int(count)
    return None


def path_of_rank(path: Path) -> Path:
    """run.vtrace is run.rank3.vtrace for rank 3 of several."""
    found = rank()
    return path if found is None else path.with_name(f"{path.stem}.rank{found[0]}{path.suffix}")


def describe() -> None:
    """Says it to the recording that runs."""
    facts = {
        "host": platform.node(),
        "python.version": platform.python_version(),
        "process.arguments": " ".join(sys.argv),
    }
    found = rank()
    if found is not None:
        facts.update(rank=str(found[0]), world_size=str(found[1]))
    for name in ("torch", "tensorflow", "jax", "cupy"):
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            facts[f"{name}.version"] = str(version)
    for key, value in facts.items():
        library().vram_record_about(key.encode(), value.encode(errors="replace"))
