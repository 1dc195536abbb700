"""Predicts programs, measures them, and runs them with the least memory that was promised: everything in one pool of forks.

    python bench/prediction/proof.py first OUT [--seconds 550]
    python bench/prediction/proof.py second OUT --predicted FIRST/predicted.json [--seconds 550]
    python bench/prediction/proof.py again OUT [--others NAME…] [--seconds 250]

`first` predicts the programs of --half (peaks.py), measures them under each allocator (measure.py), finds their largest batches for 16 GiB and runs
those and batches that are 2 % larger (batches.py), and predicts the other halves while cores are free. `second` predicts what is missing and runs
programs at the least memory that was promised (fits.py), so often as time allows. `again` predicts the programs of --half and the families --others,
and runs them at the least memory and with the batches that are found, after rules were changed; with --bare also at the least memory that is predicted
without a margin. A task that fails or takes too long ends alone. OUT has predicted.json, batches.json, fits.json, bare.json and measured.tar.xz, which
are written again and again, so that a call that is cut short leaves results.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import random
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from processes import ENVIRONMENT, GRACE_S

GIB = 1 << 30
# What a process has on the GPU besides PyTorch's segments, about, and what is left free.
OUTSIDE_BYTES = 850 << 20
SPARE_BYTES = 4 * GIB
# Programs of unknown size, and the limit for which batches are found with what is outside of it.
UNKNOWN_BYTES = 14 * GIB
BATCH_GPU, BATCH_BYTES = "16GiB", 16 * GIB
MAX_ON_GPU = 11
WRITE_EVERY_S = 20.0


@dataclass
class Task:
    """A call in a fork of this process.

    Attributes:
        rank: Tasks of lower rank start first.
        gpu_bytes: What it has on the GPU.
        is_training: It computes on the GPU.
        then: Called after it with whether it succeeded.
    """

    name: str
    call: Callable[[], None]
    rank: int
    gpu_bytes: int
    limit_s: float
    is_training: bool = True
    then: Callable[[bool], None] = lambda _: None


@dataclass
class Pool:
    jobs: int
    gpu_bytes: int
    until: float
    queue: list[Task] = field(default_factory=list)
    running: dict[int, tuple[Task, float]] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)

    def add(self, task: Task) -> None:
        self.queue.append(task)
        self.queue.sort(key=lambda each: each.rank)

    def run(self, write: Callable[[], None]) -> None:
        written = time.monotonic()
        while (self.queue or self.running) and time.monotonic() < self.until:
            if not self._start() and not self._collect():
                time.sleep(0.02)
            if time.monotonic() - written > WRITE_EVERY_S:
                write()
                written = time.monotonic()
        for pid in self.running:
            os.killpg(pid, signal.SIGKILL)
        for name in [task.name for task, _ in self.running.values()]:
            print(f"{name}: stopped at the end", flush=True)
        write()

    def _start(self) -> bool:
        tasks = [task for task, _ in self.running.values()]
        if len(tasks) >= self.jobs:
            return False
        room = self.gpu_bytes - sum(task.gpu_bytes for task in tasks)
        is_full = sum(task.is_training for task in tasks) >= MAX_ON_GPU
        for task in self.queue:
            if task.gpu_bytes <= room and not (is_full and task.is_training):
                self.queue.remove(task)
                pid = os.fork()
                if pid == 0:
                    self._inside(task)
                self.running[pid] = (task, time.monotonic())
                return True
        return False

    @staticmethod
    def _inside(task: Task) -> None:
        code = 1
        try:
            os.setsid()
            task.call()
            code = 0
        except SystemExit as left:
            code = int(left.code or 0)
        except BaseException as error:
            print(f"{task.name}: {type(error).__name__}: {error}"[:400], flush=True)
        finally:
            sys.stdout.flush()
            os._exit(code)

    def _collect(self) -> bool:
        for pid, (task, started) in [*self.running.items()]:
            over = time.monotonic() - started > task.limit_s
            if over:
                os.killpg(pid, signal.SIGKILL)
            found, status = os.waitpid(pid, 0 if over else os.WNOHANG)
            if found:
                del self.running[pid]
                kind = f"{task.name.split()[0]} {'late' if over else 'failed' if status else 'done'}"
                self.ended[kind] = self.ended.get(kind, 0) + 1
                if status:
                    print(f"{task.name}: {'took too long' if over else f'status {status}'}", flush=True)
                task.then(not status)
                return True
        return False


class Proof:
    """What is done for each program, and what was found."""

    def __init__(self, wanted: argparse.Namespace, folder: Path) -> None:
        import families

        self.wanted, self.folder = wanted, folder
        self.gpu, total = gpu_here()
        self.pool = Pool(wanted.jobs, total - SPARE_BYTES, time.monotonic() + wanted.seconds)
        self.predicted: dict[str, Any] = {}
        for path in wanted.predicted:
            self.predicted |= json.loads(path.read_text()) if path.exists() else {}
        self.batches: dict[str, Any] = {}
        # At what is promised, and at the least memory that is predicted.
        self.runs: dict[str, list[dict[str, Any]]] = {"limits": [], "least": []}
        self.own = [*families.programs((wanted.half,))]
        self.others = [p for p in families.programs(families.GROUPS) if p.family.half != wanted.half]
        if wanted.only:
            self.own, self.others = (
                [program for program in programs if program.family.name in wanted.only]
                for programs in (self.own, self.others)
            )

    def predict(self, program: Any, rank: int, then: Callable[[], None] = lambda: None) -> None:
        import peaks

        out = self.folder / "predicted" / f"{program.name}.json"
        out.parent.mkdir(exist_ok=True)

        def ended(_: bool) -> None:
            self.predicted[program.name] = json.loads(out.read_text()) if out.exists() else {"error": "not finished"}
            then()

        call = functools.partial(peaks.predict, program, self.gpu, "2.11.0", out)
        self.pool.add(Task(f"predict {program.name}", call, rank, OUTSIDE_BYTES, 240, False, ended))

    def measure(self, program: Any, rank: int) -> None:
        import torch
        from measure import ALLOCATORS, child

        device = "cuda" if self.gpu_is_here else "cpu"

        def call(allocator: str) -> None:
            if ALLOCATORS[allocator] and self.gpu_is_here:
                torch.cuda.memory._set_allocator_settings(ALLOCATORS[allocator])
            path = self.folder / "measured" / allocator / f"{program.name}.json.xz"
            child(program, path, allocator, device, False)

        for allocator in ALLOCATORS:
            found = self.predicted.get(program.name, {}).get(allocator)
            size = found[1] * 11 // 10 + OUTSIDE_BYTES if found else UNKNOWN_BYTES
            name = f"measure {program.name} {allocator}"
            self.pool.add(Task(name, functools.partial(call, allocator), rank, size, 120))

    def find_batch(self, family: Any, precision: str, rank: int) -> None:
        import batches

        name = family.name if precision == "fp32" else f"{family.name}.{precision}"
        out = self.folder / f"batch.{name}.json"

        def run(row: dict[str, Any]) -> None:
            for percent in (0, 2):
                size = row["batch_size"] * (100 + percent) // 100 + (percent > 0)
                path = self.folder / f"batch.{name}.{percent}.json"

                def ended(_: bool, path: Path = path) -> None:
                    if path.exists():
                        row.setdefault("measured", {}).update(json.loads(path.read_text()))

                call = functools.partial(batches.run_one, family, row, size, path)
                self.pool.add(Task(f"batch {name} +{percent} %", call, rank, BATCH_BYTES, 150, then=ended))

        def found(_: bool) -> None:
            if out.exists():
                self.batches[name] = json.loads(out.read_text())
                run(self.batches[name])

        if name in self.batches:
            return
        call = functools.partial(batches.predict_one, family, precision, BATCH_GPU, out)
        self.pool.add(Task(f"search {name}", call, rank, OUTSIDE_BYTES, 400, False, found))

    def run_at_limit(self, program: Any, seed: int, rank: int, kind: str = "limits") -> None:
        from fits import run_one
        from measure import ALLOCATORS

        for allocator in ALLOCATORS:
            limit = self.predicted[program.name].get(kind, {}).get(allocator)
            if limit is None:
                continue
            out = self.folder / kind / f"{program.name}.{allocator}.{seed}.json"
            out.parent.mkdir(exist_ok=True)

            def ended(_: bool, out: Path = out) -> None:
                if out.exists():
                    self.runs[kind].append(json.loads(out.read_text()))

            call = functools.partial(run_one, program, limit, allocator, seed, out)
            name = f"{kind} {program.name} {allocator} {seed}"
            self.pool.add(Task(name, call, rank, limit + OUTSIDE_BYTES, 120, then=ended))

    @property
    def gpu_is_here(self) -> bool:
        return self.pool.gpu_bytes < 1 << 50

    def write(self) -> None:
        out = self.wanted.out
        lines = (f"{json.dumps(name)}: {json.dumps(each)}" for name, each in self.predicted.items())
        (out / "predicted.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
        (out / "batches.json").write_text(json.dumps(self.batches, indent=1) + "\n")
        for name, runs in (("fits", self.runs["limits"]), ("bare", self.runs["least"])):
            (out / f"{name}.json").write_text("[" + ",\n".join(map(json.dumps, runs)) + "]\n")
        if (self.folder / "measured").exists():
            with tarfile.open(out / "measured.tar.xz", "w:xz", preset=0) as archive:
                archive.add(self.folder / "measured", "measured")
        spent = self.wanted.seconds - (self.pool.until - time.monotonic())
        print(f"{spent:.0f} s: {self.pool.ended}", flush=True)
        for kind, runs in self.runs.items():
            print(f"at {kind}: {len(runs)}, not ended: {sum(not each.get('fits') for each in runs)}", flush=True)


def gpu_here() -> tuple[str, int]:
    """Returns the name that dry runs know the GPU by, and its memory; by nvidia-smi, because CUDA must not be initialized before forks."""
    words = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    try:
        name, mib = subprocess.check_output(words, text=True).splitlines()[0].rsplit(",", 1)
    except (OSError, subprocess.CalledProcessError):
        return "H100 80GB", 1 << 60
    return "H200" if "H200" in name else "H100 80GB", int(mib) << 20


def first(proof: Proof) -> None:
    """Predictions of this half first, then its measurements and batches; the predictions of others fill what is left."""
    families_seen: dict[str, Any] = {program.family.name: program.family for program in proof.own}
    for i, family in enumerate(families_seen.values()):
        proof.find_batch(family, "fp32", 1)
        if i % 2 == 0:
            proof.find_batch(family, "bf16_autocast", 4)
    for program in proof.own:
        proof.predict(program, 2, functools.partial(proof.measure, program, 0))
    for program in proof.others:
        proof.predict(program, 5)


def second(proof: Proof) -> None:
    """Runs at the limit; predictions that are missing are made in parallel, those of other halves after the first runs of programs that have theirs."""
    choose = random.Random(0)
    own = {program.name for program in proof.own}

    def rounds(program: Any) -> None:
        for seed in range(proof.wanted.seeds):
            rank = 10 + 10 * seed + (0 if program.name in own else 4) + choose.randrange(4)
            proof.run_at_limit(program, seed, rank)
        if proof.wanted.bare:
            proof.run_at_limit(program, 0, 14, "least")

    for program in [*proof.own, *proof.others]:
        if "limits" in proof.predicted.get(program.name, {}):
            rounds(program)
        else:
            proof.predict(program, 1 if program.name in own else 15, functools.partial(rounds, program))


def again(proof: Proof) -> None:
    """Predictions, runs at the limit as soon as a program is predicted, and batches; those of --others come first."""
    for family in {program.family.name: program.family for program in proof.own}.values():
        proof.find_batch(family, "fp32", 1)
        proof.find_batch(family, "bf16_autocast", 4)
    for rank, programs in ((0, proof.others), (2, proof.own)):
        for program in programs:
            if rank or program.family.name in proof.wanted.others:
                proof.predict(program, rank, functools.partial(run_again, proof, program))


def run_again(proof: Proof, program: Any) -> None:
    for seed in range(proof.wanted.seeds):
        proof.run_at_limit(program, seed, 3 * seed)
    if proof.wanted.bare:
        proof.run_at_limit(program, 0, 1, "least")


PARTS: dict[str, Callable[[Proof], None]] = {"first": first, "second": second, "again": again}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=[*PARTS])
    parser.add_argument("out", type=Path)
    parser.add_argument("--predicted", type=Path, nargs="*", default=[])
    parser.add_argument("--half", default="unseen")
    parser.add_argument("--only", nargs="*", default=[], help="names of families")
    parser.add_argument("--others", nargs="*", default=[], help="names of families of other halves, for `again`")
    parser.add_argument("--seconds", type=float, default=550 - GRACE_S)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--bare", action="store_true", help="for `second` and `again`: run without a margin, too")
    parser.add_argument("--jobs", type=int, default=15)
    parser.add_argument("--forked", action="store_true", help="internal: the environment is set")
    return parser.parse_args()


def main() -> int:
    wanted = arguments()
    if not wanted.forked:
        return subprocess.call([sys.executable, __file__, *sys.argv[1:], "--forked"], env={**os.environ, **ENVIRONMENT})
    import batches  # noqa: F401
    import families
    import fits  # noqa: F401
    import peaks  # noqa: F401

    families.preload()
    wanted.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        proof = Proof(wanted, Path(folder))
        PARTS[wanted.part](proof)
        proof.pool.run(proof.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
