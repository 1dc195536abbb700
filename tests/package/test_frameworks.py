"""The framework interface with real PyTorch, without a GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from vram._error import VramError
from vram._frameworks import framework_of, used_framework

PYTHON = Path(__file__).resolve().parents[2] / "python"


def test_asking_imports_no_framework() -> None:
    code = "import sys, vram._frameworks as f; assert f.used_framework() is None; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(PYTHON)}, timeout=120)


def test_torch_without_a_gpu_has_no_devices() -> None:
    framework = used_framework()
    assert framework is not None
    assert (framework.name, framework.devices(), framework.current_device()) == ("torch", [], None)
    framework.release_cache()


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (torch.OutOfMemoryError("x"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False),
        (ValueError("CUDA out of memory"), False),
    ],
)
def test_what_is_out_of_memory(error: BaseException, expected: bool) -> None:
    assert framework_of("torch").is_out_of_memory(error) is expected


def test_a_framework_that_was_not_imported_is_an_error() -> None:
    with pytest.raises(VramError, match="import it first"):
        framework_of("jax")
