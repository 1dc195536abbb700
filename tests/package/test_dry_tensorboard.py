"""What PyTorch's writer for TensorBoard reads in a dry run."""

# mypy: allow-untyped-calls

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from vram.dry import dry_run
from vram.dry._values import DryRunError

HERE = Path(__file__).name


def test_a_writer_for_tensorboard_reads_zeros(tmp_path: Path) -> None:
    """PyTorch's writer, which needs the package tensorboard, turns tensors into arrays like this."""
    file = Path(torch.__file__).parent / "utils" / "tensorboard" / "_convert_np.py"
    names: dict[str, Any] = {"torch": torch}
    exec(compile("def made(x):\n    return x.detach().cpu().numpy()", file, "exec"), names)
    with dry_run(path=tmp_path / "dry.vtrace"):
        weight = torch.randn(5, 6, device="cuda", requires_grad=True)
        with pytest.warns(UserWarning, match="metrics are those of zeros"):
            assert not names["made"](weight).any()
        assert not names["made"](weight.long()).any()
        exec(compile("def drawn(model, x):\n    return torch.jit.trace(model, x).graph", file, "exec"), names)
        with pytest.raises(DryRunError, match=rf"{HERE}:\d+: .*leave add_graph\(\) out"):
            names["drawn"](torch.sin, weight)
