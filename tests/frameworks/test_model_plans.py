"""The models of vram plan --model are those of Transformers, and accelerate reads the files of --emit."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="torch is not installed; tools/requirements-torch.txt has the version")
WHY = "is not installed; tools/requirements-frameworks.txt has the versions"
transformers: Any = pytest.importorskip("transformers", reason=f"transformers {WHY}")

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data" / "plan"
COUNTS = json.loads((DATA / "parameter_counts.json").read_text())
PROGRAM = os.environ.get("VRAM_BINARY", str(ROOT / "build" / "release" / "src" / "vram"))


def model_of(name: str) -> Any:
    """Return Transformers' own model, on the meta device, where it has no memory."""
    values = json.loads((DATA / "models" / f"{name}.json").read_text())
    model_class = getattr(transformers, values["architectures"][0])
    with torch.device("meta"):
        model = model_class(model_class.config_class(**values))
    model.tie_weights()
    return model


def emitted(name: str, kind: str, path: Path, *options: str) -> Path:
    command = [
        PROGRAM,
        "plan",
        "--model",
        str(DATA / "models" / f"{name}.json"),
        "--emit",
        kind,
        "-o",
        str(path),
        *options,
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return path


@pytest.mark.parametrize("name", COUNTS)
def test_the_number_of_parameters_is_that_of_the_model(name: str) -> None:
    model = model_of(name)
    assert sum(each.numel() for each in model.parameters()) == COUNTS[name]


@pytest.mark.parametrize("name", COUNTS)
def test_accelerate_accepts_the_device_map(name: str, tmp_path: Path) -> None:
    modeling: Any = pytest.importorskip("accelerate.utils.modeling", reason=f"accelerate {WHY}")
    model = model_of(name)
    cards = ("--use", "infer", "--sequence", "128", "--batch", "1", "--gpu", "4x H200")
    device_map = json.loads(emitted(name, "hf-device-map", tmp_path / "map.json", *cards).read_text())
    modeling.check_device_map(model, device_map)
    for module in device_map:
        model.get_submodule(module)


@pytest.mark.parametrize("name", COUNTS)
def test_fsdp_wraps_the_layers_of_the_model(name: str, tmp_path: Path) -> None:
    config_args: Any = pytest.importorskip("accelerate.commands.config.config_args", reason=f"accelerate {WHY}")
    path = emitted(name, "fsdp", tmp_path / "fsdp.yaml", "--gpu", "64x H200", "--sequence", "128", "--batch", "1")
    config = config_args.load_config_from_file(str(path))
    layer = config.fsdp_config["fsdp_transformer_layer_cls_to_wrap"]
    found = [each for each in model_of(name).modules() if type(each).__name__ == layer]
    values = json.loads((DATA / "models" / f"{name}.json").read_text())
    assert len(found) == values.get("num_hidden_layers", values.get("n_layer"))


@pytest.mark.parametrize("checkpoint", [True, False])
def test_accelerate_launch_makes_the_plan_of_fsdp_of_it(
    checkpoint: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch: Any = pytest.importorskip("accelerate.commands.launch", reason=f"accelerate {WHY}")
    environment: Any = importlib.import_module("accelerate.utils.launch")
    options = ("--gpu", "80GiB,48GiB,48GiB,24GiB", "--sequence", "128", "--batch", "1")
    path = emitted("llama-1b", "fsdp", tmp_path / "fsdp.yaml", *options, *(["--checkpoint"] if checkpoint else []))
    asked = launch.launch_command_parser().parse_args(["--config_file", str(path), "train.py"])
    asked, _, _ = launch._validate_launch_command(asked)
    for name, value in environment.prepare_multi_gpu_env(asked).items():
        if name.startswith(("FSDP_", "ACCELERATE_")):
            monkeypatch.setenv(name, value)
    plugin = importlib.import_module("accelerate.utils").FullyShardedDataParallelPlugin()
    assert plugin.fsdp_version == 2
    assert plugin.transformer_cls_names_to_wrap == ["LlamaDecoderLayer"]
    assert plugin.activation_checkpointing == checkpoint
    assert asked.num_processes == 4


@pytest.mark.parametrize("gpus", ["8x H200", "8x 48GiB", "8x24GiB"])
def test_accelerate_reads_its_configuration(gpus: str, tmp_path: Path) -> None:
    config_args: Any = pytest.importorskip("accelerate.commands.config.config_args", reason=f"accelerate {WHY}")
    path = emitted(
        "llama-7b", "accelerate", tmp_path / "config.yaml", "--gpu", gpus, "--sequence", "1024", "--batch", "1"
    )
    config = config_args.load_config_from_file(str(path))
    assert config.num_processes == 8
    assert (config.distributed_type == "DEEPSPEED") == bool(config.deepspeed_config)


def test_accelerate_reads_the_configuration_of_deepspeed(tmp_path: Path) -> None:
    deepspeed: Any = pytest.importorskip("accelerate.utils.deepspeed", reason=f"accelerate {WHY}")
    path = emitted(
        "llama-7b", "deepspeed", tmp_path / "ds.json", "--gpu", "8x24GiB", "--sequence", "1024", "--batch", "1"
    )
    assert deepspeed.HfDeepSpeedConfig(str(path)).is_zero3()


@pytest.mark.parametrize("family", ["gpt2", "qwen3", "gemma3_text"])
def test_the_estimate_is_that_of_a_dry_run(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VRAM_PROGRAM", PROGRAM)
    monkeypatch.setenv("VRAM_LIBRARY", os.environ.get("VRAM_LIBRARY", str(Path(PROGRAM).with_name("libvram.so"))))
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    bench: Any = importlib.import_module("model_plans")
    _, class_name, values = bench.MODELS[family]
    config = getattr(transformers, class_name).config_class(architectures=[class_name], **values)
    case = bench.CASES[0]
    estimate = bench.estimated(PROGRAM, config, case)
    assert estimate == pytest.approx(bench.measured(config, class_name, case), rel=0.005)
