"""Choices that PyTorch makes by the GPU, and parts of programs that run unchanged: autocast, GradScaler, several ranks."""

# mypy: allow-untyped-calls

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from vram.dry import DryRun, _kernels, dry_run


class Calls(Counter[str]):
    """The operators of a dry run, counted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        allocations = _kernels.Kernels.allocations

        def counted(kernels: Any, call: Any) -> Any:
            self[call.name.removeprefix("aten.").removesuffix(".default")] += 1
            return allocations(kernels, call)

        monkeypatch.setattr(_kernels.Kernels, "allocations", counted)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    return Calls(monkeypatch)


@contextmanager
def dry(tmp_path: Path, gpu: str = "H200", **options: Any) -> Iterator[DryRun]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with dry_run(gpu, path=tmp_path / "dry.vtrace", **options) as run:
            yield run


def heads(width: int = 64, length: int = 128, dtype: Any = torch.bfloat16, count: int = 4) -> Any:
    return torch.empty(2, count, length, width, dtype=dtype, device="cuda", requires_grad=True)


# Chosen for training by PyTorch 2.11 as its source has it; "cudnn" on the H200 is also what its recordings show.
ATTENTION: list[Any] = [
    ("H200", "2.11.0", {}, "cudnn"),
    ("H200", "2.11.0", {"dropout_p": 0.1}, "cudnn"),
    ("H200", "2.13.0", {"dropout_p": 0.1}, "flash"),
    ("H200", "2.9.0", {}, "flash"),
    ("A100 80GB", "2.11.0", {}, "flash"),
    ("A100 80GB", "2.11.0", {"dtype": torch.float32}, "efficient"),
    ("A100 80GB", "2.11.0", {"mask": True}, "efficient"),
    ("H200", "2.11.0", {"mask": True}, "cudnn"),
    ("H200", "2.11.0", {"width": 256, "mask": True}, "cudnn"),  # recorded: gemma
    ("H200", "2.11.0", {"width": 256}, "cudnn"),  # what an H200 answers without a mask
    ("A100 80GB", "2.11.0", {"width": 256}, "flash"),
    ("H200", "2.11.0", {"width": 320}, "efficient"),
    ("H200", "2.11.0", {"dtype": torch.float64}, "math"),
    ("T4", "2.11.0", {"dtype": torch.float16}, "efficient"),
    ("T4", "2.11.0", {}, "math"),
]


@pytest.mark.parametrize(("gpu", "version", "case", "chosen"), ATTENTION)
def test_attention(gpu: str, version: str, case: dict[str, Any], chosen: str, tmp_path: Path, calls: Calls) -> None:
    shape = {key: case[key] for key in ("width", "dtype") if key in case}
    with dry(tmp_path, gpu, torch_version=version):
        q, k, v = heads(**shape), heads(**shape), heads(**shape)
        mask = torch.ones(128, 128, dtype=torch.bool, device="cuda") if case.get("mask") else None
        functional.scaled_dot_product_attention(q, k, v, mask, case.get("dropout_p", 0.0)).sum().backward()
        assert q.grad.shape == q.shape
    names = {"math": None, "cudnn": "cudnn", "flash": "flash", "efficient": "efficient"}
    used = {name for name in names if calls[f"_scaled_dot_product_{name}_attention"]}
    assert used == ({chosen} if chosen != "math" else set())
    assert all(calls[f"_scaled_dot_product_{name}_attention_backward"] == 1 for name in used)


@pytest.mark.parametrize(
    ("shape", "copied"),
    [((1, 1, 128, 77), (1, 1, 128, 80)), ((77,), None), ((1, 1, 128, 80), None), ((128, 84), (128, 88))],
)
def test_masks_are_aligned_before_they_are_expanded(
    shape: tuple[int, ...], copied: tuple[int, ...] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For memory-efficient attention, in rows of multiples of 8 elements: as recorded of programs with fp32 on an H200."""
    padded: list[Any] = []
    pad = functional.pad

    def seen(*args: Any) -> Any:
        padded.append(pad(*args))
        return padded[-1]

    monkeypatch.setattr(functional, "pad", seen)
    with dry(tmp_path), torch.no_grad():
        query = heads(dtype=torch.float32)
        keys = heads(dtype=torch.float32, length=shape[-1])
        functional.scaled_dot_product_attention(query, keys, keys, torch.zeros(shape, device="cuda"))
    assert [tuple(each.shape) for each in padded] == ([] if copied is None else [copied])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_mask_whose_columns_are_apart_is_added_in_place(dtype: Any, tmp_path: Path, calls: Calls) -> None:
    """As the position bias of T5: no fused kernel takes it. On a GPU, the sum has the memory of the scores."""
    with dry(tmp_path), torch.no_grad():
        calls.clear()
        bias = torch.empty(128, 128, 4, dtype=dtype, device="cuda").permute(2, 0, 1)[None]
        functional.scaled_dot_product_attention(heads(dtype=dtype), heads(dtype=dtype), heads(dtype=dtype), bias)
        assert (calls["_safe_softmax"], calls["add_.Tensor"], calls["add.Tensor"]) == (1, 1, 0)
        torch.ones(2, device="cuda") + 1
        assert calls["add.Tensor"] == 1, "the sums of the program itself are new tensors"


def test_gradients_are_scattered_in_place_but_where_equal_elements_are_counted(tmp_path: Path, calls: Calls) -> None:
    """PyTorch's C++ code does so for plain tensors; recorded of a graph network with the largest of neighbours, on an H200."""
    with dry(tmp_path):
        x = torch.ones(90, 24, device="cuda", requires_grad=True)
        index = torch.zeros(90, 24, dtype=torch.int64, device="cuda")
        most = torch.zeros(30, 24, device="cuda").scatter_reduce(0, index, x, "amax", include_self=False)
        most.sum().backward()
        assert (calls["scatter_add"], calls["scatter_add_"]) == (1, 0)
        x.gather(0, index).sum().backward()
        assert (calls["scatter_add"], calls["scatter_add_"]) == (1, 1)


@pytest.mark.parametrize(
    "loss",
    [
        lambda x: functional.layer_norm(x, x.shape[-1:]).permute(0, 2, 1),
        lambda x: functional.group_norm(x, 2).permute(0, 2, 1),
        lambda x: functional.mse_loss(x.permute(0, 2, 1), torch.zeros(2, 8, 4, device=x.device), reduction="none"),
        lambda x: functional.smooth_l1_loss(
            x.permute(0, 2, 1), torch.zeros(2, 8, 4, device=x.device), reduction="none"
        ),
    ],
)
def test_gradients_have_the_strides_of_the_gpu_kernels(loss: Any, tmp_path: Path) -> None:
    """What follows, such as a product, would copy a gradient that is not contiguous. The CPU's kernels make the same strides."""

    def strides(device: str) -> tuple[int, ...]:
        x = torch.ones(2, 4, 8, device=device)
        x.requires_grad_()
        y = loss(x * 1)
        found = []
        x.register_hook(lambda gradient: found.append(gradient.stride()))
        (y * torch.ones(2, 8, 4, device=device)).sum().backward()
        return tuple(found)

    with dry(tmp_path):
        predicted = strides("cuda")
    assert predicted == strides("cpu")


def test_adafactor_steps_without_assumptions(tmp_path: Path) -> None:
    with dry(tmp_path) as run:
        parameter = torch.ones(256, 128, device="cuda", requires_grad=True)
        parameter.sum().backward()
        torch.optim.Adafactor([parameter]).step()
    assert run.steps == 1


@pytest.mark.parametrize(("options", "products"), [({}, 0), ({"pos_weight": (8,)}, 1)])
def test_the_gradient_of_a_binary_cross_entropy_is_one_tensor(
    options: dict[str, Any], products: int, tmp_path: Path, calls: Calls
) -> None:
    with dry(tmp_path):
        x = torch.empty(16, 8, device="cuda", requires_grad=True)
        given: dict[str, Any] = {name: torch.ones(shape, device="cuda") for name, shape in options.items()}
        loss = functional.binary_cross_entropy_with_logits(x, torch.ones(16, 8, device="cuda"), **given)
        calls.clear()
        loss.backward()
        assert (calls["sub.Tensor"], calls["mul.Tensor"]) == (0, products)
        assert calls["sub_.Tensor"] > 0 < calls["mul_.Tensor"]
        (torch.ones(4, device="cuda") - 1) * torch.ones(4, device="cuda")
        assert (calls["sub.Tensor"], calls["mul.Tensor"]) == (1, products + 1), "the program's own are new tensors"


def test_biases_and_gradients_are_added_in_place(tmp_path: Path, calls: Calls) -> None:
    """As on a GPU, where PyTorch's C++ code finds plain tensors."""
    with dry(tmp_path):
        calls.clear()
        layer = nn.Linear(8, 16, device="cuda")
        rows = torch.ones(6, 3, 8, device="cuda").transpose(0, 1)
        layer(rows)[torch.arange(2, device="cuda")].sum().backward()
    assert (calls["add.Tensor"], calls["index_put"]) == (0, 0)
    assert (calls["add_.Tensor"], calls["index_put_"]) == (1, 1)


@pytest.mark.parametrize("loss", [functional.mse_loss, functional.smooth_l1_loss, functional.binary_cross_entropy])
def test_a_reduced_loss_keeps_the_memory_of_all_losses(loss: Any, tmp_path: Path) -> None:
    with dry(tmp_path):
        values, target = torch.ones(512, 64, device="cuda", requires_grad=True), torch.ones(512, 64, device="cuda")
        before = torch.cuda.memory_stats()["requested_bytes.all.current"]
        reduced = loss(values, target)
        assert torch.cuda.memory_stats()["requested_bytes.all.current"] - before == values.nbytes
        assert loss(values, target, reduction="none").shape == values.shape
        reduced.backward()
        assert reduced.shape == ()


def test_attention_as_the_program_restricts_it(tmp_path: Path, calls: Calls) -> None:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with dry(tmp_path), sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
        functional.scaled_dot_product_attention(heads(), heads(), heads())
    assert calls["_scaled_dot_product_efficient_attention"] == 1


@pytest.mark.parametrize(
    ("dtype", "enabled", "chosen"),
    [(torch.float32, True, "cudnn_batch_norm"), (torch.float32, False, "native_batch_norm"), (torch.bfloat16, True, "native_batch_norm")],
)  # fmt: skip
def test_batch_normalization(dtype: Any, enabled: bool, chosen: str, tmp_path: Path, calls: Calls) -> None:
    with dry(tmp_path), torch.backends.cudnn.flags(enabled=enabled):
        layer = nn.BatchNorm2d(8, device="cuda", dtype=dtype)
        layer(torch.ones(2, 8, 4, 4, device="cuda", dtype=dtype)).sum().backward()
    assert (calls[chosen], calls[f"{chosen}_backward"]) == (1, 1)


def test_operators_with_kernels_for_gpus_are_whole(tmp_path: Path, calls: Calls) -> None:
    with dry(tmp_path):
        x = torch.ones(4, 8, device="cuda", requires_grad=True)
        (functional.silu(x) + functional.mish(x) + functional.dropout(x, 0.5)).sum().backward()
    assert (calls["silu_backward"], calls["mish_backward"], calls["native_dropout"]) == (1, 1, 1)


def test_convolutions_keep_channels_last(tmp_path: Path) -> None:
    with dry(tmp_path):
        layer: Any = nn.Conv2d(3, 8, 3, device="cuda")
        layer.to(memory_format=torch.channels_last)
        out = layer(torch.ones(2, 3, 9, 9, device="cuda"))
        out.sum().backward()
        assert out.is_contiguous(memory_format=torch.channels_last)
        assert layer.weight.grad is not None
        assert layer.weight.grad.is_contiguous(memory_format=torch.channels_last)
        plain = nn.Conv2d(3, 8, 3, device="cuda")(torch.ones(2, 3, 9, 9, device="cuda"))
        assert plain.is_contiguous()


@pytest.mark.parametrize(
    ("options", "name"), [({}, "_foreach_sqrt"), ({"fused": True}, "_fused_adamw_"), ({"foreach": False}, "sqrt")]
)
def test_optimizers(options: dict[str, Any], name: str, tmp_path: Path, calls: Calls) -> None:
    with dry(tmp_path):
        model = nn.Linear(8, 8, device="cuda")
        optimizer = torch.optim.AdamW(model.parameters(), **options)
        model(torch.ones(2, 8, device="cuda")).sum().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    assert calls[name] == (2 if name == "sqrt" else 1)
    assert calls["_foreach_norm.Scalar"] == 1


def test_autocast_casts_a_weight_once(tmp_path: Path, calls: Calls) -> None:
    with dry(tmp_path):
        layer = nn.Linear(16, 16, bias=False, device="cuda")
        x = torch.ones(4, 16, device="cuda", dtype=torch.float16)
        with torch.autocast("cuda", torch.float16):
            out = layer(layer(x))
        assert out.dtype == torch.float16
        out.float().sum().backward()
    assert calls["_to_copy"] == 1 + 2 + 1, "the weight; the output and its gradient; the gradient of the weight"


def test_a_gradient_scaler_steps(tmp_path: Path) -> None:
    with dry(tmp_path) as run:
        model = nn.Linear(16, 16, device="cuda")
        optimizer, scaler = torch.optim.SGD(model.parameters(), 0.1), torch.amp.GradScaler("cuda")
        for _ in range(2):
            with torch.autocast("cuda", torch.float16):
                loss = model(torch.ones(4, 16, device="cuda")).sum()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            before = scaler.get_scale()
            scaler.update()
            assert scaler.get_scale() >= before
            optimizer.zero_grad()
    assert run.steps == 2


def test_objects_are_passed_among_ranks(tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace", world_size=3):
        distributed: Any = torch.distributed
        gathered: list[Any] = [None] * 3
        distributed.all_gather_object(gathered, {"rank": 0})
        assert gathered == [{"rank": 0}] * 3
        collected: list[Any] = [None] * 3
        distributed.gather_object("a", collected, dst=0)
        received: list[Any] = [None]
        sent = ["seed"]
        distributed.scatter_object_list(received, [7, 8, 9])
        distributed.broadcast_object_list(sent, src=0)
        assert (collected, received, sent) == (["a"] * 3, [7], ["seed"])
        assert torch.cuda.max_memory_allocated() == 0


def test_distributed_data_parallel(tmp_path: Path) -> None:
    from torch.nn.parallel import DistributedDataParallel

    with dry(tmp_path, world_size=4) as run:
        torch.distributed.init_process_group("nccl")
        assert (torch.distributed.get_rank(), torch.distributed.get_world_size()) == (0, 4)
        model = DistributedDataParallel(nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512)).cuda())
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.ones(4, 512, device="cuda")).sum().backward()
            optimizer.step()
    assert run.steps == 2
    assert not torch.distributed.is_initialized()


def test_fully_sharded_data_parallel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.distributed.fsdp import fully_shard

    monkeypatch.setattr(_kernels.Kernels, "allocations", lambda _kernels, _call: ())
    with dry(tmp_path, world_size=4) as run:
        layers = nn.Sequential(*(nn.Linear(512, 512, bias=False) for _ in range(4))).cuda()
        whole = torch.cuda.memory_allocated()
        for layer in layers:
            fully_shard(layer)
        fully_shard(layers)
        assert torch.cuda.memory_allocated() < whole
        optimizer = torch.optim.AdamW(layers.parameters())
        for _ in range(2):
            layers(torch.ones(4, 512, device="cuda")).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        assert torch.cuda.memory_allocated() < whole
    assert run.steps == 2


def test_a_model_on_the_cpu_is_sharded_onto_the_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rank has its part of states and temporaries: DTensors also work with shapes of all ranks, which are no memory."""
    from torch.distributed.fsdp import fully_shard

    monkeypatch.setattr(_kernels.Kernels, "allocations", lambda _kernels, _call: ())
    with dry(tmp_path, world_size=4):
        layers = nn.Sequential(*(nn.Linear(512, 512, bias=False) for _ in range(4)))
        part = 4 * 512 * 512  # bytes: 4 layers of 4 bytes, of which each of 4 ranks has a quarter
        for layer in layers:
            fully_shard(layer)
            assert torch.cuda.max_memory_allocated() <= 2 * part
        fully_shard(layers)
        assert torch.cuda.memory_allocated() == part
        layers.cuda()
        assert torch.cuda.memory_allocated() == part
        optimizer = torch.optim.AdamW(layers.parameters())
        for _ in range(2):
            layers(torch.ones(4, 512, device="cuda")).sum().backward()
            torch.cuda.reset_peak_memory_stats()
            optimizer.step()
            assert 5 * part <= torch.cuda.max_memory_allocated() < 5.1 * part
            optimizer.zero_grad()


def test_inference_mode_sees_the_same_operators(tmp_path: Path, calls: Calls) -> None:
    with dry(tmp_path):
        model = nn.Sequential(nn.Linear(64, 64), nn.SiLU()).cuda().to(torch.bfloat16)
        with torch.inference_mode():
            x = model(torch.ones(2, 4, 128, 64, device="cuda", dtype=torch.bfloat16))
            functional.scaled_dot_product_attention(x, x, x)
    assert calls["_scaled_dot_product_cudnn_attention"] + calls["_scaled_dot_product_flash_attention"] == 1
    assert (calls["addmm"], calls["silu"], calls["linear"]) == (1, 1, 0)


def test_compiled_programs_run_uncompiled(tmp_path: Path, calls: Calls) -> None:
    with dry(tmp_path), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        model = torch.compile(nn.Linear(8, 8, device="cuda"))
        model(torch.ones(2, 8, device="cuda")).sum().backward()
    assert any("does not compile" in str(each.message) for each in warned)
    assert not any("global hooks" in str(each.message) for each in warned), "vram's own, of which PyTorch warns"
    assert calls["addmm"] == 1
