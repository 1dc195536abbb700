"""Plans of compiled blocks against PyTorch's partitioner on the whole model, at equal memory: peaks and step times.

    python bench/checkpoint_compiled.py measure rows.csv      # one GPU; the compiler takes most of the time, on all cores
    python bench/checkpoint_compiled.py table rows.csv        # the rows as a table in Markdown

`measure` starts a process for each program: the whole model with one `activation_memory_budget`, or the blocks of a model with several. They
compile at the same time. Then nothing else runs while one process after another measures; processes that still compile are stopped
meanwhile, and measured afterwards. The budgets of plans are the peaks that the partitioner reached, then shares of the uncompiled peak.

`--tiny` does the same with models that a CPU runs in seconds; peaks are then 0, because the CPU does not count them.
"""

# mypy: ignore-errors

from __future__ import annotations

import argparse
import contextlib
import csv
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

PARTITIONED = {"gpt": (1, 0.99, 0.5), "vit": (1, 0.99, 0.5), "resnet": (1, 0.99, 0.5, 0.49, 0.2)}  # the whole model
PLANNED = (
    1,
    0.99,
    0.49,
)  # of the whole model: plans try these, too; 0.49 within what ResNet takes with 0.5 (next_share())
HELPED = "resnet"  # has nine kinds of blocks, which other processes help to compile; others have one
FIELDS = (
    "model",
    "method",
    "choice",
    "budget_bytes",
    "peak_bytes",
    "step_ms",
    "least_step_ms",
    "host_ms",
    "gradient_difference",
    "gpu",
)
READY = "@ready"  # a line of a job that waits
JOB = Path(__file__).with_name("checkpoint_job.py")
METHODS = ("plan", "tried", "keep all", "every block", "√N", "partitioner")


# ------------------------------------------------------------------------------------------------------ the processes


def stop_file(parent, model):
    return Path(tempfile.gettempdir()) / f"vram-bench-{parent}-{model}.stop"


@dataclass(eq=False)
class Job:
    """A process that compiles, waits for a line in its input, and measures; it may do the latter several times."""

    model: str
    part: str  # "blocks", "partitioner", or "helper": compiles blocks and ends, for the compiler's cache
    budgets: str
    process: subprocess.Popen | None = None
    is_ready: bool = False

    def __str__(self):
        return f"{self.model} {self.part} {self.budgets}"


class Parent:
    def __init__(self, args):
        self.args, self.begun, self.log = args, time.monotonic(), args.rows.with_suffix(".log").open("w")
        self.events = queue.Queue()
        self.jobs = []
        for name in args.models.split(","):
            if "blocks" in args.parts:
                budgets = args.block_budgets.split(",")
                self.jobs.append(Job(name, "blocks", args.block_budgets))
                helped = budgets if name == HELPED and not args.no_helpers else ()
                self.jobs += [Job(name, "helper", budget) for budget in helped]
            if "partitioner" in args.parts:
                wanted = args.partitioner.split(",") if args.partitioner else map(str, PARTITIONED[name])
                self.jobs += [Job(name, "partitioner", budget) for budget in wanted]

    def left(self):
        return self.begun + self.args.seconds - time.monotonic()

    def say(self, text):
        for file in (sys.stdout, self.log):
            print(f"{time.monotonic() - self.begun:6.1f} s  {text}", file=file, flush=True)

    def start(self, job):
        args = self.args
        command = [sys.executable, JOB, str(args.rows), job.model, job.part, job.budgets]
        command += ["--backend", args.backend, "--jobs", str(len(self.jobs)), *(["--tiny"] if args.tiny else [])]
        job.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True, errors="replace",
        )  # fmt: skip

        def read():
            for line in job.process.stdout:
                if line.strip() == READY:
                    self.events.put(job)
                else:
                    self.say(f"{job}: {line.rstrip()}")
            job.process.wait()
            self.events.put(job)

        threading.Thread(target=read, daemon=True).start()

    def signal(self, job, number):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(job.process.pid, number)

    def is_running(self, job):
        return job.process.poll() is None

    def compiling(self):
        return [job for job in self.jobs if self.is_running(job) and not job.is_ready]

    def wait(self, until, is_done):
        """Wait for lines of jobs until this returns true, or this time of time.monotonic()."""
        while not is_done() and (left := until - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                job = self.events.get(timeout=min(left, 1))
                if self.is_running(job) and not job.is_ready:
                    job.is_ready = True
                    self.say(f"{job}: compiled")
                elif not self.is_running(job):
                    self.say(f"{job}: ended with {job.process.returncode}")

    def measure(self, job, seconds):
        """Let one job measure, until it ends or waits again."""
        if not self.is_running(job) or seconds < 2:
            return
        job.is_ready = False
        self.say(f"{job}: measures for at most {seconds:.0f} s")
        with contextlib.suppress(BrokenPipeError):
            job.process.stdin.write(f"{seconds:.1f}\n")
            job.process.stdin.flush()
        self.wait(time.monotonic() + seconds + 5, lambda: job.is_ready or not self.is_running(job))
        if not job.is_ready and self.is_running(job):
            self.say(f"{job}: killed, it did not end in time")
            self.signal(job, signal.SIGKILL)
            job.process.wait()

    def run(self):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))  # and the jobs with it
        with self.args.rows.open("w", newline="") as file:
            csv.writer(file).writerow(FIELDS)
        for job in self.jobs:
            self.start(job)
        try:
            for until in (self.args.compile_seconds, self.args.seconds - 50, self.args.seconds - 12):
                self.wait(self.begun + until, lambda: not self.compiling())
                self.measure_ready()
                if not self.compiling():
                    break
                self.say(f"waits for {', '.join(map(str, self.compiling()))}")
        finally:
            for job in self.jobs:
                self.signal(job, signal.SIGKILL)
                stop_file(os.getpid(), job.model).unlink(missing_ok=True)
        print(table(self.args.rows))

    def measure_ready(self):
        """Measure all that have compiled, while the others stand still."""
        for job in self.jobs:
            if job.part == "blocks" and job in self.compiling():
                stop_file(os.getpid(), job.model).touch()  # what is compiled has to do
        self.wait(time.monotonic() + 8, lambda: not [j for j in self.compiling() if j.part == "blocks"])
        stopped = self.compiling()
        for job in stopped:
            self.signal(job, signal.SIGSTOP)
        ready = [job for job in self.jobs if job.is_ready and self.is_running(job)]
        blocks = [job for job in ready if job.part == "blocks"]
        order = {"resnet": 0, "gpt": 1, "vit": 2}
        blocks.sort(key=lambda job: order.get(job.model, 3))
        for job in ready:
            if job.part == "partitioner":
                self.measure(job, min(10, self.left() - 5))
        for job in blocks:  # uncompiled
            self.measure(job, min(12, self.left() - 5))
        reserve = 25 if [job for job in stopped if job.part != "helper"] else 3
        for number, job in enumerate(blocks):
            self.measure(job, (self.left() - reserve) / (len(blocks) - number))
        for job in stopped:
            self.signal(job, signal.SIGCONT)


# ------------------------------------------------------------------------------------------------------ the table


def read(path):
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["peak_bytes"], row["step_ms"] = int(row["peak_bytes"]), float(row["step_ms"])
        row["budget_bytes"] = int(row["budget_bytes"]) if row["budget_bytes"] else None
    return rows


def gigabytes(row):
    return f"{row['peak_bytes'] / 1e9:.2f} GB"


def fastest(rows, budget):
    return min((row for row in rows if row["peak_bytes"] <= budget), key=lambda row: row["step_ms"], default=None)


def chosen(row, tried, whole):
    """Of a plan of blocks and whole models, what the search takes: it compares the trials of blocks, and a plan is measured again later."""
    trial = fastest([r for r in tried if r["choice"] == row["choice"]], row["budget_bytes"]) or row
    best = fastest([trial, *whole], row["budget_bytes"])
    return row if best is None or best is trial else best


def table(path):
    """Each budget: what a plan chooses, and the fastest that the partitioner, every block and √N reached within it."""
    lines = [
        "| model | budget | plan | peak, of the budget | step | partitioner on the whole model | every block | √N |",
        "|---|---|---|---|---|---|---|---|",
    ]
    notes = []
    rows = read(path)
    for name in dict.fromkeys(row["model"] for row in rows):
        of = {each: [r for r in rows if r["model"] == name and r["method"] == each] for each in METHODS}
        full = of["keep all"][0]["peak_bytes"] if of["keep all"] else 0
        whole = [r for r in of["partitioner"] if float(r["choice"]) in PLANNED]
        for row in sorted(of["plan"], key=lambda row: -row["budget_bytes"]):
            budget = row["budget_bytes"]
            best = chosen(row, of["tried"], whole)
            choice = best["choice"] if best is row else f"the whole model with {best['choice']}"
            cells = [name, f"{budget / 1e9:.2f} GB" + (f", {100 * budget / full:.0f} %" if full else ""), choice]
            cells += [f"{gigabytes(best)}, {100 * best['peak_bytes'] / budget:.1f} %", f"{best['step_ms']:.1f} ms"]
            for method in ("partitioner", "every block", "√N"):
                found = fastest(of[method], budget)
                cell = "needs more" if of[method] else "not measured"
                if found is not None:
                    what = f", {gigabytes(found)} (with {found['choice']})" if method == "partitioner" else ""
                    cell = f"{found['step_ms']:.1f} ms{what}"
                cells.append(cell)
            lines.append(f"| {' | '.join(cells)} |")
            if best is not row:
                notes.append(
                    f"{name}, {budget / 1e9:.2f} GB: {row['choice']}: {gigabytes(row)}, {row['step_ms']:.1f} ms"
                )
        notes += [
            f"{name}, {r['method']} {r['choice']}: {gigabytes(r)}, {r['step_ms']:.1f} ms (least {float(r['least_step_ms']):.1f}; {r['gpu']})"
            for method in METHODS[2:]
            for r in of[method]
        ]
        over = [r for r in of["plan"] if r["peak_bytes"] > r["budget_bytes"]]
        notes.append(f"{name}: {len(of['plan'])} plans, {len(over)} of them above their budget")
    return "\n".join([*lines, "", *notes])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    measuring = commands.add_parser("measure")
    measuring.add_argument("rows", type=Path)
    measuring.add_argument("--seconds", type=float, default=160)
    measuring.add_argument("--compile-seconds", type=float, default=85, help="at most, before anything is measured")
    measuring.add_argument("--models", default="resnet,gpt,vit")
    measuring.add_argument("--parts", default="blocks,partitioner")
    measuring.add_argument(
        "--block-budgets", default="1,0,0.99,0.5,0.2", help="with which each block is compiled, in order"
    )
    measuring.add_argument("--partitioner", help="activation_memory_budget of the whole model, instead of the defaults")
    measuring.add_argument("--no-helpers", action="store_true")
    measuring.set_defaults(call=lambda args: Parent(args).run())
    measuring.add_argument("--backend", default="inductor", help="of torch.compile (default: %(default)s)")
    measuring.add_argument("--tiny", action="store_true")
    drawing = commands.add_parser("table")
    drawing.add_argument("rows", type=Path)
    drawing.set_defaults(call=lambda args: print(table(args.rows)))
    args = parser.parse_args()
    args.call(args)


if __name__ == "__main__":
    main()
