"""Compares the runs of programs near their least memory with replays of their dry runs, with exactly as much memory.

    python bench/prediction/near.py OUT.csv --runs fits-eighth-h200.csv… [--capacities FOLDER] [--only NAME…]

Needs no GPU. The runs are those of fits.py and proof.py, and the trials of capacities.py, with PyTorch's default settings and 0.9 to 1.03 times the
least memory of the dry run. Programs in which a kernel can do with less than it asks for, or has no rule, are left out: what they take is asked of
cuDNN on a GPU, or not known. OUT has for each run whether it ended, of how many layouts of addresses the replays complete, and the probability by
the replays near it (`run.fits`). A program with "estimated" has recurrent layers, whose memory is estimated.
"""

from __future__ import annotations

import argparse
import csv
import functools
import json
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

from measure import STEPS
from processes import run_forked

LIMITS = (0.9, 1.03)
COLUMNS = ["program", "limit_bytes", "ended", "least_bytes", "share_completed", "probability", "estimated"]
Runs = dict[str, dict[int, bool]]


def runs_of(files: list[Path], capacities: Path | None) -> Runs:
    """Returns by program and limit whether it ended."""
    found: Runs = {}
    for path in files:
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                if row["allocator"] == "native":
                    found.setdefault(row["program"], {})[int(row["limit_bytes"])] = row["fits"] == "1"
    for path in sorted((capacities / "native").glob("*.json")) if capacities else []:
        tried = json.loads(path.read_text())
        for trial in tried["trials"]:
            found.setdefault(tried["program"], {})[trial["limit_bytes"]] = trial["outcome"] == "fits"
    return found


def compare(program: Any, ended: dict[int, bool], out: Path) -> None:
    """Writes the rows of a program."""
    import families
    import torch

    import vram
    from vram.dry import _least

    warnings.simplefilter("ignore")
    with vram.dry_run("H200", torch_version="2.11.0") as run:
        torch.empty(1, device="cuda")
        torch.manual_seed(0)
        step = families.build(program)
        for _ in range(STEPS):
            step()
    session = run._running()
    rows: list[dict[str, Any]] = []
    if not (session.has_convolutions or session.smaller or run.unknown_operators):
        path, allocator = run._path_at_limit, run._settings.allocator
        least, error = run._least_bytes(path), run.relative_error
        limits = [limit for limit in sorted(ended) if LIMITS[0] * least < limit < LIMITS[1] * least]
        shares = _least.shares_completed(path, allocator, limits)
        for limit, share in zip(limits, shares, strict=True):
            likely = run.fits_within(limit + session.outside_bytes, error).probability
            row = program.name, limit, int(ended[limit]), least, share, likely, int(session.estimated_bytes > 0)
            rows.append(dict(zip(COLUMNS, row, strict=True)))
    out.write_text(json.dumps(rows))


def main() -> int:
    import families

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--runs", type=Path, nargs="*", default=[])
    parser.add_argument("--capacities", type=Path)
    parser.add_argument("--only", nargs="*", default=[], help="names of programs")
    parser.add_argument("--seconds", type=float, default=7200)
    parser.add_argument("--jobs", type=int, default=1)
    wanted = parser.parse_args()
    families.preload()
    runs = runs_of(wanted.runs, wanted.capacities)
    chosen = [
        program
        for program in families.programs(families.GROUPS)
        if program.name in runs and (not wanted.only or program.name in wanted.only)
    ]
    with tempfile.TemporaryDirectory() as folder:
        outs = {program.name: Path(folder) / f"{program.name}.json" for program in chosen}
        tasks = [
            (program.name, functools.partial(compare, program, runs[program.name], outs[program.name]))
            for program in chosen
        ]
        failed = run_forked("programs", tasks, wanted.jobs, wanted.seconds)
        rows = [row for out in outs.values() if out.exists() for row in json.loads(out.read_text())]
    with wanted.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    for share in (1.0, None):
        some = [row for row in rows if (row["share_completed"] == 1.0) == (share == 1.0) and not row["estimated"]]
        kind = "complete" if share else "do not complete"
        print(f"replays {kind}: {len(some)} runs, {sum(row['ended'] for row in some)} ended")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
