"""vram.dry._kernels: the schema of the rules, each rule's bytes, and what counts as a known operator."""
# size: one table of what each operator was measured to need

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from vram.dry import _kernels, _sorts
from vram.dry._kernels import Allocation, Call, InvalidRule, Kernels
from vram.dry._sorts import radix_sort_bytes, scan_bytes, unique_bytes

MIB = 1 << 20


def tensor(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def kernels(**settings: Any) -> Kernels:
    return Kernels.load("sm_90", "2.11.0+cu130", settings)


def sizes(name: str, *args: Any, outputs: tuple[Any, ...] = (), **kwargs: Any) -> list[int]:
    found = kernels().allocations(Call(name, args, kwargs, outputs))
    return [allocation.size_bytes for allocation in found]


@pytest.mark.parametrize("name", ["aten.mm.default", "aten.bmm.default"])
def test_a_product_keeps_a_workspace_for_each_thread(name: str) -> None:
    args = (tensor(4, 4), tensor(4, 4))
    [main] = kernels().allocations(Call(name, args, {}, ()))
    [backward] = kernels().allocations(Call(name, args, {}, (), thread=1))
    assert main == Allocation(32 * MIB, "cuBLAS workspace", "with_context", None)
    assert (backward.size_bytes, backward.purpose) == (32 * MIB, "cuBLAS workspace, thread 1")


def test_the_workspace_depends_on_the_generation_and_the_settings() -> None:
    call = Call("aten.mm.default", (tensor(4, 4), tensor(4, 4)), {}, ())
    [older] = Kernels.load("sm_80", "2.11.0", {}).allocations(call)
    [set_by_user] = kernels(CUBLAS_WORKSPACE_CONFIG=":4096:2:16:8").allocations(call)
    assert older.size_bytes == set_by_user.size_bytes == 8_519_680
    assert kernels(CUBLAS_WORKSPACE_CONFIG=":0:0").allocations(call) == ()


def test_flash_attention_rounds_lengths_and_widths() -> None:
    name = "aten._scaled_dot_product_flash_attention_backward.default"
    q = tensor(2, 130, 3, 40, dtype=torch.bfloat16).transpose(1, 2)
    assert sizes(name, q, q, q, q, q) == [4 * 2 * 256 * 3 * 64, 4 * 2 * 3 * 256]
    wide = tensor(1, 1, 128, 160, dtype=torch.bfloat16)
    assert sizes(name, wide, wide, wide, wide, wide)[0] == 4 * 128 * 192


@pytest.mark.parametrize(
    ("query", "key", "expected"),
    [
        ((8, 8, 128, 64), (8, 8, 512, 64), 65_536 + 4_194_304),
        ((2, 8, 333, 80), (2, 8, 333, 80), 42_624 + 4_091_904),
        ((4, 12, 1024, 64), (4, 12, 1024, 64), 0),
        ((1, 8, 2048, 256), (1, 8, 2048, 256), 0),
        ((16, 16, 49, 32), (16, 16, 49, 32), 0),
    ],
)
def test_flash_attention_divides_sequences_for_idle_processors(
    query: tuple[int, ...], key: tuple[int, ...], expected: int
) -> None:
    """What probes measured on an H200, in two allocations."""
    name = "aten._scaled_dot_product_flash_attention.default"
    q, k = tensor(*query, dtype=torch.bfloat16), tensor(*key, dtype=torch.bfloat16)
    assert sum(sizes(name, q, k, k, 0.0)) == expected
    assert sizes(name, q, k, k, 0.1) == []


def test_distances_are_products_of_longer_rows() -> None:
    """What was recorded on an H200, besides the workspace of cuBLAS: squares, norms and ones of both, then both with them."""
    x, y = tensor(24576, 64), tensor(1024, 64)
    assert sizes("aten._euclidean_dist.default", x, y, outputs=(tensor(24576, 1024),))[:-1] == [
        6291456, 98304, 98304, 262144, 4096, 4096, 6291456, 6488064, 270336,
    ]  # fmt: skip


def test_norms_of_strided_tensors_copy_them() -> None:
    """What was recorded on an H200: queries and their gradients, as parts of larger tensors."""
    whole = tensor(5, 256, 3, 7, 64)
    x, rstd, weight = whole[:, :, 0].transpose(1, 2), tensor(5, 7, 256, 1), tensor(64)
    assert sizes("aten._fused_rms_norm.default", x, [64], weight, 1e-6, outputs=(tensor(5, 7, 256, 64), rstd)) == [
        2293760
    ]
    assert sizes("aten._fused_rms_norm_backward.default", x, x, [64], rstd, weight, [True, True]) == [2293760, 2293760]
    plain = tensor(5, 7, 256, 64)
    assert sizes("aten._fused_rms_norm.default", plain, [64], weight, 1e-6) == []


def test_solvers_have_a_workspace_and_are_no_less_unknown() -> None:
    """What was recorded on an H200: the workspace of cuBLAS, and some temporaries that no rule has."""
    square = tensor(12, 12)
    assert sizes("aten.linalg_lu_solve.default", square, square, square) == [32 << 20]
    assert not kernels().is_known("aten.linalg_lu_solve.default")


def test_efficient_attention_rounds_lengths() -> None:
    name = "aten._scaled_dot_product_efficient_attention_backward.default"
    q = tensor(2, 333, 8, 80).transpose(1, 2)
    half = q.to(torch.bfloat16)
    assert sizes(name, q, q, q, q, None, q) == [1704960, 21312, 21312, 3147264]
    assert sizes(name, half, half, half, half, None, half) == [21312, 3147264]
    apart = tensor(2, 8, 333, 80)
    assert sizes(name, apart, q, q, q, None, q)[0] == 1704960, "a contiguous copy of the gradient"


def test_many_indices_of_an_embedding_are_sorted() -> None:
    name, grad, output = "aten.embedding_dense_backward.default", tensor(5752, 2048), (tensor(32000, 2048),)
    many, few = tensor(5752, dtype=torch.int64), tensor(3072, dtype=torch.int64)
    # As recorded (llama_varlen).
    assert sizes(name, grad, many, 32000, -1, False, outputs=output) == [
        46016, 46016, 46016, 111103, 46016, 8, 46016, 1279, 46016, 46016, 1279, 8, 50616, 51830784,
    ]  # fmt: skip
    # Few rows (t5): no sums of parts, and sums in float32.
    rows, output_of_rows = tensor(16384, dtype=torch.int64), (tensor(32, 8, dtype=torch.bfloat16),)
    found = sizes(name, tensor(16384, 8, dtype=torch.bfloat16), rows, 32, -1, False, outputs=output_of_rows)
    assert found[-4:] == [8, 13360, 13360, 1024]
    assert sizes(name, grad, few, 32000, 0, False, outputs=output) == []
    assert sizes(name, grad, few, 32000, -1, scale_grad_by_freq=True, outputs=output)


I64, BF16 = torch.int64, torch.bfloat16


@pytest.mark.parametrize(
    ("pairs", "bits", "expected"),
    [
        (4096, 64, 83_455),
        (12_288, 64, 216_575),
        (262_144, 64, 4_269_567),
        (4096, 14, 71_167),
        (600_000, 16, 9_738_751),
        (2_400_000, 18, 38_940_159),
    ],
)
def test_the_scratch_of_a_sort_is_that_of_recordings(pairs: int, bits: int, expected: int) -> None:
    assert _sorts.radix_sort_bytes(pairs, bits) == expected


@pytest.mark.parametrize(("count", "unique", "scan"), [(4096, 1279, 1279), (16_384, 1279, 1535), (262_144, 2047, None)])
def test_the_scratch_of_scans_is_that_of_recordings(count: int, unique: int, scan: int | None) -> None:
    assert _sorts.unique_bytes(count) == unique
    assert scan is None or _sorts.scan_bytes(count) == scan


def test_rows_are_sorted_by_the_bits_of_their_numbers() -> None:
    name, rows, values = "aten.index_put_.default", tensor(4096, dtype=I64), tensor(4096, 8)
    [*_, scratch] = sizes(name, tensor(16384, 8), [rows], values, True)
    assert scratch == 71_167
    [*_, scratch] = sizes(name, tensor(1 << 16, 8), [rows], values, True)
    assert scratch == 71_167, "16 bits, two passes"
    [*_, scratch] = sizes(name, tensor((1 << 16) + 1, 8), [rows], values, True)
    assert scratch == 71_167 + 2048


def test_indices_with_other_strides_are_copied() -> None:
    name, mask = "aten.index.Tensor", tensor(8, 384, dtype=torch.bool)
    batch, places = torch.arange(8).view(8, 1, 1, 1), torch.arange(384).view(1, 1, 1, 384)
    assert sizes(name, mask, [batch, places]) == [24576, 24576]
    assert sizes(name, mask, [torch.arange(384) % 8, torch.arange(384)]) == []
    assert sizes(name, mask, [None, torch.arange(384)]) == []
    assert sizes(name, mask, [torch.arange(8).view(8, 1), torch.zeros(8, 384, dtype=I64)]) == [24576]


def test_sums_so_far_need_a_copy_of_another_type() -> None:
    mask, numbers = tensor(4, 1024, dtype=torch.bool), tensor(4, 1024, dtype=I64)
    assert sizes("aten.cumsum.default", mask, 1, outputs=(numbers,)) == [32768]
    assert sizes("aten.cumsum.default", numbers, 1, outputs=(numbers,)) == []


@pytest.mark.parametrize(
    ("name", "args", "outputs", "expected"),
    [
        ("_softmax_backward_data.default", (tensor(64, 1000), tensor(64, 1000), -1), (), [256000]),
        ("_safe_softmax.default", (tensor(8, 8, 128, 512), -1), (), [4194304, 8192, 4]),
        ("amax.default", (tensor(4096, 4096, dtype=BF16), [0]), (), [67108864, 128]),
        ("argmax.default", (tensor(4096, 4096), 0), (), [536870912, 128]),
        ("any.default", (tensor(16384, 8192),), (), [4096, 4]),
        ("var.correction", (tensor(100000, 16),), (), [3136, 4]),
        ("_softmax_backward_data.default", (tensor(12, 2400).t(), tensor(2400, 12), 1), (), [115200, 115200]),
        ("logsumexp.default", (tensor(4096, 4096), [0]), (tensor(4096),), [16384, 134217728, 128, 16384, 4096, 67108864, 134217728, 128]),
        (
            "_unique2.default",
            (tensor(40000, dtype=I64), True, True, True),
            (),
            [320000, 320000, 320000, radix_sort_bytes(40000, 64), 320000, scan_bytes(40000), 8, unique_bytes(40000)],
        ),
        ("_unique2.default", (tensor(40000),), (), [160000, radix_sort_bytes(40000, 32, 4) - 320000, 8, unique_bytes(40000)]),
        ("randperm.default", (1000,), (tensor(1000, dtype=I64),), [8000, 4000, 4000]),
        ("randperm.default", (20_000,), (tensor(20_000, dtype=I64),), [160000, 80000, 80000, radix_sort_bytes(20_000, 31, 4)]),
        ("randperm.default", (31_000,), (tensor(31_000, dtype=I64),), [248000, 248000, 248000, radix_sort_bytes(31_000, 33)]),
        ("unique_dim.default", (tensor(1000, 40), 1), (), [160000, 320, 512, unique_bytes(40)]),
        ("topk.default", (tensor(5, 338624), 24), (tensor(5, 24),), [20, 40, 40, 376320, 5120, 2940, 2940, 1279, 1279]),
        ("topk.default", (tensor(1000000, dtype=BF16), 2, 0), (tensor(2),), [2, 8, 8, 400384, 1024, 3128, 3128, 1279, 1279]),
        ("topk.default", (tensor(2400, 12).t(), 400, 1), (tensor(12, 400),), [115200]),
        ("topk.default", (tensor(4096, 64), 64), (tensor(4096, 64),), []),
        ("cumsum.default", (tensor(1000000), -1), (tensor(1000000),), [5119]),
        ("cumsum.default", (tensor(1, 3000), 0), (tensor(1, 3000),), []),
        ("_fft_c2r.default", (tensor(32, 128, 208, dtype=torch.complex64), [1], 2, 255), (tensor(32, 255, 208),), [6815744, 6815744, 13578240]),
        ("_fft_r2c.default", (tensor(16, 6000), [1], 0, True), (tensor(16, 3001, dtype=torch.complex64),), [384000]),
        ("_fft_r2c.default", (tensor(16, 16384), [1], 0, True), (tensor(16, 8193, dtype=torch.complex64),), []),
        ("_fft_r2c.default", (tensor(16, 1155), [1], 0, True), (tensor(16, 578, dtype=torch.complex64),), [147840]),
        ("_fft_c2c.default", (tensor(16, 32768, dtype=torch.complex64), [1], 0, True), (tensor(16, 32768, dtype=torch.complex64),), [4194304]),
        ("avg_pool2d_backward.default", (tensor(56, 25, 25, 256).permute(0, 3, 1, 2), tensor(56, 256, 50, 50)), (), [35840000]),
        ("bincount.default", (tensor(9300, dtype=I64),), (), [8, 8]),
        ("native_batch_norm.default", (tensor(9300, 176), None, None, None, None, True), (), [104192, 24]),
        ("native_batch_norm_backward.default", (*[tensor(9300, 176)] * 2, *[None] * 5, True), (), [704, 704, 52096, 24]),
        ("sum.default", (tensor(4096, dtype=torch.bool),), (), [32768]),
        ("_foreach_norm.Scalar", ([tensor(32000, 512), tensor(512)],), (), [2000]),
        (
            "native_layer_norm_backward.default",
            (tensor(262144, 32), tensor(262144, 32), [32], tensor(262144, 1), tensor(262144, 1), tensor(32), tensor(32), [True] * 3),
            (),
            [1048576, 1048576, 128, 131072, 4, 128, 131072, 4],
        ),
        ("mm.default", (tensor(1, 1).expand(160, 1), tensor(1, 512)), (), [640, 33554432]),
        ("mm.default", (tensor(160, 1).t(), tensor(160, 512)), (), [33554432]),
        ("bmm.default", (torch.empty_strided((24, 1, 1), (65537,) * 3, device="meta"), tensor(24, 1, 128)), (), [96, 33554432]),
        ("native_layer_norm.default", (tensor(249, 512).t(),), (), [509952]),
        (
            "native_batch_norm.default",
            (tensor(48, 28, 28, 256, dtype=BF16).permute(0, 3, 1, 2), None, None, None, None, True),
            (),
            [524288, 32],
        ),
        ("roll.default", (tensor(16, 14, 14, 384), [-3, -3], [1, 2]), (), [4816896]),
        ("roll.default", (tensor(16, 14, 14, 384), [3], [1]), (), []),
        ("_log_softmax.default", (tensor(128, 128, dtype=BF16).t(), 1, False), (), [32768]),
        ("sort.default", (tensor(4096, 64),), (), [512]),
        ("sort.default", (tensor(16, 100000),), (), [25600000, 6400000, 19513855, 287231]),
        ("sort.default", (tensor(8, 32768, dtype=BF16),), (), [4194304, 524288, 2674175, 49663]),
        ("sort.default", (tensor(1000000),), (), [8000000, 12200191]),
        ("sort.default", (tensor(8192, dtype=I64),), (), [65536, 150015]),
        ("multinomial.default", (tensor(64, 1000), 4, True), (), [256000, 256000, 256000]),
        ("multinomial.default", (tensor(150000), 100, True), (), [600000, 600000, 600000, 1535]),
        ("bernoulli.default", (tensor(4096, 4096, dtype=BF16),), (), [67108864]),
        ("index_put.default", (tensor(1000, 64), [None, tensor(500, dtype=I64)], tensor(1000, 500), True), (), [8, 1, 8, 1, 4000, 4000, 2000000, 4000, 4000, 4000, 1]),
        ("index_put_.default", (tensor(169, 8), [tensor(2401, dtype=I64)], tensor(8, 2401).t(), True), (), [19208, 19208, 76832, 19208, 19208, 19208, 3583]),
        ("index_put.default", (tensor(1000, 64), [tensor(500, dtype=I64)], tensor(500, 64)), (), []),
        ("binary_cross_entropy_with_logits.default", (tensor(512, 4096), tensor(512, 4096), None, None, 1), (), [8388608, 8388608, 1024, 4]),
        ("im2col.default", (tensor(8, 256, 32, 32),), (), [8388608]),
        ("abs.default", (tensor(64, 1024, dtype=torch.complex64),), (), [524288]),
    ],
)  # fmt: skip
def test_operators_need_what_was_measured(
    name: str, args: tuple[Any, ...], outputs: tuple[Any, ...], expected: list[int]
) -> None:
    """Single operators on an H200; a kernel's counters may be a few bytes more."""
    assert sizes(f"aten.{name}", *args, outputs=outputs) == expected


@pytest.mark.parametrize(
    ("rows", "columns", "expected"),
    [
        (1190, 2048, [19922944, 64]),
        (2168, 2048, [35651584, 64]),
        (844, 2048, []),
        (16384, 768, [100663296, 24]),
        (16384, 3072, [138412032, 96]),
    ],
)
def test_sums_over_rows_need_what_was_recorded(rows: int, columns: int, expected: list[int]) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        assert sizes("aten.sum.dim_IntList", tensor(rows, columns, dtype=dtype), [0], True) == expected


def test_a_sum_over_all_dimensions_is_along_the_fastest() -> None:
    assert sizes("aten.sum.dim_IntList", tensor(4, 8), [], True) == []
    assert sizes("aten.sum.default", tensor(0, 8)) == []
    buffer, counters = sizes("aten.mean.default", tensor(1 << 24))
    assert buffer % 4 == 0
    assert counters == 4


def test_cudnn_attention_needs_what_was_recorded() -> None:
    name = "aten._scaled_dot_product_cudnn_attention_backward.default"
    gpt2 = tensor(16, 12, 1024, 64, dtype=torch.bfloat16)
    assert sizes(name, gpt2, gpt2, gpt2, gpt2) == [51_118_336]
    llama, shared = tensor(2, 16, 595, 128, dtype=torch.bfloat16), tensor(2, 4, 595, 128, dtype=torch.bfloat16)
    assert sizes(name, llama, llama, shared, shared) == [19_573_376]


def test_group_normalization_needs_what_was_recorded() -> None:
    x, mean = tensor(5, 64, 576, 608), tensor(5, 8)
    assert sizes("aten.native_group_norm.default", x, tensor(64), tensor(64), 5, 64, 350208, 8, 1e-5) == [1280, 1280]
    args = (x, x, mean, mean, tensor(64), 5, 64, 350208, 8, [True, True, True])
    assert sizes("aten.native_group_norm_backward.default", *args) == [1280, 1280, 160, 160, 1280]


def test_a_bias_brings_the_workspace_of_cublaslt() -> None:
    x, bias = tensor(8, 8), tensor(8)
    assert sizes("aten.addmm.default", bias, x, x) == [32 * MIB, MIB]
    assert sizes("aten.addmm.default", x, x, x) == [32 * MIB]


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("aten.mm.default", True),
        ("aten.add.Tensor", True),
        ("aten.view.default", True),
        ("aten.empty.memory_format", True),
        ("aten.linalg_svd.default", False),
        ("nowhere.at_all.default", False),
    ],
)
def test_operators_without_rules_are_known_only_if_they_need_none(name: str, known: bool) -> None:
    assert kernels().is_known(name) is known
    assert kernels().is_known(name) is known


def test_an_operator_without_rules_allocates_nothing() -> None:
    assert sizes("aten.add.Tensor", tensor(4), tensor(4)) == []


@pytest.mark.parametrize("version", ["2.11.0+cu130", "2.13.0", "3.0.0", "1.13.1"])
def test_every_version_of_pytorch_has_rules(version: str) -> None:
    found = Kernels.load("sm_90", version, {})
    assert "aten.mm.default" in found.rules
    assert found.outside_bytes(0, uses_cudnn=False) > 0


@pytest.mark.parametrize(
    ("handles", "uses_cudnn", "measured"),
    [
        (2, False, 787283968),
        (2, True, 806158336),
        (0, True, 671940608),
    ],  # the programs bert, convnext and unet alone on an H200
)
def test_libraries_take_memory_besides_the_allocator(handles: int, uses_cudnn: bool, measured: int) -> None:
    assert abs(kernels().outside_bytes(handles, uses_cudnn) - measured) <= 4 * MIB


def test_a_version_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="PyTorch version 'nightly' is not understood"):
        Kernels.load("sm_90", "nightly", {})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bytes": "__import__('os')"}, "calls something that is not a function"),
        ({"bytes": "self.shape"}, "uses Attribute"),
        ({"bytes": "4 *"}, "is not an expression"),
        ({"bytes": "nbytes(other)"}, "uses the name 'other'"),
        ({"bytes": "(4)(5)"}, "calls something that is not a function"),
        ({"freed": "sometimes"}, "freed 'sometimes'"),
        ({"arguments": "self output"}, "arguments have the names of functions: output"),
        ({"size": 4}, "unknown keys \\['size'\\]"),
    ],
)
def test_a_rule_that_breaks_the_schema_is_refused(
    change: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = {
        "ops": ["aten.mm.default"], "arguments": "self", "purpose": "test", "bytes": "nbytes(self)", "freed": "after_output",
        "measured": False, "source": "none",
    }  # fmt: skip
    constants = {"context": {"": 1}, "modules": {"": 1}}
    (tmp_path / "pytorch-2.0.json").write_text(
        json.dumps({"constants": constants, "known": [], "rules": [rule | change]})
    )
    monkeypatch.setattr(_kernels, "_FOLDER", tmp_path)
    with pytest.raises(InvalidRule, match=message):
        Kernels.load("sm_90", "2.11", {})


def test_an_argument_may_have_the_name_of_a_function() -> None:
    assert sizes("aten.sum.default", tensor(4096, dtype=torch.bool), dtype=torch.float32) == [32768]


def test_operators_of_the_rules_exist() -> None:
    for name in kernels().rules:
        if not name.startswith("aten."):  # of another library
            continue
        found: Any = torch.ops
        for part in name.split("."):
            found = getattr(found, part)
        names = [argument.name for argument in found._schema.arguments]
        for rule in kernels().rules[name]:
            assert len(rule.arguments) <= len(names), f"{rule.purpose} names more arguments than {name} has: {names}"


@pytest.mark.parametrize(
    ("shape", "dtype", "forward", "backward"),
    [
        ((96, 64, 112, 112), torch.float32, 9710132, 6423588),
        ((96, 64, 112, 112), torch.float16, 3885008, 6423588),
        ((32, 128, 28, 28), torch.float32, 405624, 269352),
        ((32, 512, 7, 7), torch.float16, 42384, 70720),
        ((4, 1024, 7, 7), torch.float32, 34160, 25696),
        # Of a network that did not lead to the rule (shufflenet), forward only: channels that are no multiples of 64.
        ((160, 24, 112, 112), torch.float32, 16182836, None),
        ((160, 116, 28, 28), torch.float32, 2023800, None),
    ],
)
def test_cudnn_normalizes_images_whose_channels_are_last_with_a_workspace(
    shape: tuple[int, ...], dtype: torch.dtype, forward: int, backward: int | None
) -> None:
    x = tensor(*shape, dtype=dtype).to(memory_format=torch.channels_last)
    assert sizes("aten.cudnn_batch_norm.default", x, None, None, None, None, True) == [forward]
    assert backward in (None, *sizes("aten.cudnn_batch_norm_backward.default", x, x, None))


def test_values_of_a_mask_are_as_many_as_they_are() -> None:
    mask = tensor(100, 64, dtype=torch.bool)
    for values, copied in ((tensor(300), []), (tensor(600)[::2], [1200])):
        call = Call("aten.index_put_.default", (tensor(100, 64), [mask], values, True), {}, ())
        found = [each.size_bytes for each in kernels().allocations(call) if each.purpose == "contiguous values"]
        assert found == copied


def test_double_precision_has_an_estimate() -> None:
    x = tensor(8, 64, 32, 32, dtype=torch.float64).to(memory_format=torch.channels_last)
    assert sizes("aten.cudnn_batch_norm.default", x, None, None, None, None, True) > [0]


def test_partial_statistics_depend_on_the_launch() -> None:
    """As recorded (shufflenet, bf16): 24 channels are not 32 wide."""
    x = tensor(48, 24, 28, 28, dtype=BF16).to(memory_format=torch.channels_last)
    assert sizes("aten.native_batch_norm.default", x, None, None, None, None, True) == [28416, 4 * 2]


def test_transforms_need_a_workspace_by_their_lengths() -> None:
    """What an H200 allocated for each length, to a quarter of the numbers; the rule was chosen with them."""
    measured = json.loads((Path(__file__).parents[2] / "bench/prediction/transforms-h200.json").read_text())
    assert len(measured) == 46
    for batch, length in (map(int, name.split()) for name in measured):
        found = measured[f"{batch} {length}"]
        real, half = tensor(batch, length), tensor(batch, length // 2 + 1, dtype=torch.complex64)
        whole = tensor(batch, length, dtype=torch.complex64)
        for kind, x, result in (("r2c", real, half), ("c2c", whole, whole), ("c2r", half, real)):
            predicted = sum(sizes(f"aten._fft_{kind}.default", x, [1], outputs=(result,)))
            assert abs(predicted - found[kind][0]) <= x.nbytes / 4, (kind, length)
