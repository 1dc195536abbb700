"""Predictions of changed programs against dry runs of programs that were really changed, formulas, and batch sizes."""

# mypy: allow-untyped-calls

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import vram
from vram._error import VramError
from vram.dry import DryRun
from vram.dry._why import evaluated, text_of

pytestmark = pytest.mark.filterwarnings("ignore")


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        return x + self.down(functional.gelu(self.up(self.norm(x))))


class Net(nn.Module):
    is_checkpointed = False
    of_blocks: Any = None  # the precision of the first two

    def __init__(self, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(1000, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(3))
        self.head = nn.Linear(width, 1000)

    def forward(self, tokens: Any) -> Any:
        x = self.table(tokens)
        for number, block in enumerate(self.blocks):
            with contextlib.ExitStack() as stack:
                if self.of_blocks is not None and number < 2:
                    stack.enter_context(torch.autocast("cuda", torch.bfloat16, enabled=self.of_blocks == "bf16"))
                    x = x if self.of_blocks == "bf16" else x.float()
                x = checkpoint(block, x, use_reentrant=False) if self.is_checkpointed else block(x)
        return self.head(x)


Change = Callable[[Net], Any]


def adamw(model: Net) -> Any:
    return torch.optim.AdamW(model.parameters())


def train(batch: int, sequence: int, width: int = 128, change: Change = adamw, autocast: Any = None) -> None:
    model = Net(width).cuda()
    optimizer = change(model)
    while True:
        tokens = torch.randint(0, 1000, (batch, sequence)).cuda()
        with torch.autocast("cuda", autocast, enabled=autocast is not None):
            loss = functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def predicted(**named: Any) -> DryRun:
    return vram.predict(lambda batch, sequence: train(batch, sequence, **named), "24GiB", batch=8, sequence=128)


def checkpointed(model: Net) -> Any:
    model.is_checkpointed = True
    return adamw(model)


def first_blocks(precision: str) -> Change:
    def change(model: Net) -> Any:
        model.of_blocks = precision
        return adamw(model)

    return change


def in_bf16(model: Net) -> Any:
    model.bfloat16()
    return adamw(model)


class Adapted(nn.Module):
    def __init__(self, layer: nn.Linear, rank: int) -> None:
        super().__init__()
        self.layer = layer
        self.down = nn.Linear(layer.in_features, rank, bias=False, device="cuda")
        self.up = nn.Linear(rank, layer.out_features, bias=False, device="cuda")

    def forward(self, x: Any) -> Any:
        return self.layer(x) + self.up(self.down(x)) * 2.0


def adapted(model: Net) -> Any:
    model.requires_grad_(False)
    for block in model.blocks:
        block.up, block.down = Adapted(block.up, 4), Adapted(block.down, 4)  # type: ignore[arg-type]
    return torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])


@pytest.mark.parametrize(
    ("asked", "really"),
    [
        ({"precision": "bf16"}, {"autocast": torch.bfloat16}),
        ({"precision": "fp16"}, {"autocast": torch.float16}),
        ({"precision": "full-bf16"}, {"change": in_bf16}),
        ({"optimizer": "sgd"}, {"change": lambda model: torch.optim.SGD(model.parameters())}),
        ({"optimizer": "momentum"}, {"change": lambda model: torch.optim.SGD(model.parameters(), momentum=0.9)}),
        ({"checkpointing": True}, {"change": checkpointed}),
        ({"lora_rank": 4}, {"change": adapted}),
    ],
    ids=lambda value: str(value) if "change" not in value and "autocast" not in value else "",
)
def test_requested_bytes_of_the_changed_program(asked: dict[str, Any], really: dict[str, Any]) -> None:
    answer = predicted().what_if(**asked)
    assert answer.method == "dry run"
    assert answer.peak.requested_bytes == predicted(**really).peak.requested_bytes


def test_precision_of_some_modules() -> None:
    first = {"blocks.0": "bf16", "blocks.1": "bf16", "blocks.1.up": "fp32"}  # of modules inside, the outer one decides
    answer = predicted().what_if(precision={k: first[k] for k in ("blocks.0", "blocks.1")})
    assert answer.peak == predicted(change=first_blocks("bf16")).peak
    assert answer.cost.startswith("blocks.0: forward and backward round to 8 bits; blocks.1: ")
    assert predicted().what_if(precision=first).peak == answer.peak
    mixed = predicted(autocast=torch.bfloat16)
    assert mixed.what_if(precision={"blocks.[01]": "fp32"}).peak == (
        predicted(autocast=torch.bfloat16, change=first_blocks("fp32")).peak
    )
    with pytest.raises(VramError, match=r"has a name like 'layers\.\*'"):
        predicted().what_if(precision={"layers.*": "bf16"})
    with pytest.raises(ValueError, match="fp4"):
        predicted().what_if(precision={"blocks.*": "fp4"})


class Nf4(nn.Module):
    """A frozen linear layer as bitsandbytes has it: the weight exists as a whole only while a product needs it."""

    packed: torch.Tensor
    scales: torch.Tensor

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.bias, self.shape = layer.bias, layer.weight.shape
        elements = layer.weight.numel()
        self.register_buffer("packed", torch.zeros(elements // 2, dtype=torch.uint8, device="cuda"))
        self.register_buffer("scales", torch.zeros(elements // 64, device="cuda"))

    def forward(self, x: Any) -> Any:
        return checkpoint(self.product, x, use_reentrant=False)

    def product(self, x: Any) -> Any:
        codes = torch.stack((self.packed >> 4, self.packed & 15), -1).view(-1, 64)
        return functional.linear(x, (codes * self.scales[:, None]).view(self.shape), self.bias)


def in_nf4(model: Net) -> Any:
    model.requires_grad_(False)
    for block in model.blocks:
        for name in ("up", "down"):
            adapter = Adapted(getattr(block, name), 4)
            adapter.layer = Nf4(adapter.layer)  # type: ignore[assignment]
            setattr(block, name, adapter)
    return torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])


def test_nf4_weights_are_what_a_layer_that_has_them_keeps() -> None:
    asked = predicted(width=512).what_if(lora_rank=4, weights="nf4")
    plain = predicted(width=512).what_if(lora_rank=4)
    really = predicted(width=512, change=in_nf4)
    linear = 3 * 2 * 4 * 512 * 512
    assert plain.peak.requested_bytes - asked.peak.requested_bytes == pytest.approx(
        (linear + 512 * 1000) * (4 - 0.5 - 4 / 64), rel=0.01
    )
    predicted_bytes, real_bytes = asked.run.by_module(), really.by_module()
    for number in range(3):
        bias = 4 * 4 * 512
        weights = predicted_bytes[f"blocks.{number}.up"]["parameter"] - bias
        stored = [real_bytes[f"blocks.{number}.up.layer.{name}"]["buffer"] for name in ("packed", "scales")]
        assert weights == sum(stored) == 4 * 512 * 512 // 2 + 4 * 4 * 512 * 512 // 64
    assert really.peak.requested_bytes < plain.peak.requested_bytes


def test_precision_replaces_the_autocast_of_the_program() -> None:
    answer = predicted(autocast=torch.bfloat16).what_if(precision="fp32")
    assert answer.peak == predicted().peak
    assert answer.saved_bytes < 0


def test_sizes_and_what_was_changed_is_put_back() -> None:
    run = predicted()
    run.what_if(optimizer="sgd", precision="full-bf16", lora_rank=2)
    assert torch.get_default_dtype() == torch.float32
    assert run.what_if(batch=8).peak == run.peak
    other = vram.predict(train, "24GiB", batch=16, sequence=128)
    assert run.what_if(batch=16).peak == other.peak
    with pytest.raises(ValueError, match=r"'wdith' is no size .*: batch, sequence"):
        run.what_if(wdith=3)
    with pytest.raises(ValueError, match="precision"):
        run.what_if(precision="fp4")


def test_models_share_categories() -> None:
    run = predicted()
    categories: dict[str, int] = {}
    for of_module in run.what_if(zero=2, world_size=4).run.by_module().values():
        for category, size_bytes in of_module.items():
            categories[category] = categories.get(category, 0) + size_bytes
    parameters = sum(each.size_bytes for each in run._parameters.values())
    assert categories["parameter"] == parameters
    assert abs(categories["optimizer state"] - 2 * parameters / 4) < 1000
    with pytest.raises(VramError, match="cannot be trained"):
        run.what_if(weights="int8")
    with pytest.raises(ValueError, match="together"):
        run.what_if(zero=1)


def parallel(kind: str, width: int) -> Callable[[int], None]:
    def really(batch: int) -> None:
        from torch.distributed.fsdp import fully_shard
        from torch.distributed.optim import ZeroRedundancyOptimizer

        model: Any = Net(width).cuda()
        if kind == "fully_shard":
            for part in (*model.blocks, model):
                fully_shard(part)
        elif kind.startswith("DistributedDataParallel"):
            model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=kind.endswith("views"))
        optimizer: Any = (
            ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW)
            if kind == "ZeroRedundancyOptimizer"
            else torch.optim.AdamW(model.parameters())
        )
        while True:
            tokens = torch.randint(0, 1000, (batch, 64)).cuda()
            loss = functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return really


def test_what_a_closure_of_a_step_computes_is_not_shared() -> None:
    """Lightning gives the optimizer's step a function that computes the gradients."""

    def by_closure(batch: int) -> None:
        model = Net(256).cuda()
        optimizer = torch.optim.AdamW(model.parameters())

        def closure() -> Any:
            tokens = torch.randint(0, 1000, (batch, 64)).cuda()
            loss = functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
            optimizer.zero_grad()
            loss.backward()
            return loss

        while True:
            optimizer.step(closure)

    closed = vram.predict(by_closure, "24GiB", batch=64)
    plain = vram.predict(parallel("plain", 256), "24GiB", batch=64)
    assert closed.peak.requested_bytes == pytest.approx(plain.peak.requested_bytes, rel=0.001)
    assert closed.peak_outside_optimizer_bytes == pytest.approx(plain.peak_outside_optimizer_bytes, rel=0.001)
    for stage in (1, 2):
        shared, expected = (run.what_if(zero=stage, world_size=8).peak.requested_bytes for run in (closed, plain))
        assert shared == pytest.approx(expected, rel=0.001)


def without_workspaces(run: DryRun) -> int:
    held = run.by_module().values()
    return run.peak.requested_bytes - sum(of_module.get("workspace", 0) for of_module in held)


@pytest.mark.parametrize(
    ("stage", "kind", "batch", "too_high"),
    [
        (1, "ZeroRedundancyOptimizer", 8, 0.01),
        (1, "ZeroRedundancyOptimizer", 1, 0.01),  # the peak is the optimizer's
        (3, "fully_shard", 8, 0.15),
        (3, "fully_shard", 64, 0.03),
    ],
)
def test_models_of_zero_against_programs_that_share(stage: int, kind: str, batch: int, too_high: float) -> None:
    plain = vram.predict(parallel("plain", 256), "24GiB", batch=batch)
    modeled = without_workspaces(plain.what_if(zero=stage, world_size=4).run)
    really = without_workspaces(vram.predict(parallel(kind, 256), "24GiB", world_size=4, batch=batch))
    assert 0.99 * really <= modeled <= (1 + too_high) * really


def test_gradients_as_parts_of_buckets() -> None:
    run = vram.predict(parallel("DistributedDataParallel", 256), "24GiB", world_size=4, batch=8)
    really = vram.predict(parallel("DistributedDataParallel, views", 256), "24GiB", world_size=4, batch=8)
    answer = run.what_if(gradient_as_bucket_view=True)
    assert answer.method == "dry run"
    assert answer.peak == really.peak
    assert answer.saved_bytes > 0
    assert "gradient_as_bucket_view=True" in {each.change for each in run.what_ifs()}
    with pytest.raises(VramError, match="makes no DistributedDataParallel"):
        predicted().what_if(gradient_as_bucket_view=True)


def test_a_change_without_a_rule_is_refused() -> None:
    with pytest.raises(VramError, match=r"no rule .*cudnn\.benchmark"):
        predicted().what_if(cudnn_benchmark=True)


def test_an_error_of_one_change_leaves_the_others() -> None:
    """Each kind of error, at each change that runs the program again."""
    errors = [RuntimeError("shapes differ\nmore"), SystemExit(3), KeyError("x"), AssertionError()]
    runs = []

    def program(batch: int) -> None:
        runs.append(batch)
        if len(runs) > 1:
            raise errors[len(runs) % len(errors)]
        train(batch, 64)

    table = vram.predict(program, "24GiB", batch=8).what_ifs(world_size=4)
    assert {each.change for each in table} == {
        "gradients=bf16",
        *(f"zero={stage}, world_size=4" for stage in (1, 2, 3)),
    }
    assert {"checkpointing=True", "lora_rank=16", "batch=4", "optimizer=sgd"} <= set(table.impossible)
    assert set(table.impossible.values()) == {"shapes differ", "3", "'x'", "AssertionError"}
    assert "not possible: batch=4: " in str(table)
    assert str(table).split()[:6] == ["change", "saves", "on", "the", "device", "requested"]


def test_a_with_statement_answers_by_models_only() -> None:
    with vram.dry_run("24GiB") as run:
        model = Net(128).cuda()
        optimizer = adamw(model)
        for _ in range(2):
            model(torch.zeros(8, 128, dtype=torch.long, device="cuda")).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert run.what_if(optimizer="sgd").method == "model"
    with pytest.raises(VramError, match=r"vram\.predict"):
        run.what_if(precision="bf16")
    assert {each.method for each in run.what_ifs()} == {"model"}


def test_the_table() -> None:
    table = predicted().what_ifs(world_size=4)
    assert [each.saved_bytes for each in table] == sorted((each.saved_bytes for each in table), reverse=True)
    assert not table.impossible
    assert {"checkpointing=True", "batch=4", "zero=3, world_size=4"} <= {each.change for each in table}
    assert str(table).splitlines()[0].startswith("change ")


def test_formulas_have_the_bytes_of_other_sizes() -> None:
    run = vram.predict(train, "24GiB", batch=8, sequence=128, width=128)
    explained = {(each.name, each.category): each for each in run.why(1000)}
    assert explained["blocks.0.up", "activation"].formula == "16·batch·sequence·width"
    assert explained["blocks.0.up.weight", "parameter"].formula == "16·width²"
    other = vram.predict(train, "24GiB", batch=24, sequence=256, width=192)
    compared = 0
    for part in other._contributions:
        known = explained.get((part.name, part.category))
        if known is not None and known.formula == "16·batch·sequence·width":
            compared += 1
            assert part.requested_bytes == 16 * 24 * 256 * 192
    assert compared >= 3


def test_text_of_formulas() -> None:
    assert text_of({(1, 1): torch.iinfo(torch.int8).max, (0, 0): -4}, ["a", "b"]) == "127·a·b - 4"  # type: ignore[dict-item]
    assert evaluated({(2, 1): 3, (0, 0): 5}, [2, 10]) == 125  # type: ignore[dict-item]


def test_the_largest_batch_fits_and_the_next_does_not() -> None:
    found = vram.find_batch_size(lambda batch: train(batch, 128), dry=True, gpu="2GiB")
    again = vram.find_batch_size(lambda batch: train(batch, 128), dry=True, gpu="2GiB")
    assert found == again
    assert vram.predict(train, "2GiB", batch=found.batch_size, sequence=128).fits
    assert not vram.predict(train, "2GiB", batch=found.batch_size + 8, sequence=128).fits


def test_what_does_not_fit_is_named() -> None:
    with pytest.raises(torch.OutOfMemoryError, match=r"not even a batch of 1 fits.*activation"):
        vram.find_batch_size(lambda batch: train(batch, 8192, 512), dry=True, gpu="1GiB")
    with pytest.raises(VramError, match="need the same memory"):
        vram.find_batch_size(lambda _batch: train(4, 128), dry=True, gpu="4GiB")
    with pytest.raises(ValueError, match="dry=True"):
        vram.find_batch_size(lambda _batch: None, gpu="4GiB")
