"""vram.dry._kernels: the schema of the rules, each rule's bytes, and what counts as a known operator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from vram.dry import _kernels
from vram.dry._kernels import Allocation, Call, InvalidRule, Kernels

MIB = 1 << 20


def tensor(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def kernels(**settings: Any) -> Kernels:
    return Kernels.load("sm_90", "2.11.0+cu130", settings)


def sizes(name: str, *args: Any, **kwargs: Any) -> list[int]:
    found = kernels().allocations(Call(name, args, kwargs, (tensor(1),)))
    return [allocation.size_bytes for allocation in found]


@pytest.mark.parametrize("name", ["aten.mm.default", "aten.bmm.default"])
def test_a_product_keeps_a_workspace_for_each_thread(name: str) -> None:
    args = (tensor(4, 4), tensor(4, 4))
    [main] = kernels().allocations(Call(name, args, {}, ()))
    [backward] = kernels().allocations(Call(name, args, {}, (), thread=1))
    assert main == Allocation(32 * MIB, "cuBLAS workspace", "with_context", False)
    assert (backward.size_bytes, backward.purpose) == (32 * MIB, "cuBLAS workspace, thread 1")


def test_the_workspace_depends_on_the_generation_and_the_settings() -> None:
    call = Call("aten.mm.default", (tensor(4, 4), tensor(4, 4)), {}, ())
    [older] = Kernels.load("sm_80", "2.11.0", {}).allocations(call)
    [set_by_user] = kernels(CUBLAS_WORKSPACE_CONFIG=":4096:2:16:8").allocations(call)
    assert older.size_bytes == set_by_user.size_bytes == 8_519_680
    assert kernels(CUBLAS_WORKSPACE_CONFIG=":0:0").allocations(call) == ()


def test_flash_attention_rounds_lengths_and_widths() -> None:
    q = tensor(2, 3, 130, 40, dtype=torch.bfloat16)
    assert sizes("aten._scaled_dot_product_flash_attention_backward.default", q, q, q, q) == [
        4 * 2 * 256 * 3 * 64,
        4 * 2 * 3 * 256,
    ]
    wide = tensor(1, 1, 128, 160, dtype=torch.bfloat16)
    assert (
        sizes("aten._scaled_dot_product_flash_attention_backward.default", wide, wide, wide, wide)[0] == 4 * 128 * 192
    )


def test_efficient_attention_rounds_lengths() -> None:
    q = tensor(2, 3, 33, 64)
    assert sizes("aten._scaled_dot_product_efficient_attention_backward.default", q, q, q, q) == [4 * 2 * 3 * 64]


def test_many_indices_of_an_embedding_are_sorted() -> None:
    name, grad = "aten.embedding_dense_backward.default", tensor(4096, 8)
    many, few = tensor(4096, dtype=torch.int64), tensor(3072, dtype=torch.int64)
    assert sizes(name, grad, many, 100, -1, False) == [2 * 8 * 4096]
    assert sizes(name, grad, few, 100, -1, False) == []
    assert sizes(name, grad, few, 100, -1, scale_grad_by_freq=True) == [2 * 8 * 3072]


def test_group_normalization_sums_in_float32() -> None:
    x, mean = tensor(2, 64, 8, 8, dtype=torch.bfloat16), tensor(2, 32)
    args = (x, x, mean, mean, tensor(64), 2, 64, 64, 32, [True, True, True])
    assert sizes("aten.native_group_norm_backward.default", *args) == [2 * 2 * 64 * 4]


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
    assert found.context_bytes > 0
    assert found.module_bytes > 0


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


def test_operators_of_the_rules_exist() -> None:
    for name in kernels().rules:
        found: Any = torch.ops
        for part in name.split("."):
            found = getattr(found, part)
        names = [argument.name for argument in found._schema.arguments]
        for rule in kernels().rules[name]:
            assert len(rule.arguments) <= len(names), f"{rule.purpose} names more arguments than {name} has: {names}"
