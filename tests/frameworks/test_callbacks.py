"""vram.callbacks in the trainers of real frameworks, on the CPU; versions in tools/requirements-frameworks.txt."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import vram

torch: Any = pytest.importorskip("torch", reason="torch is not installed; tools/requirements-torch.txt has the version")
WHY = "is not installed; tools/requirements-frameworks.txt has the versions"


@pytest.fixture
def seen() -> Iterator[list[vram.Measurement]]:
    found: list[vram.Measurement] = []
    sink = vram.add_sink(found.append)
    yield found
    vram.remove_sink(sink)


def names_of(seen: list[vram.Measurement]) -> list[str]:
    return [one.name for one in seen]


def lightning_parts() -> tuple[Any, Any]:
    pl: Any = pytest.importorskip("lightning.pytorch", reason=f"lightning {WHY}")

    class Model(pl.LightningModule):  # type: ignore[misc]
        def __init__(self, fails_at: int = -1) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)
            self.fails_at = fails_at

        def training_step(self, batch: Any, index: int) -> Any:
            if index == self.fails_at:
                raise ValueError(index)
            return self.layer(batch).mean()

        def validation_step(self, batch: Any, index: int) -> None:  # noqa: ARG002
            self.layer(batch)

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.1)

    def trainer(callback: Any) -> Any:
        quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
        return pl.Trainer(
            accelerator="cpu",
            max_epochs=2,
            callbacks=[callback],
            enable_model_summary=False,
            num_sanity_val_steps=0,
            **quiet,
        )

    return Model, trainer


def data(steps: int) -> Any:
    return torch.utils.data.DataLoader(torch.zeros(steps * 2, 4), batch_size=2)


def test_lightning(seen: list[vram.Measurement]) -> None:
    model, trainer = lightning_parts()
    trainer(vram.callbacks.lightning()).fit(model(), data(3), data(1))
    epoch = ["train_step"] * 3 + ["validation", "epoch"]
    assert names_of(seen) == epoch * 2
    assert all(one.error is None and one.unknown_reason == "torch uses no GPU" for one in seen)
    assert seen[4].duration_ns >= sum(one.duration_ns for one in seen[:4])  # the epoch holds its parts


def test_lightning_measures_every_nth_and_records_the_exception(seen: list[vram.Measurement]) -> None:
    model, trainer = lightning_parts()
    with pytest.raises(ValueError, match="4"):
        trainer(pickle.loads(pickle.dumps(vram.callbacks.lightning(every=2)))).fit(model(fails_at=4), data(6))
    assert [(one.name, one.call, one.error) for one in seen] == [
        ("train_step", 1, None),
        ("train_step", 3, None),
        ("train_step", 5, "ValueError"),
        ("epoch", 1, "ValueError"),
    ]


def test_hugging_face(seen: list[vram.Measurement], tmp_path: Path) -> None:
    transformers: Any = pytest.importorskip("transformers", reason=f"transformers {WHY}")
    pytest.importorskip("accelerate", reason=f"accelerate {WHY}")

    class Model(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def forward(self, x: Any) -> Any:
            return {"loss": self.layer(x).mean()}

    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path),
        num_train_epochs=2,
        per_device_train_batch_size=2,
        gradient_accumulation_steps=2,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
        logging_strategy="no",
    )
    dataset = [{"x": torch.zeros(4)} for _ in range(12)]
    callback = vram.callbacks.hugging_face()
    transformers.Trainer(model=Model(), args=arguments, train_dataset=dataset, callbacks=[callback]).train()
    assert names_of(seen) == (["train_step"] * 3 + ["epoch"]) * 2


def test_keras(seen: list[vram.Measurement]) -> None:
    os.environ.setdefault("KERAS_BACKEND", "torch")
    keras: Any = pytest.importorskip("keras", reason=f"keras {WHY}")
    numpy: Any = pytest.importorskip("numpy")
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
    model.compile(loss="mse", optimizer="sgd")
    x, y = numpy.zeros((6, 4)), numpy.zeros((6, 1))
    model.fit(
        x, y, batch_size=2, epochs=2, validation_data=(x, y), verbose=0, callbacks=[vram.callbacks.keras(every=2)]
    )
    assert names_of(seen) == [
        *["train_step", "train_step", "validation", "epoch"],  # steps 1 and 3
        *["train_step", "validation", "epoch"],  # step 5
    ]


def test_tensorboard_reads_what_its_writer_was_given(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason=f"tensorboard {WHY}")
    from torch.utils.tensorboard import SummaryWriter

    writer: Any = SummaryWriter(str(tmp_path))
    sink = vram.TensorBoard(writer)
    for call in (1, 2):
        use = vram.DeviceUse(0, 600, 1000, 0, 0, 900, 1000)
        sink(vram.Measurement("step", call, 0, call * 500_000_000, devices=(use,)))
    writer.close()
    accumulator: Any = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(tmp_path))
    events.Reload()
    assert set(events.Tags()["scalars"]) == {
        "vram/step/seconds",
        *(f"vram/step/gpu0/{name}" for name in ("allocated_bytes", "reserved_bytes", "peak_bytes", "fragmentation")),
    }
    assert [(e.step, e.value) for e in events.Scalars("vram/step/seconds")] == [(1, 0.5), (2, 1.0)]
    assert events.Scalars("vram/step/gpu0/peak_bytes")[1].value == 900


def test_tensorflows_writer_is_given_the_same(tmp_path: Path) -> None:
    tensorflow: Any = pytest.importorskip("tensorflow", reason=f"tensorflow {WHY}")
    pytest.importorskip("tensorboard", reason=f"tensorboard {WHY}")
    writer = tensorflow.summary.create_file_writer(str(tmp_path))
    vram.TensorBoard(writer, "gpu")(vram.Measurement("step", 7, 0, 500_000_000))
    writer.close()
    (file,) = tmp_path.iterdir()
    records = [tensorflow.compat.v1.Event.FromString(r.numpy()) for r in tensorflow.data.TFRecordDataset(str(file))]
    values = [(event.step, value) for event in records for value in event.summary.value]
    assert [(step, value.tag) for step, value in values] == [(7, "gpu/step/seconds")]
    assert float(tensorflow.make_ndarray(values[0][1].tensor)) == 0.5
