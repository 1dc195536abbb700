"""What cuDNN allocates: recurrent layers as recorded on an H200 (PyTorch 2.11), attention without gradients."""

# mypy: allow-untyped-calls

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from vram.dry import _tape, dry_run

# Recorded with nn.LSTM(512, 1024, 2, batch_first=True), 16 sequences of 46 steps: bytes of each allocation.
FORWARD = [1507328, 3014656, 131072, 131072, 93389184, 33161472]
BACKWARD = [131072, 131072, 1507328, 1507328, 131072, 3014656, 93389184, 131072, 58785792, 93389184]


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    found: list[int] = []
    allocate = _tape.Tape.allocate

    def allocated(tape: _tape.Tape, device: int, size_bytes: int, *rest: Any) -> int:
        found.append(size_bytes)
        return allocate(tape, device, size_bytes, *rest)

    monkeypatch.setattr(_tape.Tape, "allocate", allocated)
    return found


def test_an_lstm_allocates_what_was_recorded(tmp_path: Path, sizes: list[int]) -> None:
    with dry_run(path=tmp_path / "dry.vtrace"):
        layer = nn.LSTM(512, 1024, 2, batch_first=True).cuda()
        x = torch.empty(16, 46, 512, device="cuda", requires_grad=True)
        states = torch.empty(2, 2, 16, 1024, device="cuda")
        requested = torch.cuda.memory_stats()["requested_bytes.all.current"]
        assert requested == 58785792 + x.nbytes + states.nbytes, "one buffer has all weights"
        sizes.clear()
        output, _ = layer(x, (states[0], states[1]))
        assert [size for size in sizes if size] == FORWARD
        gradient = torch.empty(output.shape, device="cuda")
        sizes.clear()
        output.backward(gradient)
        copied = [x.nbytes]  # a leaf wants its gradient in its own layout
        assert sorted(size for size in sizes if size) == sorted(BACKWARD + copied)
        assert layer.weight_hh_l1.grad is not None
        assert layer.weight_hh_l1.grad.shape == (4096, 1024)


# Measured with the probes of bench/prediction: a layer, its input, autocast, and the workspace and what is kept for backward.
MEASURED = [
    (nn.LSTM(256, 256, batch_first=True), (64, 128, 256), False, 61_539_072, 41_943_296),
    (nn.LSTM(256, 256, batch_first=True), (16, 64, 256), True, 21_037_440, 2_621_696),
    (nn.LSTM(1024, 1024, 3, batch_first=True, dropout=0.2), (64, 128, 1024), False, 368_575_232, 572_522_752),
    (nn.GRU(768, 768, 4, batch_first=True, bidirectional=True), (64, 128, 768), False, 586_154_752, 1_358_954_752),
    (nn.GRU(768, 768, 4, batch_first=True, bidirectional=True), (16, 64, 768), True, 168_362_368, 84_934_912),
    (nn.RNN(512, 512, 2, batch_first=True), (16, 64, 512), False, 32_571_776, 6_291_712),
    # Of the sampled layers with an odd number, which led to no rule.
    (nn.LSTM(1536, 256, 3, batch_first=True, bidirectional=False), (1, 5, 1536), False, 36_841_760, 87_296),
    (nn.LSTM(32, 64, 2, batch_first=True, bidirectional=True), (2, 150, 32), False, 36_505_376, 1_689_856),
    (nn.LSTM(80, 1024, 1, batch_first=True, bidirectional=False), (48, 33, 80), False, 61_390_464, 32_440_576),
    (nn.GRU(320, 80, 1, batch_first=False, bidirectional=False), (150, 2, 320), False, 11_560_736, 576_256),
    (nn.GRU(640, 256, 1, batch_first=True, bidirectional=True), (16, 50, 640), False, 39_715_200, 9_830_656),
    (nn.RNN(640, 300, 1, batch_first=False, bidirectional=False), (400, 16, 640), False, 150_944_192, 7_680_256),
    (nn.GRU(1280, 160, 3, batch_first=False, bidirectional=True), (200, 32, 1280), False, 347_128_320, 163_840_256),
    (nn.LSTM(1000, 128, 1, batch_first=False, bidirectional=True), (16, 100, 1000), False, 75_875_360, 8_192_256),
]


@pytest.mark.parametrize(("layer", "shape", "autocast", "workspace", "kept"), MEASURED)
def test_recurrent_layers_allocate_what_was_measured(
    layer: Any, shape: tuple[int, ...], autocast: bool, workspace: int, kept: int, tmp_path: Path, sizes: list[int]
) -> None:
    with dry_run(path=tmp_path / "dry.vtrace"), torch.autocast("cuda", torch.float16, enabled=autocast):
        on_gpu = copy.deepcopy(layer).cuda()
        x = torch.empty(shape, device="cuda")
        sizes.clear()
        on_gpu(x)
        assert [size for size in sizes if size][-2:] == [workspace, kept]


def test_dropout_between_layers_keeps_its_states_and_a_bit_for_each_value(tmp_path: Path, sizes: list[int]) -> None:
    """The peaks of requested bytes of the program lstm (bench/prediction) are exact with these; the probes show the workspace."""
    with dry_run(path=tmp_path / "dry.vtrace"):
        layer = nn.LSTM(512, 1024, 2, batch_first=True, dropout=0.2).cuda()
        x = torch.empty(16, 46, 512, device="cuda", requires_grad=True)
        states = torch.empty(2, 2, 16, 1024, device="cuda")
        for expected in ([6488064], []):
            sizes.clear()
            output, _ = layer(x, (states[0], states[1]))
            assert output.requires_grad
            workspace, kept = FORWARD[-2] + 16 * 46 * 1024 * 4, FORWARD[-1] + 16 * 46 * 1024 // 8
            assert [size for size in sizes if size] == [*expected, *FORWARD[:-2], workspace, kept]
        layer.eval()
        sizes.clear()
        layer(x, (states[0], states[1]))
        assert 6488064 not in sizes


def test_estimated_workspaces_are_named_in_a_warning(tmp_path: Path) -> None:
    expected = pytest.warns(UserWarning, match="workspaces of these operators are estimated.* aten._cudnn_rnn.default$")
    with expected, dry_run(path=tmp_path / "rnn.vtrace") as run:
        nn.GRU(8, 8).cuda()(torch.empty(4, 2, 8, device="cuda"))
    assert run.estimated_operators["aten._cudnn_rnn.default"].startswith(__file__)
    with dry_run(path=tmp_path / "linear.vtrace") as run:
        nn.Linear(8, 8).cuda()(torch.empty(4, 8, device="cuda"))
    assert not run.estimated_operators


@pytest.mark.parametrize("kind", [nn.GRU, nn.RNN])
def test_other_recurrent_layers_run_in_one_call(kind: Any, tmp_path: Path, sizes: list[int]) -> None:
    with dry_run(path=tmp_path / "dry.vtrace"):
        layer = kind(64, 128, 2, bidirectional=True).cuda()
        x = torch.empty(10, 4, 64, device="cuda")
        sizes.clear()
        output, last = layer(x)
        assert (output.shape, last.shape) == ((10, 4, 256), (4, 4, 128))
        assert len([size for size in sizes if size]) == 5, "the first state, output, last state, workspace, reserve"
        output.sum().backward()
        assert all(parameter.grad is not None for parameter in layer.parameters())


def test_a_packed_batch(tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace"):
        layer = nn.LSTM(64, 128).cuda()
        packed = nn.utils.rnn.pack_padded_sequence(torch.empty(9, 3, 64, device="cuda"), torch.tensor([9, 5, 2]))
        output, _ = layer(packed)
        assert output.data.shape == (16, 128)
        padded, lengths = nn.utils.rnn.pad_packed_sequence(output)
        assert (padded.shape, lengths.tolist()) == ((9, 3, 128), [9, 5, 2])


@pytest.mark.parametrize("batch_first", [False, True])
def test_a_loss_of_the_last_states_has_a_gradient_of_zeros_of_the_output(
    tmp_path: Path, sizes: list[int], batch_first: bool
) -> None:
    with dry_run(path=tmp_path / "dry.vtrace"):
        layer = nn.LSTM(64, 128, batch_first=batch_first).cuda()
        output, (last, cells) = layer(torch.empty(10, 4, 64, device="cuda"))

        def allocated_by_backward_of(*results: Any) -> int:
            gradients = [torch.empty_like(each) for each in results]
            sizes.clear()
            torch.autograd.grad(results, next(layer.parameters()), gradients, retain_graph=True)
            return sum(sizes)

        of_output = allocated_by_backward_of(output)
        of_last = allocated_by_backward_of(last)
        copied = output.nbytes if batch_first else 0  # with the steps first
        assert of_last == of_output + output.nbytes + copied - last.nbytes, (
            "zeros stand in for gradients that do not exist"
        )
        assert allocated_by_backward_of(last, cells) == of_last - cells.nbytes


def test_a_packed_batch_can_have_a_loss_of_its_last_state(tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace"):
        layer = nn.GRU(64, 128, 2, bidirectional=True, batch_first=True).cuda()
        packed = nn.utils.rnn.pack_padded_sequence(
            torch.empty(3, 9, 64, device="cuda"), torch.tensor([9, 5, 2]), batch_first=True
        )
        layer(packed)[1].sum().backward()
        assert all(parameter.grad is not None for parameter in layer.parameters())


def test_without_cudnn_the_cells_run_one_by_one(tmp_path: Path, sizes: list[int]) -> None:
    with dry_run(path=tmp_path / "dry.vtrace"), torch.backends.cudnn.flags(enabled=False):
        layer = nn.LSTM(64, 128).cuda()
        sizes.clear()
        assert layer(torch.empty(10, 4, 64, device="cuda"))[0].shape == (10, 4, 128)
    assert len(sizes) > 20


def test_evaluation_keeps_nothing(tmp_path: Path, sizes: list[int]) -> None:
    with dry_run(path=tmp_path / "dry.vtrace"), torch.no_grad():
        layer = nn.GRU(64, 128).cuda().eval()
        sizes.clear()
        layer(torch.empty(10, 4, 64, device="cuda"))
    assert len([size for size in sizes if size]) == 5, "the input, the first state, output, last state, workspace"


def test_autocast_computes_in_half_precision(tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace"):
        layer = nn.LSTM(64, 128).cuda()
        with torch.autocast("cuda", torch.bfloat16):
            output, _ = layer(torch.empty(10, 4, 64, device="cuda"))
        assert output.dtype == torch.float16
        output.float().sum().backward()
        assert layer.weight_ih_l0.grad is not None
        assert layer.weight_ih_l0.grad.dtype == torch.float32


# Recorded with seq2seq of bench/prediction (bf16 autocast, batch 24): nn.GRU(512, 256, 2, bidirectional=True), 40 steps, in order.
GRU_FORWARD = [4730880, 49152, 983040, 6488064, 983040, 983040, 49152, 48447936, 12902656]
GRU_GRADIENTS = [*([3072, 3072, 786432, 1572864] * 4)]


def test_autocast_copies_all_weights_into_one_piece_before_the_rest(tmp_path: Path, sizes: list[int]) -> None:
    with dry_run("H200", path=tmp_path / "dry.vtrace"):
        layer = nn.GRU(512, 256, 2, batch_first=True, bidirectional=True, dropout=0.2).cuda()
        x = torch.empty(24, 40, 512, device="cuda", requires_grad=True)
        with torch.autocast("cuda", torch.bfloat16):
            sizes.clear()
            output, _ = layer(x)
        assert [size for size in sizes if size and size != 98304] == GRU_FORWARD  # 98304: the first state
        gradient = torch.empty_like(output)
        sizes.clear()
        output.backward(gradient)
        # The input's gradient becomes float32, and gets the layout of the leaf, before those of the weights do.
        first = sizes.index(x.nbytes)
        expected = [x.nbytes] * 2 + GRU_GRADIENTS
        assert sizes[first : first + len(expected)] == expected
        assert all(weight.grad is not None and weight.grad.dtype == torch.float32 for weight in layer.parameters())


def test_an_embedding_copies_a_gradient_whose_steps_come_first(tmp_path: Path, sizes: list[int]) -> None:
    with dry_run("H200", path=tmp_path / "dry.vtrace"):
        words = nn.Embedding(1000, 512).cuda()
        tokens = torch.zeros(24, 40, dtype=torch.long, device="cuda")
        gradient = torch.empty(40, 24, 512, device="cuda").transpose(0, 1)
        for given, copies in ((gradient, [gradient.nbytes]), (gradient.contiguous(), [])):
            words.zero_grad()
            found = words(tokens)
            sizes.clear()
            torch.autograd.grad(found, words.weight, given)
            assert [size for size in sizes if size] == [*copies, 1000 * 512 * 4]


def test_attention_without_gradients_keeps_no_sums(tmp_path: Path, sizes: list[int]) -> None:
    with dry_run(path=tmp_path / "dry.vtrace", torch_version="2.11.0"):
        q = torch.empty(2, 4, 128, 64, device="cuda", dtype=torch.bfloat16)
        sizes.clear()
        functional.scaled_dot_product_attention(q, q, q)
        without = list(sizes)
        sizes.clear()
        functional.scaled_dot_product_attention(q.requires_grad_(), q, q)
    assert (2 * 4 * 128 * 4 in sizes, 2 * 4 * 128 * 4 in without) == (True, False)


@pytest.mark.parametrize(
    ("setting", "value", "expected"),
    [("benchmark", True, "benchmark is on"), ("allow_tf32", False, "allow_tf32 is off")],
)
def test_settings_without_rules_are_named(
    setting: str, value: bool, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.cudnn, setting, value)

    def run() -> None:
        with dry_run(path=tmp_path / "dry.vtrace"):
            layer = nn.Conv2d(3, 8, 3).cuda()
            for _ in range(2):
                layer(torch.empty(2, 3, 16, 16, device="cuda"))

    with pytest.warns(UserWarning, match=expected):
        run()


def test_an_lstm_cell_allocates_what_was_measured(tmp_path: Path, sizes: list[int]) -> None:
    """The probe LSTMCell on an H200: products of matrices, then the fused kernel; its gradients."""
    with dry_run(path=tmp_path / "dry.vtrace"):
        cell = nn.LSTMCell(256, 256).cuda()
        states = torch.empty(2, 64, 256, device="cuda", requires_grad=True)
        sizes.clear()
        hidden, _ = cell(torch.empty(64, 256, device="cuda"), (states[0], states[1]))
        assert sizes[-3:] == [262144, 65536, 65536]
        sizes.clear()
        hidden.backward(torch.empty_like(hidden))
        assert [262144, 65536, 4096] in [sizes[i : i + 3] for i in range(len(sizes))]


def test_a_gru_cell_keeps_five_values_for_each_unit(tmp_path: Path, sizes: list[int]) -> None:
    with dry_run(path=tmp_path / "dry.vtrace") as run:
        cell = nn.GRUCell(128, 256).cuda()
        sizes.clear()
        hidden = cell(torch.empty(64, 128, device="cuda"), torch.empty(64, 256, device="cuda", requires_grad=True))
        assert sizes[-2:] == [5 * 64 * 256 * 4, 64 * 256 * 4]
        hidden.sum().backward()
        assert all(parameter.grad is not None for parameter in cell.parameters())
    assert not run.unknown_operators
