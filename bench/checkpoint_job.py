"""One process of checkpoint_compiled.py: it compiles, waits, and measures when nothing else runs."""

# mypy: ignore-errors

from __future__ import annotations

import argparse
import csv
import fcntl
import importlib.util
import math
import os
import sys
import tempfile
import time
import warnings
from contextlib import nullcontext
from pathlib import Path

import torch
from checkpoint_compiled import READY, read, stop_file
from checkpoint_models import cross_entropy, fixed_lengths, models

if importlib.util.find_spec("vram") is None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
from vram import VramError
from vram.planning import _search
from vram.planning._compiled import Applied, Compiler, kind_of
from vram.planning._live import or_none
from vram.planning._measure import GpuMemory
from vram.planning._question import question_of
from vram.planning._region import regions_of
from vram.planning._regions import Regions

SHARES = (0.4, 0.6, 0.5, 0.8, 0.7, 0.9)  # of the uncompiled peak, the more telling ones first
TIMED, WARM = 7, 2
STEP_BYTES, IDLE_BYTES = 17_500_000_000, 1_300_000_000  # of a step of these models; of a process that waits
MAX_PLACES = 2  # more would disturb the measurements by which Triton configures its kernels


class Places:
    """Limits how many steps run at the same time while others compile."""

    def __init__(self, jobs, is_gpu):
        total = torch.cuda.get_device_properties(0).total_memory if is_gpu else 10 * STEP_BYTES
        fitting = int((0.92 * total - jobs * IDLE_BYTES - STEP_BYTES) // STEP_BYTES)
        self._count = min(max(1, fitting), MAX_PLACES)
        self._file = None

    def enter(self):
        number = os.getpid()
        while self._file is None:
            number += 1
            file = (Path(tempfile.gettempdir()) / f"vram-bench-place-{number % self._count}.lock").open("w")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._file = file
            except BlockingIOError:
                file.close()
                time.sleep(0.05)

    def leave(self):
        if self._file is not None:
            self._file.close()
            self._file = None


def middle(values):
    return sorted(values)[len(values) // 2]


class Child:
    def __init__(self, args):
        self.args, self.name, self.deadline = args, args.model, math.inf
        self.is_gpu = torch.cuda.is_available()
        self.device = torch.device("cuda" if self.is_gpu else "cpu")
        self.gpu = torch.cuda.get_device_name() if self.is_gpu else "none"
        self.places = Places(args.jobs, self.is_gpu)
        make, batch, self.casts = models(args.tiny)[self.name]
        torch.manual_seed(0)
        with self.device:
            self.model, self.sample = make(), batch()
        self.repeated = list(self.model.blocks)
        first = [self.model.stem] if hasattr(self.model, "stem") else []  # keeps the largest results of a ResNet
        self.blocks = [*first, *self.repeated]
        with self.autocast():
            question, device = question_of(self.model, self.sample, cross_entropy, blocks=self.blocks)
        self.compiler = Compiler(self.compile)
        with self.autocast():  # in which the search runs its steps
            self.search = Search(self, question, device)
        self.reference = None

    def autocast(self):
        return torch.autocast(self.device.type, torch.bfloat16) if self.casts else nullcontext()

    def compile(self, graph, inputs):
        """The backend: it compiles the backward pass, too, before the step takes its memory."""
        from torch._dynamo import lookup_backend
        from torch._functorch import config

        now = "force_non_lazy_backward_lowering"
        with config.patch({now: True}) if hasattr(config, now) else nullcontext():
            made = lookup_backend(self.args.backend)(graph, inputs)
        if self.args.part == "partitioner":
            self.places.enter()
        return made

    def step(self):
        self.model.zero_grad(set_to_none=True)
        with self.autocast():
            loss = cross_entropy(self.model(self.sample))
        loss.backward()

    def try_step(self):
        """One that allocates and compiles what is missing."""
        self.places.enter()
        try:
            or_none(self.step, self.model)
            self.model.zero_grad(set_to_none=True)
            if self.is_gpu:
                torch.cuda.synchronize()
                torch.cuda.empty_cache()
        finally:
            self.places.leave()

    def rest(self):
        """Wait for the time to measure."""
        print(READY, flush=True)
        line = sys.stdin.readline()
        if not line:
            sys.exit("the parent has ended")
        self.deadline = time.monotonic() + float(line)

    def has_time(self):
        return time.monotonic() < self.deadline

    def now(self):
        if self.is_gpu:
            torch.cuda.synchronize()
        return time.perf_counter()

    def add(self, method, choice, peak, times, hosts=None, budget="", difference=""):
        step, least, host = (f"{1e3 * each:.3f}" for each in (middle(times), min(times), middle(hosts or [0])))
        row = (self.name, method, choice, budget, peak, step, least, host if hosts else "", difference, self.gpu)
        with self.args.rows.open("a", newline="") as file:
            csv.writer(file).writerow(row)
        print(*row, flush=True)

    def measure(self, method, choice, budget=""):
        if not self.has_time():
            print(f"{method} {choice}: left out, the time is up", flush=True)
            return
        try:
            for _ in range(WARM):
                self.step()
            if self.is_gpu:
                torch.cuda.reset_peak_memory_stats()
            times, hosts = [], []  # hosts: until the last kernel was launched
            for _ in range(TIMED):
                began = self.now()
                self.step()
                hosts.append(time.perf_counter() - began)
                times.append(self.now() - began)
            peak = torch.cuda.max_memory_allocated() if self.is_gpu else 0
            torch.manual_seed(1)
            self.step()
        except Exception as error:  # one failure must not cost the others
            print(f"{method} {choice}: {type(error).__name__}: {error}", flush=True)
            return
        self.add(method, choice, peak, times, hosts, budget, self.difference())

    def difference(self):
        """From the gradients of the first measurement of this process, as a share of their norm."""
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        if self.reference is None:
            self.reference = [g.cpu() for g in gradients]  # not on the GPU, whose peak is measured
            return ""
        pairs = zip(gradients, self.reference, strict=True)
        squares = [(float(g.norm()) ** 2, float((g - r.to(g.device)).norm()) ** 2) for g, r in pairs]
        return math.sqrt(sum(d for _, d in squares) / max(1e-30, sum(n for n, _ in squares)))

    def compiled(self, kind, budgets, regions=()):
        return Applied(self.model, self.blocks, kind, budgets, regions, self.compiler)

    # -------------------------------------------------------------------------------------------------- parts

    def partitioner(self):
        """The whole model, compiled with one budget."""
        budget = float(self.args.budgets)
        applied = self.compiled("model", [budget])
        or_none(self.step, self.model)  # takes a place when it has compiled
        self.model.zero_grad(set_to_none=True)
        if self.is_gpu:
            torch.cuda.empty_cache()
        self.places.leave()
        self.rest()
        self.measure("partitioner", f"{budget:g}")
        applied.remove()

    def helper(self):
        """From the last block to the first, and the process of the plans from the first to the last."""
        self.compile_blocks(float(self.args.budgets), reverse=True)

    def compile_blocks(self, budget, reverse=False, may_stop=False):
        """Compile each kind of block with an input like its own: a whole step would keep its memory meanwhile."""
        if not hasattr(self, "inputs"):
            self.inputs = self.inputs_of_blocks()
        order = list(enumerate(self.blocks))
        done = set()
        for number, block in reversed(order) if reverse else order:
            like, is_sample = self.inputs[number]
            kind = (kind_of(block), like.shape)
            if kind in done or (may_stop and self.is_stopped()):
                continue
            done.add(kind)
            given = torch.randn(like.shape, dtype=like.dtype, device=self.device)
            given = given.as_strided(like.shape, like.stride())
            if not is_sample:
                given = given.requires_grad_() * 1
            with self.autocast():
                result = self.compiler.forward(block, budget)(given)
            result.sum().backward()
            self.model.zero_grad(set_to_none=True)
            print(f"compiled block {number} with {budget:g}", flush=True)

    def is_stopped(self):
        return stop_file(os.getppid(), self.name).exists()

    def inputs_of_blocks(self):
        found = []

        def see(_block, given):
            found.append((given[0].to("meta"), given[0] is self.sample))

        hooks = [block.register_forward_pre_hook(see) for block in self.blocks]
        with torch.no_grad(), self.autocast():
            self.model(self.sample)
        for hook in hooks:
            hook.remove()
        return found

    def plans(self):
        """Blocks with a budget for each, chosen by the planner; before it, the uncompiled model."""
        have = []
        for budget in self.args.budgets.split(","):
            enough = len(have) > 2
            self.compile_blocks(float(budget), may_stop=enough)
            if enough and self.is_stopped():
                break
            have.append(float(budget))
        _search._BUDGETS = tuple(sorted(have, reverse=True))
        count = len(self.blocks)
        for regions in ((), regions_of(count, 1)):
            applied = self.compiled("blocks", [1.0] * count, regions)
            self.try_step()
            applied.remove()
        print(f"blocks are compiled with {_search._BUDGETS}", flush=True)
        self.rest()
        self.uncompiled()
        self.rest()
        self.measure_plans()

    def uncompiled(self):
        count = len(self.repeated)
        self.measure("keep all", "")
        self.measure("keep all", "again")
        for method, length in fixed_lengths(count).items():
            applied = Regions(self.model, self.repeated, regions_of(count, length))
            self.measure(method, "")
            applied.remove()
        self.reference = None  # compiled code draws other numbers for dropout

    def budgets(self):
        """The peaks of the partitioner, then shares of the uncompiled peak that are not close to one before."""
        rows = [row for row in read(self.args.rows) if row["model"] == self.name]
        full = max((row["peak_bytes"] for row in rows if row["method"] == "keep all"), default=0)
        wanted = sorted(
            (r["peak_bytes"] for r in rows if r["method"] == "partitioner" and r["peak_bytes"]), reverse=True
        )
        wanted += [max(1 << 20, int(full * share)) for share in SHARES]
        chosen = []
        for each in wanted:
            if not any(abs(each - other) < 0.03 * max(other, 1) for other in chosen):
                chosen.append(each)
        return chosen

    def measure_plans(self):
        for budget in self.budgets():
            if not self.has_time():
                return
            try:
                plan = self.search.plan(budget)
            except VramError as error:
                print(f"plan within {budget}: {error}", flush=True)
                continue
            applied = Applied(
                self.model, self.blocks, plan.compiled, plan.activation_budgets, plan.regions, self.compiler
            )
            best = min((t for t in plan.tried if t.peak_bytes == plan.peak_bytes), key=lambda t: t.step_ns)
            self.measure("plan", best.way, budget)
            applied.remove()


class Search(_search.CompiledSearch):
    """Without the whole model, which other processes measure; gives up when the time is up."""

    def __init__(self, child, question, device):
        super().__init__(question, device, child.compiler, GpuMemory())
        self._child = child

    def _compile_model(self, _budget_bytes):
        pass

    def _measure(self, choice):
        is_new = choice not in self._measured
        if is_new and not self._child.has_time():
            self._measured[choice] = None
        measured = super()._measure(choice)
        if is_new and measured is not None:
            self._child.add("tried", str(choice), measured.peak_bytes, [measured.step_ns / 1e9])
        return measured


def main():
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=Path)
    for name in ("model", "part", "budgets", "--backend"):
        parser.add_argument(name)
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--tiny", action="store_true")
    child = Child(parser.parse_args())
    {"partitioner": child.partitioner, "helper": child.helper, "blocks": child.plans}[child.args.part]()
    sys.stdout.flush()
    os._exit(0)  # at once: the next process waits for the GPU


if __name__ == "__main__":
    main()
