"""vram plan --model: what a model of a config.json needs, how it is divided between cards, and the files for other tools."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from program import ROOT, vram

DATA = ROOT / "tests" / "data" / "plan"
MODELS = DATA / "models"
GIB = 1 << 30


def config(name: str) -> Path:
    return MODELS / f"{name}.json"


def planned(name: str, *options: object, code: int = 0) -> Any:
    done = vram("plan", "--model", config(name), "--json", *options)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def refusal(*arguments: object, code: int = 2) -> str:
    done = vram("plan", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    return done.stderr


def emitted(name: str, kind: str, *options: object) -> str:
    done = vram("plan", "--model", config(name), "--emit", kind, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_number_of_parameters_is_that_of_transformers() -> None:
    counts = json.loads((DATA / "parameter_counts.json").read_text())
    assert {name: planned(name)["model"]["parameters"] for name in counts} == counts


def test_training_all_weights_of_seven_billion_parameters_takes_sixteen_bytes_each() -> None:
    plan = planned("llama-7b", "--batch", 1, "--sequence", 2048, "--checkpoint")
    step = next(phase for phase in plan["cards"][0]["phases"] if phase["name"] == "optimizer step")
    assert step["total_bytes"] - step["temporaries_bytes"] == 16 * 6_738_415_616
    assert 100 * GIB < plan["peak_bytes"] < 110 * GIB
    assert planned("llama-7b", "--gpu", "H100 80GB", code=1)["fits"] is False
    assert planned("llama-7b", "--gpu", "H200", "--checkpoint")["fits"] is True


def test_seventy_billion_parameters_fit_two_cards_for_inference() -> None:
    options = ("--use", "infer", "--sequence", 4096)
    assert planned("llama-70b", *options, "--gpu", "2x H100 80GB", "--split", "tensor")["largest_batch"] >= 1
    mapped = planned("llama-70b", *options, "--gpu", "2x H100 80GB")
    assert mapped["split"] == "device-map"
    assert [card["layers"] for card in mapped["cards"]] == [40, 40]
    assert all(card["peak_bytes"] <= card["budget_bytes"] for card in mapped["cards"])
    assert "the layers do not fit" in refusal("--model", config("llama-70b"), *options, "--gpu", "2x 40GiB", code=1)


def test_the_largest_batch_fits_and_one_more_does_not() -> None:
    largest = planned("gpt2", "--gpu", "24GiB")["largest_batch"]
    assert largest > 8
    assert planned("gpt2", "--gpu", "24GiB", "--batch", largest)["fits"]
    assert not planned("gpt2", "--gpu", "24GiB", "--batch", largest + 1, code=1)["fits"]


def test_a_config_can_be_the_input_too() -> None:
    assert json.loads(vram("plan", config("gpt2"), "--json").stdout) == planned("gpt2")


def test_errors_name_the_file_and_what_to_do(tmp_path: Path) -> None:
    wrong = tmp_path / "config.json"
    wrong.write_text(config("llama-7b").read_text().replace("hidden_size", "hiden_size"))
    assert f'{wrong}: "hidden_size" is missing' in refusal("--model", wrong)
    wrong.write_text('{"model_type": "mamba"}')
    assert "vram run --dry -- python train.py" in refusal("--model", wrong)
    assert "No such file" in refusal("--model", tmp_path / "absent.json")
    assert "expected one input" in refusal()
    assert "expected one input" in refusal(DATA / "chain.json", "--model", config("gpt2"))
    assert "--use applies to the config.json of a model" in refusal(DATA / "chain.json", "--use", "infer")
    assert "--stages applies to a trace" in refusal("--model", config("gpt2"), "--stages", "h.*")
    assert "--rank applies to --use lora, found --use train" in refusal("--model", config("gpt2"), "--rank", 8)
    assert "learned: use --sequence 1024" in refusal("--model", config("gpt2"), "--sequence", 4096)
    assert "a step runs on one card, found 2" in refusal(DATA / "chain.json", "--gpu", "2x24GiB")
    assert "--gpu and --budget exclude each other" in refusal(
        "--model", config("gpt2"), "--gpu", "24GiB", "--budget", "1GiB"
    )
    assert "expected 1 to 64 cards" in refusal("--model", config("gpt2"), "--gpu", "65x24GiB")
    assert "no card is called" in refusal("--model", config("gpt2"), "--gpu", "24GiB,RTX 1")
    assert "needs several cards" in refusal("--model", config("gpt2"), "--gpu", "24GiB", "--split", "shard")


def test_a_device_map_names_every_layer_and_keeps_a_tied_head_with_the_embedding() -> None:
    cards = json.loads(emitted("gpt2", "hf-device-map", "--use", "infer", "--gpu", "1GiB,2GiB", "--batch", 16))
    assert [f"transformer.h.{i}" in cards for i in range(12)] == [True] * 12
    assert set(cards.values()) <= {0, 1}
    assert cards["lm_head"] == cards["transformer.wte"]


@pytest.mark.parametrize(
    ("gpus", "kind", "stage"),
    [("8x H200", "MULTI_GPU", None), ("8x 48GiB", "DEEPSPEED", 1), ("8x24GiB", "DEEPSPEED", 3)],
)
def test_accelerate_gets_the_sharding_that_fits(gpus: str, kind: str, stage: int | None) -> None:
    document = yaml.safe_load(emitted("llama-7b", "accelerate", "--gpu", gpus, "--sequence", 1024, "--batch", 1))
    assert (document["distributed_type"], document["num_processes"], document["mixed_precision"]) == (kind, 8, "bf16")
    assert document.get("deepspeed_config", {}).get("zero_stage") == stage


def test_deepspeed_gets_the_stage_and_the_batch() -> None:
    document = json.loads(emitted("llama-7b", "deepspeed", "--gpu", "8x32GiB", "--sequence", 1024, "--batch", 1))
    assert document["zero_optimization"]["stage"] == 2
    assert document["zero_optimization"]["reduce_bucket_size"] == 200_000_000
    assert (document["train_micro_batch_size_per_gpu"], document["bf16"]) == (1, {"enabled": True})


def test_fsdp_gets_the_layers_and_shares_at_least_gradients() -> None:
    def fsdp(*options: object) -> Any:
        return yaml.safe_load(emitted("llama-7b", "fsdp", "--sequence", 1024, "--batch", 1, *options))["fsdp_config"]

    assert fsdp("--gpu", "8x H200")["fsdp_reshard_after_forward"] is False
    sharded = fsdp("--gpu", "8x24GiB", "--checkpoint")
    assert (sharded["fsdp_reshard_after_forward"], sharded["fsdp_activation_checkpointing"]) == (True, True)
    assert sharded["fsdp_transformer_layer_cls_to_wrap"] == "LlamaDecoderLayer"


def test_a_format_that_cannot_express_the_plan_is_an_error() -> None:
    model = ("--model", config("llama-7b"), "--sequence", 1024, "--batch", 1)
    wrong = refusal(*model, "--gpu", "8x H200", "--split", "pipeline", "--emit", "deepspeed")
    assert "--emit deepspeed writes --split shard, found --split pipeline" in wrong
    wrong = refusal(*model, "--gpu", "8x H200", "--precision", "autocast", "--emit", "fsdp")
    assert "--precision mixed or fp32, found autocast" in wrong


def test_of_unequal_cards_the_smaller_one_is_the_fullest() -> None:
    options = ("plan", "--model", config("llama-1b"), "--sequence", 2048, "--batch", 1, "--gpu", "24GiB,16GiB")
    done = vram(*options)
    assert done.returncode == 1
    assert re.search(
        r"needs 15\.9 GiB.* It does not fit 24 GiB, 16 GiB, with 15\.\d GiB", " ".join(done.stdout.split())
    )
    emitted = vram(*options, "--emit", "fsdp")
    assert emitted.returncode == 1
    assert yaml.safe_load(emitted.stdout)["num_processes"] == 2
    assert re.search(r"this plan does not fit: the fullest card needs 15\.9 GiB of 15\.\d GiB", emitted.stderr)


def test_an_emitted_file_is_written_as_it_is_and_never_replaces_another(tmp_path: Path) -> None:
    file = tmp_path / "device_map.json"
    options = (
        "plan",
        "--model",
        config("gpt2"),
        "--use",
        "infer",
        "--gpu",
        "2x24GiB",
        "--emit",
        "hf-device-map",
        "-o",
        file,
    )
    done: subprocess.CompletedProcess[str] = vram(*options)
    assert done.returncode == 0, done.stderr
    assert "MEMORY" in done.stdout
    first = file.read_text()
    assert json.loads(first)["transformer.wte"] == 0
    assert vram(*options).returncode == 0, "its own file"
    assert file.read_text() == first
    mine = json.dumps(json.loads(first), indent=2)
    file.write_text(mine)
    assert "add --force" in refusal(*options[1:])
    assert file.read_text() == mine
    assert vram(*options, "--force").returncode == 0
