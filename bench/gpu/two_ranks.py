"""Two ranks over NCCL, a GPU each: peaks against dry runs, marks of collectives, owners of the device's memory; prints Markdown.

    python bench/gpu/two_ranks.py peaks|rest OUT.json SECONDS [WAY]

peaks  Programs under DistributedDataParallel and fully_shard: PyTorch's peaks of both ranks, and those of a dry run with a world of
       two. All at once.
rest   WAY: "record" (vram.record()) or "run" (`vram run --record`). Training with DistributedDataParallel and each collective: marks
       against what was called, PyTorch's peaks, and `rest` of the report.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "gpu"))
MIB = 1 << 20
MODELS = ("mlp", "mlp.view", "transformer", "transformer.bf16", "mlp.fsdp", "transformer.fsdp")
STEPS = 4
CALLS = 3
ELEMENTS = 1 << 20
Document = dict[str, Any]


# --- programs --------------------------------------------------------------------------------------------------------


def train(name: str, rank: int, steps: int) -> None:
    import torch
    from torch import nn

    kind, _, change = name.partition(".")
    torch.manual_seed(0)
    if kind == "mlp":
        model: Any = nn.Sequential(*(nn.Sequential(nn.Linear(2048, 2048), nn.GELU()) for _ in range(8))).cuda()
        inputs = torch.randn(1024, 2048, device="cuda")
    else:
        from overhead import make_model

        model = make_model(torch, 1024, 6)
        inputs = torch.randint(0, 8000, (8, 256), device="cuda")
    if change == "fsdp":
        from torch.distributed.fsdp import fully_shard

        for part in model if kind == "mlp" else model.layers:
            fully_shard(part)
        fully_shard(model)
    else:
        model = nn.parallel.DistributedDataParallel(model, device_ids=[rank], gradient_as_bucket_view=change == "view")
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    for _ in range(steps):
        with torch.autocast("cuda", torch.bfloat16, enabled=change == "bf16"):
            output = model(inputs)
            loss = output.float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def meet(rank: int, folder: str) -> None:
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", f"file://{folder}/meet", rank=rank, world_size=2)


def peaks() -> dict[str, int]:
    import torch

    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    return {kind: int(stats[f"{kind}_bytes.all.peak"]) for kind in ("requested", "allocated", "active", "reserved")}


def end(answer: Document) -> None:
    print(json.dumps(answer), flush=True)
    os._exit(0)  # threads of backends may abort the process of the rank that closes last


def real(name: str, rank: int, folder: str) -> None:
    meet(rank, folder)
    train(name, rank, STEPS)
    import torch.distributed as dist

    dist.barrier(device_ids=[rank])
    end(peaks())


def dry(name: str) -> None:
    import vram

    gpu = os.environ["DRY_GPU"]
    began = time.perf_counter()
    with vram.dry_run(gpu=gpu, world_size=2) as run:
        import torch.distributed as dist

        dist.init_process_group("nccl")
        train(name, 0, STEPS)
    end(
        {
            "requested": run.peak.requested_bytes,
            "reserved": run.peak.reserved_bytes,
            "device": run.peak.device_bytes,
            "seconds": time.perf_counter() - began,
            "steps": run.steps,
        }
    )


def recorded(way: str, rank: int, folder: str, path: str) -> None:
    """Training, and CALLS calls of each collective in the group "pair"."""
    with ExitStack() as stack:
        import torch
        import torch.distributed as dist

        import vram

        recording = stack.enter_context(vram.record(path, stacks="python")) if way == "record" else None
        meet(rank, folder)
        model: Any = torch.nn.Sequential(*(torch.nn.Linear(2048, 2048) for _ in range(6))).cuda()
        parameters = sum(parameter.nbytes for parameter in model.parameters())
        model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
        optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
        for _ in range(10):
            vram.step()
            model(torch.randn(512, 2048, device="cuda")).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        pair = dist.new_group([0, 1], group_desc="pair")
        one, two = torch.ones(ELEMENTS, device="cuda"), torch.ones(2 * ELEMENTS, device="cuda")
        for _ in range(CALLS):
            dist.all_reduce(one, group=pair)
            dist.all_gather_into_tensor(two, one, group=pair)
            dist.reduce_scatter_tensor(one, two, group=pair)
            dist.broadcast(one, 0, group=pair)
            dist.all_to_all_single(torch.empty_like(two), two, group=pair)
            if rank == 0:
                dist.send(one, 1, group=pair)
            else:
                dist.recv(one, 0, group=pair)
            dist.barrier(group=pair, device_ids=[rank])
        # What libraries allocate.
        matrix = torch.randn(1024, 1024, device="cuda")
        torch.linalg.solve(matrix, matrix)
        torch.nn.functional.conv2d(torch.randn(8, 16, 64, 64, device="cuda"), torch.randn(16, 16, 3, 3, device="cuda"))
        torch.cuda.synchronize()
        time.sleep(2.5)  # the device is sampled once a second
        answer = peaks() | {
            "parameters": parameters,
            "others": [bool(torch._C._cuda_hasPrimaryContext(d)) for d in range(2)],
        }
        dist.barrier(group=pair, device_ids=[rank])
        if recording is not None:
            recording.stop()
            answer["lost"] = recording.lost
        print(json.dumps(answer), flush=True)
        dist.destroy_process_group()


# --- the command -----------------------------------------------------------------------------------------------------


def last_json(process: subprocess.Popen[str], timeout: float) -> Document:
    try:
        output, errors = process.communicate(timeout=max(1.0, timeout))
    except subprocess.TimeoutExpired:
        process.kill()
        output, errors = process.communicate()
        return {"problem": "did not end in time: " + errors[-600:]}
    lines = [line for line in output.splitlines() if line.startswith("{")]
    if process.returncode != 0 or not lines:
        return {"problem": f"exit {process.returncode}: {errors[-800:]}"}
    found: Document = json.loads(lines[-1])
    return found


def start(words: list[str], prefix: list[str] | None = None, **more: str) -> subprocess.Popen[str]:
    command = [*(prefix or []), sys.executable, __file__, *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | more)


def device_name() -> str:
    query = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"]
    return subprocess.run(query, capture_output=True, text=True, check=False, timeout=30).stdout.splitlines()[0]


def nccl() -> str:
    """Version, and whether ncclCommMemStats is there."""
    code = (
        "import ctypes, os, torch; torch.cuda.nccl.version(); "
        "l = ctypes.CDLL('libnccl.so.2', mode=os.RTLD_NOLOAD | os.RTLD_NOW); v = ctypes.c_int(); l.ncclGetVersion(ctypes.byref(v)); "
        "print(torch.__version__, 'NCCL', v.value, 'ncclCommMemStats', hasattr(l, 'ncclCommMemStats'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    return (done.stdout or done.stderr[-300:]).strip()


def compare_peaks(until: float) -> Document:
    gpu = "H200" if "H200" in device_name() else "H100"
    results: Document = {"gpu": gpu, "rows": {}}
    with tempfile.TemporaryDirectory() as scratch:
        running = {}
        for name in MODELS:
            folder = Path(scratch) / name
            folder.mkdir()
            processes = [start(["--real", name, str(rank), str(folder)]) for rank in range(2)]
            running[name] = [*processes, start(["--dry", name], DRY_GPU=gpu)]
        print(
            "| program | rank 0 requested | rank 1 | dry run | error | rank 0 reserved | rank 1 | dry run | error | dry run, s |"
        )
        print("|---|---|---|---|---|---|---|---|---|---|")
        for name, processes in running.items():
            first, second, predicted = (last_json(process, until - time.time()) for process in processes)
            results["rows"][name] = {"ranks": [first, second], "dry": predicted}
            problems = [found["problem"] for found in (first, second, predicted) if "problem" in found]
            if problems:
                print(f"| {name} | {' / '.join(problem[-500:] for problem in problems)} |", flush=True)
                continue
            cells = [name]
            for kind in ("requested", "reserved"):
                error = predicted[kind] / first[kind] - 1
                cells += [f"{first[kind]:,}", f"{second[kind]:,}", f"{predicted[kind]:,}", f"{error:+.3%}"]
            print("| " + " | ".join([*cells, f"{predicted['seconds']:.1f}"]) + " |", flush=True)
    return results


def check_rank(way: str, rank: int, file: Path, counted: Document) -> Document:
    done = subprocess.run(
        ["vram", "report", "--json", str(file)], capture_output=True, text=True, check=False, timeout=40
    )
    document = json.loads(done.stdout)
    devices = [device for device in document["devices"] if device["peak"]["requested_bytes"] > MIB]
    wrong = [] if len(devices) == 1 else [f"{len(devices)} devices with memory"]
    device = devices[0]
    facts: Document = {"device": device.get("index", device.get("name")), "bytes": file.stat().st_size}
    for kind in ("requested", "allocated", "reserved"):
        if way == "record" and device["peak"][f"{kind}_bytes"] != counted[kind]:
            wrong.append(f"{kind}: report {device['peak'][f'{kind}_bytes']:,}, PyTorch {counted[kind]:,}")
    marks = device.get("marks") or {}
    totals = {(total["name"], total["group"]): (total["count"], total["bytes"]) for total in marks.get("totals", ())}
    one = 4 * ELEMENTS
    expected = {
        "all_reduce": one,
        "all_gather": 2 * one,
        "reduce_scatter": 2 * one,
        "broadcast": one,
        "all_to_all": 2 * one,
        "barrier": 0,
    }
    expected |= {"send": one} if rank == 0 else {"recv": one}
    for name, size in expected.items():
        calls = CALLS + 1 if name == "barrier" else CALLS  # one more before the end
        found = totals.get((name, "pair"))
        if found != (calls, calls * size):
            wrong.append(f"{name} in pair: {found}, expected {(calls, calls * size)}")
    reduced = [value for (name, group), value in totals.items() if name == "all_reduce" and group != "pair"]
    facts["all_reduce of DDP"] = reduced
    if not reduced or reduced[0][1] < 10 * counted["parameters"]:
        wrong.append(
            f"all_reduce of DDP: {reduced}, expected at least {10 * counted['parameters']:,} bytes in 10 steps"
        )
    facts["marks"] = {f"{name}, {group}": value for (name, group), value in totals.items()}
    rest = device.get("rest")
    facts["rest"] = rest
    if not rest:
        wrong.append("no samples of the device")
    else:
        named = sum(item["bytes"] for item in rest["items"])
        if named + rest["unnamed_bytes"] != rest["used_bytes"]:
            wrong.append("rest does not add up")
        share = rest["unnamed_bytes"] / rest["total_bytes"]
        facts["unnamed"] = share
        if abs(share) >= 0.01:
            wrong.append(f"unnamed: {share:.2%}")
        for item in rest["items"]:
            print(f"| {way} {rank} | {item['kind']} | {item['name']} | {item['bytes'] / MIB:,.1f} | {item['basis']} |")
        print(
            f"| {way} {rank} | unnamed | | {rest['unnamed_bytes'] / MIB:,.1f} | {share:.3%} of the device, used {rest['used_bytes'] / MIB:,.1f} MiB |"
        )
    facts["wrong"] = wrong
    facts["confidence"] = device.get("confidence")
    return facts


def compare_rest(way: str, until: float, keep: Path) -> Document:
    results: Document = {"way": way, "ranks": []}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        processes = []
        for rank in range(2):
            path = folder / f"rank{rank}" / "run.vtrace"
            path.parent.mkdir()
            vram = shutil.which("vram") or "vram"
            prefix = [vram, "run", "--record", str(path), "--"] if way == "run" else None
            words = ["--recorded", way, str(rank), str(folder), str(path)]
            processes.append(start(words, prefix, RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK=str(rank)))
        counted = [last_json(process, until - time.time()) for process in processes]
        print("\n| recorded by, rank | kind | name | MiB | basis |\n|---|---|---|---|---|")
        for rank, found in enumerate(counted):
            facts: Document = {"counted": found}
            try:
                if "problem" in found:
                    raise RuntimeError(found["problem"])
                files = sorted((folder / f"rank{rank}").glob("*.vtrace"), key=lambda file: -file.stat().st_size)
                facts["files"] = [file.name for file in files]
                facts |= check_rank(way, rank, files[0], found)
                shutil.copy(files[0], keep.parent / f"{keep.stem}.rank{rank}.vtrace")
            except Exception as error:
                facts["wrong"] = [f"{type(error).__name__}: {error}"]
            results["ranks"].append(facts)
        for rank, facts in enumerate(results["ranks"]):
            print(
                f"\n{way}, rank {rank}: marks {facts.get('marks')}; lost {facts['counted'].get('lost')}; contexts {facts['counted'].get('others')}; files {facts.get('files')}"
            )
            print(
                f"{way}, rank {rank}: WRONG: {facts['wrong']}"
                if facts["wrong"]
                else f"{way}, rank {rank}: all as expected",
                flush=True,
            )
    return results


def main() -> None:
    what, *words = sys.argv[1:]
    if what == "--real":
        real(words[0], int(words[1]), words[2])
    elif what == "--dry":
        dry(words[0])
    elif what == "--recorded":
        recorded(words[0], int(words[1]), words[2], words[3])
    else:
        out, until = Path(words[0]), time.time() + float(words[1]) - 2
        print(f"{device_name()}; {nccl()}\n", flush=True)
        results = compare_peaks(until) if what == "peaks" else compare_rest(words[2], until, out)
        out.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
