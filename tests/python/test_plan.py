"""vram plan: the chain of a real dry run needs what the run needed, and schedules keep to their budgets.

VRAM_BINARY names the program under test; the library is the one next to it.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from program import BINARY, IS_SANITIZED, ROOT, vram

pytestmark = pytest.mark.skipif(IS_SANITIZED, reason="builds with sanitizers have no libvram.so")

SCRIPT = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.attention(self.ln_1(x)).view(batch, length, 3, 8, width // 8).permute(2, 0, 3, 1, 4).unbind(0)
        found = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(found.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.ln_2(x))

class GPT(nn.Module):
    def __init__(self, blocks=6, width=256, words=5000):
        super().__init__()
        self.wte = nn.Embedding(words, width)
        self.h = nn.ModuleList([Block(width) for _ in range(blocks)])
        self.ln_f, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens):
        x = self.wte(tokens)
        for block in self.h:
            x = block(x)
        logits = self.head(self.ln_f(x))
        return nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())

model = GPT().cuda()
optimizer = torch.optim.AdamW(model.parameters())
while True:
    loss = model(torch.randint(5000, (8, 512), device="cuda"))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two steps of a small GPT, in a dry run."""
    folder = tmp_path_factory.mktemp("plan")
    script, trace = folder / "train.py", folder / "step.vtrace"
    script.write_text(SCRIPT)
    done = vram(
        "run", "--dry", "--gpu", "24GiB", "--steps", 2, "--output", trace, "--", sys.executable, "-W", "ignore", script,
        VRAM_STARTUP=str(ROOT / "python" / "vram" / "_startup"), VRAM_LIBRARY=str(Path(BINARY).with_name("libvram.so")),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return trace


def planned(trace: Path, *options: object) -> Any:
    done = vram("plan", trace, "--json", *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refused(*arguments: object) -> "subprocess.CompletedProcess[str]":
    done = vram("plan", *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    return done


def peak_of(trace: Path) -> int:
    """The peak of requested bytes, by a report."""
    report = json.loads(vram("report", "--json", trace).stdout)
    return int(report["devices"][0]["peak"]["requested_bytes"])


def test_keeping_everything_needs_what_the_run_needed(trace: Path) -> None:
    plan = planned(trace, "--budget", "24GiB")
    assert plan["ideal_peak_bytes"] == plan["recorded"]["pass_peak_bytes"] == peak_of(trace)
    assert plan["peak_bytes"] == plan["ideal_peak_bytes"]
    assert (plan["schema"], plan["time_ns"]) == ("vram.plan/1", plan["ideal_ns"])
    assert {stage["forward_runs"] for stage in plan["stages"]} == {1}
    assert [stage["name"] for stage in plan["stages"]] == ["before", *(f"h.{i}" for i in range(6)), "after"]
    assert "times are the dry run's estimates for its GPU, not measured" in plan["recorded"]["notes"]


def test_schedules_keep_to_their_budgets_and_less_memory_takes_more_time(trace: Path) -> None:
    sweep = planned(trace)
    assert sweep["schema"] == "vram.plan_sweep/1"
    budgets = [plan["budget_bytes"] for plan in sweep["plans"]]
    assert len(budgets) > 2
    assert budgets == sorted(budgets)
    assert budgets[-1] == peak_of(trace)
    times = [plan["time_ns"] for plan in sweep["plans"]]
    assert times == sorted(times, reverse=True)
    assert times[0] > times[-1] == sweep["plans"][-1]["ideal_ns"]
    for swept in sweep["plans"]:
        assert swept["lower_bound_ns"] <= swept["time_ns"]
        assert swept["peak_bytes"] <= swept["budget_bytes"]
        plan = planned(trace, "--budget", f"{swept['budget_bytes']}B")
        assert (plan["peak_bytes"], plan["time_ns"]) == (swept["peak_bytes"], swept["time_ns"])
        assert [stage["forward_runs"] for stage in plan["stages"]] == swept["forward_runs"]


def test_a_budget_that_does_not_suffice_names_the_one_that_does(trace: Path) -> None:
    smallest = planned(trace)["plans"][0]["budget_bytes"]
    said = refused(trace, "--budget", f"{smallest - 1}B").stderr
    assert said.endswith(f"MiB ({smallest} bytes)\n")
    assert "the smallest budget for this chain is" in said
    assert planned(trace, "--budget", f"{smallest}B")["peak_bytes"] == smallest
    assert "no schedule fits" in refused(trace, "--gpu", "700MiB").stderr


def test_stages_by_name(trace: Path) -> None:
    plan = planned(trace, "--budget", "24GiB", "--stages", "h.*.mlp")
    names = [stage["name"] for stage in plan["stages"]]
    assert names == ["before", *(f"h.{i}.mlp" for i in range(6)), "after"]
    assert plan["ideal_peak_bytes"] >= peak_of(trace)
    done = vram("plan", trace, "--stages", "layers.*")
    assert done.returncode == 2
    assert "expected modules that match --stages 'layers.*', found none" in done.stderr


def test_the_page_for_people(trace: Path) -> None:
    shown = vram("plan", trace, COLUMNS="100").stdout
    assert "Keeping everything needs" in shown
    assert "by the chain, as in the trace." in shown
    assert max(map(len, shown.replace(str(trace), "").splitlines())) <= 100
