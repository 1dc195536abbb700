"""Dry runs of one model as Hugging Face's Trainer, accelerate and Lightning train it: unchanged, with the same steps and about the same peak."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

WHY = "is not installed; tools/requirements-frameworks.txt has the versions"
for _name in ("torch", "transformers", "accelerate", "lightning"):
    pytest.importorskip(_name, reason=f"{_name} {WHY}")

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("VRAM_BINARY", ROOT / "build" / "release" / "src" / "vram"))

MODEL = """
import sys, torch
from torch.utils.data import DataLoader, Dataset
from transformers import GPT2Config, GPT2LMHeadModel

class Texts(Dataset):
    def __init__(self, count):
        self.ids = torch.randint(0, 2000, (count, 256))  # more than 256 KiB for the training, so without values
    def __len__(self):
        return len(self.ids)
    def __getitem__(self, number):
        ids = self.ids[number]
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids.clone()}

def collate(samples):
    return {name: torch.stack([each[name] for each in samples]) for name in samples[0]}

def make():
    torch.manual_seed(0)
    config = GPT2Config(n_layer=4, n_embd=512, n_head=8, vocab_size=2000, n_positions=256, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
                        bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel(config)
    model.gradient_checkpointing_enable()
    return model
"""

TRAINER = """
from transformers import Trainer, TrainingArguments
options = TrainingArguments(sys.argv[1], per_device_train_batch_size=4, per_device_eval_batch_size=4, gradient_accumulation_steps=2, bf16=True,
    gradient_checkpointing=True, max_steps=9, logging_steps=1, eval_strategy="steps", eval_steps=1, save_steps=1, save_total_limit=1, report_to="none",
    dataloader_num_workers=1, load_best_model_at_end=True, disable_tqdm=True)
def metrics(prediction):
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}
Trainer(make(), options, train_dataset=Texts(512), eval_dataset=Texts(8), data_collator=collate, compute_metrics=metrics).train()
"""

ACCELERATE = """
from accelerate import Accelerator
accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2)
model, best = make(), float("inf")
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer, train, valid = accelerator.prepare(model, optimizer,
    DataLoader(Texts(512), 4, num_workers=1, collate_fn=collate), DataLoader(Texts(8), 4, collate_fn=collate))
for batch in train:
    with accelerator.accumulate(model):
        loss = model(**batch).loss
        accelerator.backward(loss)
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    if accelerator.sync_gradients and best == float("inf"):
        model.eval()
        with torch.no_grad():
            losses = torch.stack([accelerator.gather_for_metrics(model(**each).loss) for each in valid])
        if losses.mean().item() < best:
            best = losses.mean().item()
            accelerator.save_state(sys.argv[1])
        model.train()
"""

LIGHTNING = """
import lightning as L
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
class Data(L.LightningDataModule):
    def train_dataloader(self):
        return DataLoader(Texts(512), 4, num_workers=1, collate_fn=collate)
    def val_dataloader(self):
        return DataLoader(Texts(8), 4, collate_fn=collate)
class Module(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = make()
    def training_step(self, batch, number):
        loss = self.model(**batch).loss
        self.log("loss", loss, prog_bar=True)
        return loss
    def validation_step(self, batch, number):
        output = self.model(**batch)
        self.log("val_loss", output.loss)
        self.log("accuracy", (output.logits.argmax(-1) == batch["labels"]).float().mean())
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())
L.Trainer(accelerator="gpu", devices=1, precision="bf16-mixed", accumulate_grad_batches=2, gradient_clip_val=1.0, max_steps=9, val_check_interval=2,
    default_root_dir=sys.argv[1], logger=False, enable_progress_bar=False,
    callbacks=[ModelCheckpoint(monitor="val_loss", save_top_k=2), EarlyStopping("val_loss")]).fit(Module(), datamodule=Data())
"""


def result_of(program: str, folder: Path) -> dict[str, Any]:
    folder.mkdir()
    script = folder / "train.py"
    script.write_text(MODEL + program)
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "python"),
        "VRAM_PROGRAM": str(BINARY),
        "VRAM_LIBRARY": str(BINARY.with_name("libvram.so")),
    }
    command = [sys.executable, "-m", "vram.dry", "--gpu", "24GiB", "--json", str(script), str(folder / "output")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.timeout(900)
def test_the_same_model_by_three_frameworks(tmp_path: Path) -> None:
    found = {
        name: result_of(program, tmp_path / name)
        for name, program in {"trainer": TRAINER, "accelerate": ACCELERATE, "lightning": LIGHTNING}.items()
    }
    assert {each["steps"] for each in found.values()} == {4}
    peaks = [each["peak"]["requested_bytes"] for each in found.values()]
    # What one framework keeps longer than another is small compared with the 54 MB of weights, gradients and two states each.
    assert max(peaks) < 1.06 * min(peaks), peaks
    assert all(each["fits"]["fits"] for each in found.values())
