"""Measures what single operators allocate on a GPU besides their outputs.

    python bench/prediction/kernels.py OUT [--seconds 270] [--jobs 8] [--only GROUP…] [--device cpu]

Each group of probes runs in a process of its own, so its first call of a library is the first of the process. A probe runs twice:
what only the first run allocates stays (workspaces, plans). OUT/GROUP.json.xz has the rows of the journal (journal.py), each with the
name of its probe and the number of the run; OUT/device.json.xz has what the device has in use after the first use of each library.
"""

from __future__ import annotations

import argparse
import functools
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from processes import ENVIRONMENT, now, nvml, run_forked, save

RUNS = 2
Probe = tuple[str, Callable[[], Any]]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=270)
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--forked", action="store_true", help="internal: the environment is set")
    return parser.parse_args()


def measured(name: str, call: Callable[[], Any]) -> Iterator[dict[str, Any]]:
    """Yields the journal of both runs of a probe; a probe that fails yields its error."""
    import torch
    from journal import Journal

    for run in range(RUNS):
        error = None
        with Journal(entries=200_000) as journal:
            try:
                call()
            except Exception as raised:
                error = f"{type(raised).__name__}: {raised}"[:300]
        for row in journal.rows():
            yield {"probe": name, "run": run} | row
        if error:
            yield {"probe": name, "run": run, "op": "", "error": error}
            return
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def group(name: str, path: Path, device: str, until: float) -> None:
    """Runs the probes of a group and saves their rows; probes that are left at the time `until` are not run."""
    import torch
    from probes import GROUPS

    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    found: dict[str, Any] = {"group": name, "torch": torch.__version__, "device": device}
    try:
        torch.manual_seed(0)
        with torch.device(device):
            for probe, call in GROUPS[name]():
                if time.time() > until:
                    raise TimeoutError(f"stopped before {probe}")
                rows += measured(probe, call)
        if torch.cuda.is_available():
            found |= now() | {"name": torch.cuda.get_device_name(), "capability": torch.cuda.get_device_capability()}
    except Exception:
        found["error"] = traceback.format_exc()[-2000:]
    save(path / f"{name}.json.xz", found | {"rows": rows})
    if "error" in found:
        print(f"{name}: {found['error']}", file=sys.stderr, flush=True)
        raise SystemExit(1)


def libraries(path: Path) -> None:
    """Notes the bytes in use on the device after the first use of each library; alone on the device."""
    import torch
    from torch.nn import functional

    rows = [{"after": "start"} | nvml()]

    def note(after: str) -> None:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        rows.append({"after": after} | now())

    torch.cuda.init()
    torch.empty(1, device="cuda")
    note("context")
    torch.ones(1000, device="cuda").add(1)
    note("elementwise kernel")
    a = torch.randn(512, 512, device="cuda")
    a.sum()
    note("reduction")
    a @ a
    note("cuBLAS fp32")
    half = a.bfloat16()
    half @ half
    note("cuBLAS bf16")
    functional.linear(half, half, half[0])
    note("cuBLASLt bf16")
    images = torch.randn(8, 16, 32, 32, device="cuda", requires_grad=True)
    weight = torch.randn(16, 16, 3, 3, device="cuda", requires_grad=True)
    out = functional.conv2d(images, weight)
    note("cuDNN convolution")
    out.sum().backward()
    note("cuDNN convolution backward")
    functional.conv2d(images.bfloat16(), weight.bfloat16()).sum().backward()
    note("cuDNN convolution bf16")
    q = torch.randn(2, 4, 256, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    functional.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()
    note("attention")
    lstm = torch.nn.LSTM(64, 64).cuda()
    lstm(torch.randn(8, 4, 64, device="cuda"))[0].sum().backward()
    note("cuDNN LSTM")
    torch.fft.fft(a)
    note("cuFFT")
    torch.linalg.cholesky(a @ a.T + 512 * torch.eye(512, device="cuda"))
    note("cuSOLVER")
    torch.randn(1000, device="cuda").sort()
    note("sort")
    torch.optim.AdamW([weight], fused=True).step()
    note("fused AdamW")
    save(path / "device.json.xz", rows)


def main() -> int:
    wanted = arguments()
    if not wanted.forked:
        # The device is read while nothing else runs on it, so before all groups.
        return subprocess.call([sys.executable, __file__, *sys.argv[1:], "--forked"], env={**os.environ, **ENVIRONMENT})
    from probes import GROUPS

    names = wanted.only or [*GROUPS]
    failed = 0
    if wanted.device == "cuda" and not wanted.only:
        failed += run_forked("device", [("libraries", functools.partial(libraries, wanted.out))], 1, 60)
    until = time.time() + wanted.seconds
    tasks = [(name, functools.partial(group, name, wanted.out, wanted.device, until)) for name in names]
    return failed + run_forked("groups", tasks, wanted.jobs, wanted.seconds)


if __name__ == "__main__":
    sys.exit(min(main(), 1))
