"""vram.dry._convolutions: the temporaries of convolutions, against calls that were measured on an H200 (PyTorch 2.11)."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from vram.dry._convolutions import copy_bytes, is_contiguous, is_last
from vram.dry._kernels import Call, Kernels
from vram.dry._workspaces import FORWARD

BF16, F32 = torch.bfloat16, torch.float32
KERNELS = Kernels.load("sm_90", "2.11.0+cu130", {})
# Some plans of cuDNN need 131 bytes more than others for their header; no rule tells them apart.
HEADER_BYTES = 131


def tensor(shape: tuple[int, ...], dtype: torch.dtype, *, last: bool = False) -> torch.Tensor:
    layout = {4: torch.channels_last, 5: torch.channels_last_3d}[len(shape)] if last else torch.contiguous_format
    return torch.empty(shape, dtype=dtype, device="meta", memory_format=layout)


def forward(x: Any, weight: Any, out: Any, stride: int, padding: int, groups: int = 1) -> list[int]:
    rank = x.dim() - 2
    args = (x, weight, None, [stride] * rank, [padding] * rank, [1] * rank, False, [0] * rank, groups)
    return [each.size_bytes for each in KERNELS.allocations(Call("aten.convolution.default", args, {}, (out,)))]


def backward(
    gradient: Any, x: Any, weight: Any, stride: int, padding: int, mask: tuple[bool, bool, bool], *, transposed: bool = False
) -> list[tuple[int, int | None]]:  # fmt: skip
    rank = x.dim() - 2
    args = (
        gradient,
        x,
        weight,
        None,
        [stride] * rank,
        [padding] * rank,
        [1] * rank,
        transposed,
        [0] * rank,
        1,
        [*mask],
    )
    found = KERNELS.allocations(Call("aten.convolution_backward.default", args, {}, ()))
    return [(each.size_bytes, each.before_output) for each in found]


@pytest.mark.parametrize(
    ("x", "weight", "out", "dtype", "stride", "padding", "measured"),
    [
        # Copies of the input, the weight and the output: U-Net, 3-D network, wav2vec 2.0, patches whose channels are padded from 3 to 8.
        ((12, 64, 256, 256), (64, 64, 3, 3), (12, 64, 256, 256), BF16, 1, 1, [201_400_467]),
        ((12, 64, 256, 256), (64, 64, 3, 3), (12, 64, 256, 256), F32, 1, 1, [402_800_787]),
        ((12, 64, 16, 56, 56), (128, 64, 3, 3, 3), (12, 128, 8, 28, 28), F32, 2, 1, [193_560_723]),
        ((12, 512, 15999), (512, 512, 3), (12, 512, 7999), F32, 2, 0, [592_920_723]),
        ((48, 3, 224, 224), (768, 3, 16, 16), (48, 768, 14, 14), BF16, 16, 0, [56_131_600]),
        # A product of matrices reads and writes images as they are.
        ((128, 80, 75, 75), (80, 80, 1, 1), (128, 80, 75, 75), F32, 1, 0, []),
    ],
)
def test_a_forward_pass_needs_what_was_measured(
    x: tuple[int, ...], weight: tuple[int, ...], out: tuple[int, ...], dtype: torch.dtype, stride: int, padding: int, measured: list[int]
) -> None:  # fmt: skip
    found = forward(tensor(x, dtype), tensor(weight, dtype), tensor(out, dtype), stride, padding)
    assert len(found) == len(measured)
    assert found == pytest.approx(measured, abs=HEADER_BYTES)


def test_a_depthwise_convolution_runs_pytorchs_own_kernel() -> None:
    image, weight = tensor((32, 96, 56, 56), F32), tensor((96, 1, 7, 7), F32)
    assert forward(image, weight, image, 1, 3, groups=96) == []


def test_a_weight_is_copied_into_the_layout_of_the_images() -> None:
    x, out = tensor((16, 96, 56, 56), BF16, last=True), tensor((16, 192, 28, 28), BF16, last=True)
    weight = tensor((192, 96, 2, 2), BF16)
    assert forward(x, weight, out, 2, 0) == [147_456]
    assert copy_bytes(weight, x, weight) == 147_456
    assert copy_bytes(x, x, weight) == copy_bytes(tensor((192, 96, 1, 1), BF16), x, weight) == 0
    assert forward(x, weight.contiguous(memory_format=torch.channels_last), out, 2, 0) == []


def test_a_backward_pass_frees_each_workspace_before_the_next_gradient() -> None:
    image, weight = tensor((16, 512, 7, 7), BF16), tensor((512, 512, 3, 3), BF16)
    assert backward(image, image, weight, 1, 1, (True, True, False)) == [(6_324_240, 1), (6_324_240, 2)]
    assert backward(image, image, weight, 1, 1, (False, True, False)) == [(6_324_240, 1)]
    assert backward(image, image, weight, 1, 1, (True, False, False)) == [(6_324_240, 1)]


def test_a_gradient_with_another_layout_is_copied_first() -> None:
    gradient, x = tensor((48, 768, 14, 14), BF16, last=True), tensor((48, 3, 224, 224), BF16)
    weight = tensor((768, 3, 16, 16), BF16)
    copy, workspace, *bias = backward(gradient, x, weight, 16, 0, (False, True, True))
    assert copy == (14_450_688, 0)
    assert workspace[0] == pytest.approx(75_006_096, abs=HEADER_BYTES)
    assert workspace[1] == 1
    assert bias == [(57_802_752, None), (24, None)]


def test_a_slice_of_a_gradient_is_copied_for_each_direction() -> None:
    x, weight = tensor((12, 256, 16, 16), BF16), tensor((4, 256, 3, 3), BF16)
    gradient = torch.empty((12, 21, 16, 16), dtype=BF16, device="meta")[:, :4]
    found = backward(gradient, x, weight, 1, 1, (True, True, True))
    copies = [(size, before) for size, before in found if size == 24_576]
    assert copies == [(24_576, 1), (24_576, 2)]


def test_a_transposed_convolution_copies_a_slice_once() -> None:
    x, weight = tensor((12, 1024, 16, 16), F32), tensor((1024, 512, 2, 2), F32)
    gradient = torch.empty((12, 1024, 32, 32), device="meta")[:, :512]
    found = backward(gradient, x, weight, 2, 0, (True, True, False), transposed=True)
    assert found == [(25_165_824, 0), (46_137_360, 1), (46_137_360, 2)]


@pytest.mark.parametrize(
    "x", [torch.empty(0, 8, 9, 9, device="meta"), torch.empty(2, 8, 9, 9, dtype=torch.float64, device="meta")]
)
def test_empty_images_and_float64_have_no_workspace(x: torch.Tensor) -> None:
    weight = tensor((8, 8, 3, 3), x.dtype)
    assert KERNELS.convolutions.bytes_of(FORWARD, x, weight, x, [1, 1], [1, 1], [1, 1], False, 1) == 0


def test_layouts_ignore_dimensions_of_one_element() -> None:
    weight = torch.empty(64, 32, 1, 1, device="meta")
    assert is_contiguous(weight)
    assert is_contiguous(weight, last=True)
    assert not is_last(weight)
    assert is_last(weight.to(memory_format=torch.channels_last)), "by its strides, as PyTorch decides"
    assert not is_last(torch.empty(1, 1, 1, 1, device="meta").to(memory_format=torch.channels_last))
    image = tensor((2, 32, 4, 4), F32, last=True)
    assert is_last(image)
    assert is_contiguous(image, last=True)
    assert not is_contiguous(image)
