"""What programs do with values of the GPU: each gets an error that names the operator and the line and how to continue, or a right answer."""

# mypy: allow-untyped-calls

from __future__ import annotations

import io
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from vram.dry import dry_run
from vram.dry._values import DryRunError

HERE = Path(__file__).name
F = nn.functional

pytestmark = pytest.mark.filterwarnings("ignore")


def packed(x: Any) -> Any:
    return nn.utils.rnn.pack_padded_sequence(x[None], x[:1, 0].long().cpu(), batch_first=True)


# The program, what its error names, and what to assume so that it runs; None: nothing can be assumed for it.
PROGRAMS: dict[str, tuple[Callable[[Any], Any], str, Any]] = {
    "item() compared": (lambda x: x.mean().item() < 0.5, "lt()", 0.25),
    "item() as a size": (lambda x: torch.zeros(x.long().max().item(), device="cuda"), "item()", 3),
    "int() as a size": (lambda x: torch.zeros(int(x.max()), device="cuda"), "int()", 3),
    "if tensor": (lambda x: 1 if x.mean() > 0 else 2, "item()", True),
    "max() of Python": (lambda x: max([x.mean(), x.sum()]), "item()", True),
    "in": (lambda x: 3 in x, "bool()", True),
    "range()": (lambda x: list(range(x.long().max())), "item()", 2),
    "an index of a list": (lambda x: [1, 2, 3][x.long().max()], "item()", 2),
    "a slice": (lambda x: x[: x.long().max()], "item()", 2),
    "arange()": (lambda x: torch.arange(x.max(), device="cuda"), "aten::arange", 4),
    "equal()": (lambda x: torch.equal(x, x + 1), "aten::equal", True),
    "allclose()": (lambda x: torch.allclose(x, x + 1), "aten::allclose", True),
    "one_hot() without classes": (lambda x: F.one_hot(x.long()), "item()", 4),
    "repeat_interleave()": (
        lambda x: torch.repeat_interleave(x, x[:, 0].long(), dim=0),
        "aten::repeat_interleave",
        12,
    ),
    "tolist()": (lambda x: x.tolist(), "tolist()", None),
    "numpy()": (lambda x: x.detach().cpu().numpy(), "numpy()", None),
    "split by values": (lambda x: torch.split(x, x[:, 0].long().tolist()), "tolist()", None),
    "bincount()": (lambda x: torch.bincount(x.long().flatten()), "aten::bincount", 4),
    "lengths of sequences": (packed, "aten::_pack_padded_sequence", None),
    "dlpack": (lambda x: torch.utils.dlpack.from_dlpack(x), "__dlpack__()", None),
    "nested tensors": (lambda x: torch.nested.nested_tensor([x, x[:2]]), "aten::_nested_tensor_from_tensor_list", None),
    "sparse tensors": (lambda x: x.to_sparse(), "aten::_to_sparse", None),
    "an operator without a fake kernel": (
        lambda x: torch.ops.vram_programs.unheard_of(x),
        "vram_programs::unheard_of",
        None,
    ),
}


@pytest.fixture(autouse=True)
def operator_without_a_fake_kernel() -> Iterator[None]:
    with torch.library._scoped_library("vram_programs", "FRAGMENT") as library:
        library.define("unheard_of(Tensor x) -> Tensor")
        library.impl("unheard_of", lambda x: x.clone(), "CPU")
        yield


@pytest.mark.parametrize(("program", "operator", "value"), PROGRAMS.values(), ids=PROGRAMS)
def test_programs_that_need_values(program: Callable[[Any], Any], operator: str, value: Any, tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace") as run:
        x = torch.randn(8, 5, device="cuda")
        with pytest.raises(DryRunError) as error:
            program(x)
        text = str(error.value)
        line = text.split(": ")[0]
        assert Path(line.rpartition(":")[0]).name == HERE, "the line of the program"
        assert operator in text
        if value is None:
            assert "leave the" in text
            return
        assert f"assume={{'{HERE}:" in text
        assert "with run.assume(" in text
        with run.assume(value):
            program(x)


def test_every_operator_and_line_is_named_where_it_is(tmp_path: Path) -> None:
    def reads(x: Any) -> Any:
        y = x + 1
        return y.sum() > 0 and y  # the line with bool()

    with dry_run(path=tmp_path / "dry.vtrace"), pytest.raises(DryRunError) as error:
        reads(torch.randn(3, device="cuda"))
    assert f"{HERE}:{reads.__code__.co_firstlineno + 2}: " in str(error.value)


def test_what_needs_no_values(tmp_path: Path) -> None:
    """Printing, logging, masks that only write a number, and sizes of the CPU."""
    with dry_run(path=tmp_path / "dry.vtrace"):
        x = torch.randn(8, 5, device="cuda")
        assert f"{x.mean():.3f} {x.mean().item()}" == "unknown unknown"
        assert "FakeTensor" in str(x)
        x[x > 0] = 0.0
        x[torch.tensor([True] * 4 + [False] * 4)] += 1
        assert F.one_hot(x.long(), 10).shape == (8, 5, 10)
        assert [row.shape for row in x] == [(5,)] * 8
        assert torch.arange(torch.tensor(4).item(), device="cuda").shape == (4,)
        assert torch.equal(torch.ones(2), torch.ones(2))


def test_an_encoder_counts_padding(tmp_path: Path) -> None:
    """In eval(), PyTorch leaves the padding out by a nested tensor."""
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, batch_first=True), 2).eval()
    peaks = []
    for lengths in ([7, 4], [7, 7]):
        with warnings.catch_warnings(record=True) as warned, dry_run(path=tmp_path / "dry.vtrace"), torch.no_grad():
            warnings.simplefilter("always")
            is_padding = torch.arange(7)[None] >= torch.tensor(lengths)[:, None]
            found = encoder.cuda()(torch.randn(2, 7, 32, device="cuda"), src_key_padding_mask=is_padding.cuda())
            assert found.shape == (2, 7, 32)
            peaks.append(torch.cuda.max_memory_allocated())
        assert any("does not leave the padding" in str(each.message) for each in warned)
    assert peaks[0] == peaks[1]


def test_pairs_of_labels_and_predictions_are_counted(tmp_path: Path) -> None:
    """As confusion matrices do: with the number of bins."""
    with dry_run(path=tmp_path / "dry.vtrace") as run:
        found, labels = torch.randn(8, 5, device="cuda").argmax(1), torch.randint(0, 5, (8,)).cuda()
        assert torch.bincount(labels * 5 + found, minlength=25).reshape(5, 5).dtype == torch.int64
        assert torch.bincount(found, labels.float(), 5).dtype == torch.float32
        assert torch.bincount(found, labels, minlength=5).dtype == torch.float64
        with run.assume(30):
            assert torch.bincount(found, minlength=25).shape == (30,)


def test_what_pytorch_itself_reads(tmp_path: Path) -> None:
    """Whether the arguments of distributions are valid, and a seed for the workers of a loader."""
    with dry_run(path=tmp_path / "dry.vtrace"):
        scores = torch.randn(8, 5, device="cuda", requires_grad=True)
        actions = torch.distributions.Categorical(logits=scores)
        (actions.log_prob(actions.sample()) + actions.entropy()).sum().backward()
        nn.functional.gaussian_nll_loss(scores, scores.detach(), scores.exp()).backward()
        torch.distributions.Normal(scores, scores.exp()).rsample().sum().backward()
        batches: Any = torch.utils.data.DataLoader(
            TensorDataset(torch.arange(3)), generator=torch.Generator(device="cuda")
        )
        assert [batch.item() for (batch,) in batches] == [0, 1, 2]


class Image(torch.Tensor):
    """As the tensors of MONAI and of torchvision's transforms: with data about them."""


def test_tensors_of_other_classes_move_to_the_gpu(tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace"):
        image = torch.ones(1 << 10).as_subclass(Image)
        assert type(image * 2) is Image
        moved = image.to("cuda")
        assert (moved.device.type, moved.shape) == ("cuda", (1 << 10,))
        assert (moved.as_subclass(Image) + 1).device.type == "cuda"
        pair = torch.stack([image, image]).cuda()
        assert torch.cuda.memory_allocated() == moved.nbytes + pair.nbytes == 3 << 12


def test_batches_move_to_the_gpu_in_inference_mode(tmp_path: Path) -> None:
    """As an evaluation loads them."""
    model = nn.Linear(4, 3)
    batch = torch.ones(8, 4, dtype=torch.float64)
    with dry_run(path=tmp_path / "dry.vtrace"):
        model.cuda()
        with torch.inference_mode():
            moved = [batch.to("cuda"), batch.cuda(non_blocking=True), batch.clone().to("cuda", torch.float32)]
            assert {each.device.type for each in (*moved, model(moved[2]))} == {"cuda"}
            assert batch.to(torch.float32).sum() == 32
            assert batch.to("cpu") is batch


def test_settings_of_the_gpu_are_accepted(tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace"):
        torch.cuda.set_sync_debug_mode("warn")
        assert (torch.cuda.get_sync_debug_mode(), torch.cuda.get_allocator_backend()) == (0, "native")


def test_data_parallel_on_one_gpu(tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace"):
        model = nn.DataParallel(nn.Linear(4, 3)).cuda()
        for batch in (torch.ones(8, 4), torch.ones(8, 4, device="cuda")):
            model(batch).sum().backward()
        assert all(each.grad is not None and each.grad.is_cuda for each in model.parameters())


def test_addresses_tell_storages_apart(tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace"):
        x, y = torch.randn(8, 5, device="cuda"), torch.randn(8, 5, device="cuda")
        assert x.data_ptr() == x.view(40).data_ptr() != y.data_ptr()
        assert x[1:].data_ptr() == x.data_ptr() + 5 * 4
        assert x.data_ptr() % 512 == 0
        assert torch.empty(0, device="cuda").data_ptr() == 0
        large = [torch.empty(1 << 20) for _ in range(2)]  # on the CPU, but pretended too
        assert large[0].data_ptr() != large[1].data_ptr() != 0


def test_a_triton_kernel_gets_no_address(tmp_path: Path) -> None:
    launch: dict[str, Any] = {}
    exec(compile("def launch(x):\n    return x.data_ptr()\n", "/lib/triton/runtime/jit.py", "exec"), launch)
    with dry_run(path=tmp_path / "dry.vtrace"), pytest.raises(DryRunError, match=r"data_ptr\(\).*register_fake"):
        launch["launch"](torch.randn(8, device="cuda"))


def loss_of_labels(where: str, **more: Any) -> Any:
    scores = torch.randn(400, 8, 64, device="cuda", requires_grad=True)
    lengths = torch.full((8,), 400, device=where), torch.full((8,), 20, device=where)
    labels = more.get("labels", torch.randint(1, 64, (8, 20), device="cuda"))
    return F.ctc_loss(scores.log_softmax(-1), labels, *lengths)


def test_ctc_loss_has_the_memory_of_the_gpu(tmp_path: Path) -> None:
    """What a probe measured on an H200 (PyTorch 2.11): 524,800 bytes of probabilities, twice in the backward, and 563,200 of its scores."""
    with dry_run(path=tmp_path / "dry.vtrace", torch_version="2.11.0") as run:
        loss_of_labels("cpu").backward()
    assert not run.unknown_operators
    gradients, small = 3 * 819200, 192 + 1280 + 2 * 32 + 64 + 2 * 4
    assert run.peak.requested_bytes == pytest.approx(gradients + 2 * 524800 + 563200 + small, abs=1024)


def test_ctc_loss_with_lengths_on_the_gpu(tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace"):
        loss_of_labels("cuda").backward()
        with pytest.raises(DryRunError, match=r"aten::ctc_loss .* pad the labels"):
            loss_of_labels("cuda", labels=torch.randint(1, 64, (160,), device="cuda"))


def test_the_loss_of_an_rnn_transducer(tmp_path: Path) -> None:
    """torchaudio's operator, which has no fake kernel."""
    batch, frames, tokens, classes = 3, 40, 9, 64
    with torch.library._scoped_library("torchaudio", "FRAGMENT") as library:
        library.define(
            "rnnt_loss_forward(Tensor logits, Tensor targets, Tensor logit_lengths, Tensor target_lengths, "
            "int blank, float clamp, bool fused_log_softmax) -> (Tensor, Tensor?)"
        )
        with dry_run(path=tmp_path / "dry.vtrace") as run:
            logits = torch.randn(batch, frames, tokens, classes, device="cuda")
            labels, length = torch.ones(batch, tokens - 1).int().cuda(), torch.ones(batch).int().cuda()
            before = torch.cuda.memory_allocated()
            costs, gradient = torch.ops.torchaudio.rnnt_loss_forward(logits, labels, length, length, 0, -1.0, True)
            assert (costs.shape, gradient.shape) == ((batch,), logits.shape)
            kept = torch.cuda.memory_allocated() - before
            assert kept == 512 + gradient.nbytes
            inside = torch.cuda.max_memory_allocated() - before - kept
            cells = batch * frames * tokens
            assert inside == pytest.approx(20 * cells + 8 * batch * tokens, abs=1024)
    assert not run.unknown_operators


def test_nothing_is_saved(tmp_path: Path) -> None:
    file = io.BytesIO()
    save = torch.save
    with warnings.catch_warnings(record=True) as warned, dry_run(path=tmp_path / "dry.vtrace"):
        warnings.simplefilter("always")
        torch.save(nn.Linear(4, 4).cuda().state_dict(), file)
    assert any("saves nothing" in str(each.message) for each in warned)
    assert not file.getvalue()
    assert torch.save is save


def saved_as_a_whole(folder: Path) -> Path:
    torch.save(object(), folder / "model.pt")
    return folder / "model.pt"


@pytest.mark.filterwarnings("ignore:a dry run saves nothing")
def test_what_was_not_saved_cannot_be_loaded(tmp_path: Path) -> None:
    load = torch.load
    with dry_run(path=tmp_path / "dry.vtrace"):
        with pytest.raises(FileNotFoundError):
            torch.load(tmp_path / "model.pt")
        saved = saved_as_a_whole(tmp_path)
        with pytest.raises(DryRunError, match=r"test_dry_programs\.py:\d+: torch.load\(\) .* copy\.deepcopy\(\)"):
            torch.load(saved)
    assert torch.load is load


@pytest.mark.filterwarnings("ignore:a dry run saves nothing")
def test_the_best_model_is_loaded_again(tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace"):
        model = nn.Sequential(nn.Linear(256, 256), nn.BatchNorm1d(256)).cuda()
        optimizer = torch.optim.Adam(model.parameters())
        model(torch.randn(8, 256, device="cuda")).sum().backward()
        optimizer.step()
        state = {"epoch": 3, "model": model.state_dict(), "optimizer": optimizer.state_dict(), "best": [0.5, None]}
        torch.save(state, tmp_path / "last.pt")
        shutil.copyfile(tmp_path / "last.pt", tmp_path / "best.pt")
        before = torch.cuda.memory_allocated()
        found = torch.load(tmp_path / "best.pt")
        tensors = [each for each in found["model"].values() if each.is_cuda]
        assert (found["epoch"], found["best"]) == (3, [0.5, None])
        assert [(each.shape, each.dtype) for each in tensors] == [
            (each.shape, each.dtype) for each in model.state_dict().values()
        ]
        in_states = sum(each.nbytes for each in tensors) + 2 * sum(each.nbytes for each in model.parameters())
        assert in_states <= torch.cuda.memory_allocated() - before <= in_states + (32 << 10)
        del found, tensors
        assert torch.cuda.memory_allocated() == before
        found = torch.load(tmp_path / "last.pt", map_location="cpu")
        assert torch.cuda.memory_allocated() == before
        assert {each.device.type for each in found["model"].values()} == {"cpu"}
        model.load_state_dict(found["model"])
        optimizer.load_state_dict(found["optimizer"])
        tied = torch.ones(64, 4, device="cuda")
        torch.save([tied, tied[2:].t()], tmp_path / "tied.pt")
        a, b = torch.load(tmp_path / "tied.pt")
        assert a.untyped_storage()._cdata == b.untyped_storage()._cdata
        assert (b.shape, b.stride(), b.storage_offset()) == ((4, 62), (1, 4), 8)
    assert not list(tmp_path.glob("*.pt"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_products_of_groups(dtype: torch.dtype, tmp_path: Path) -> None:
    """Results, and for bfloat16 what probes measured on an H200: 60 bytes for each group, and 67,584 in addition."""
    with dry_run("H200", path=tmp_path / "dry.vtrace", torch_version="2.11.0") as run:
        x = torch.randn(256, 64, device="cuda", dtype=dtype, requires_grad=True)
        weight = torch.randn(8, 128, 64, device="cuda", dtype=dtype, requires_grad=True)
        ends = torch.arange(32, 257, 32, device="cuda", dtype=torch.int32)
        out = F.grouped_mm(x, weight.transpose(-2, -1), offs=ends)
        assert out.shape == (256, 128)
        out.backward(torch.ones_like(out))
        assert x.grad is not None
        assert weight.grad is not None
        assert x.grad.shape == x.shape
        assert weight.grad.shape == weight.shape
    assert not run.unknown_operators
    both = 2 * (x.nbytes + weight.nbytes + out.nbytes) + ends.nbytes
    inside = 60 * 8 + 67584 if dtype == torch.bfloat16 else 2 * (32 << 20)  # cuBLAS, of two threads
    assert run.peak.requested_bytes == pytest.approx(both + inside, rel=0.1)


# The operator's input and dimensions, and what a probe measured in addition to the result; those with (*) led to no rule.
TRANSFORMS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...], int]] = {
    "rows": (lambda x: torch.fft.fft(x, dim=-2), (8, 16, 768), 393216),
    "the last dimension": (lambda x: torch.fft.rfft(x), (2, 64, 256), 0),
    "all dimensions": (lambda x: torch.fft.rfftn(x), (16, 64, 512), 2105344),
    "all dimensions (*)": (lambda x: torch.fft.rfftn(x), (8, 257, 256), 2121792),
    "an odd length": (lambda x: torch.fft.rfft(x, dim=1), (32, 255, 208), 20367360),
    "turned, back": (lambda x: torch.fft.irfft(torch.complex(x, x), 330, dim=1), (32, 166, 208), 3 * 8839168),
    "a large prime": (lambda x: torch.fft.fft(x), (16, 100, 1009), 12915968),
}


@pytest.mark.parametrize(("transform", "shape", "inside"), TRANSFORMS.values(), ids=TRANSFORMS)
def test_transforms(transform: Callable[[Any], Any], shape: tuple[int, ...], inside: int, tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace", torch_version="2.11.0") as run:
        x = torch.randn(shape, device="cuda")
        out = transform(x)
    assert not run.unknown_operators
    assert run.peak.requested_bytes - x.nbytes - out.nbytes == pytest.approx(inside, abs=1024)
