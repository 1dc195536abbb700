"""Asks cuDNN which plans it has for convolutions of many networks, on a machine with a GPU.

    python bench/prediction/plans_sampled.py OUT [--seconds 260] [--jobs 16] [--gpu H200]

Each group is a network of a family (shapes_images.py, shapes_others.py, or one of torchvision's) with random widths, depths, kernels, sizes, batch,
precision and layout. The seed of a group is its number. Groups with even numbers and those from 1,000,000 on are for choosing rules, the others for showing
how exact the rules are. Networks of torchvision that a program of `prove`, `fresh` or `blind` uses (families.py) are in none of them.

OUT/plans-N.jsonl.xz has a line for each group: [number, family, dtype, layers]. A layer is [x, weight, y, stride, padding, dilation, channels last,
answers]: a plain convolution, of which a transposed one is the inverse. The answers, by the first letter of their direction, are [number of
plans, engine, bytes, engine, bytes, …]: those plans, in the order in which PyTorch tries them, that need less than all before them. With less memory than the
first needs, PyTorch takes one of the others. [] stands for no answer. OUT/about.json has the GPU and the version of cuDNN.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import json
import lzma
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import shapes_images
import shapes_others
from shapes import ImpossibleError, Layer, Question, Rng, Trace, questions

from vram.dry import _cudnn_answers
from vram.dry._cudnn_answers import Cudnn
from vram.dry._gpu import find_gpu
from vram.dry._plans import description, libraries

# Layers of a group: more groups are worth more than all layers of few.
LAYERS_OF_GROUP = 24
LAYERS_OF_PART = 8000
MAX_FILES, MAX_FILE_BYTES = 4, 14 << 20
_ENGINE_NUMBER = 1301  # CUDNN_ATTR_ENGINE_GLOBAL_INDEX
FAMILIES: tuple[tuple[Callable[[Rng], Trace], int], ...] = (
    (shapes_images.resnet, 10), (shapes_images.vgg, 4), (shapes_images.unet, 7), (shapes_images.diffusion, 7), (shapes_images.dcgan, 5),
    (shapes_images.translation, 4), (shapes_images.styles, 4), (shapes_images.autoencoder, 5), (shapes_images.super_resolution, 4),
    (shapes_images.segmentation, 5), (shapes_images.detection, 5), (shapes_images.yolo, 3), (shapes_images.mobile, 5), (shapes_images.shuffle, 2),
    (shapes_images.convnext, 2), (shapes_images.dense, 4), (shapes_images.inception, 3), (shapes_images.patches, 4), (shapes_images.poses, 2),
    (shapes_others.flow, 2), (shapes_others.atari, 3), (shapes_others.boards, 2), (shapes_others.digits, 3), (shapes_others.lines, 1),
    (shapes_others.spectrograms, 3), (shapes_others.brains, 1), (shapes_others.speech, 4), (shapes_others.tcn, 4), (shapes_others.wavenet, 3),
    (shapes_others.recognizer, 3), (shapes_others.conformer, 4), (shapes_others.points, 4), (shapes_others.signals, 3), (shapes_others.texts, 2),
    (shapes_others.vocoder, 3), (shapes_others.separation, 3), (shapes_others.volumes, 5), (shapes_others.videos, 5), (shapes_others.voxels, 3),
    (shapes_others.random_layers, 8),
)  # fmt: skip
TORCHVISION_SHARE = 0.04
# Those of probes_networks.py, less the kinds of networks that programs of `blind` use, and others.
NETWORKS = (
    "alexnet", "convnext_tiny", "convnext_small", "convnext_base", "convnext_large", "googlenet", "inception_v3", "maxvit_t", "mnasnet0_5",
    "mnasnet1_0", "mnasnet1_3", "mobilenet_v2", "resnet18", "resnet34", "resnet50", "resnet101", "resnext50_32x4d", "resnext101_32x8d",
    "resnext101_64x4d", "squeezenet1_0", "squeezenet1_1", "vgg11", "vgg13_bn", "vgg16_bn", "vgg19", "vit_b_16", "vit_b_32", "vit_l_16",
    "wide_resnet50_2", "wide_resnet101_2", "segmentation.fcn_resnet50", "segmentation.fcn_resnet101", "video.r3d_18", "video.mc3_18",
    "video.r2plus1d_18", "video.s3d",
)  # fmt: skip
SIDES = (128, 160, 192, 224, 224, 256, 288, 320, 384, 512)


class Plans(Cudnn):
    """cuDNN, with the engines of its plans."""

    def about(self) -> Any:
        """Returns what cuDNN says of the GPU."""
        found = self._kept.made(_cudnn_answers._DEVICE, (_cudnn_answers._DEVICE_NUMBER, _cudnn_answers._INT32, [0]))
        text = ctypes.create_string_buffer(_cudnn_answers._MAX_JSON)
        self._kept.get(found, _cudnn_answers._DEVICE_JSON, _cudnn_answers._CHAR, text, _cudnn_answers._MAX_JSON)
        return json.loads(text.value)

    def _workspaces(self, descriptors: Any, graph: Any, without_tensor_cores: bool) -> Iterator[Any]:
        self._engines: list[int] = []
        yield from super()._workspaces(descriptors, graph, without_tensor_cores)

    def _workspace(self, config: Any) -> int | None:
        size_bytes = super()._workspace(config)
        if size_bytes is not None:
            self._engines.append(self._engine(config))
        return size_bytes

    def _engine(self, config: Any) -> int:
        with _cudnn_answers._Descriptors(self._library) as descriptors:
            engine = descriptors.empty(_cudnn_answers._ENGINE)
            array = (ctypes.c_void_p * 1)(engine.value)
            descriptors.get(config, _cudnn_answers._CONFIG_ENGINE, _cudnn_answers._DESCRIPTOR, array, 1)
            number = (ctypes.c_int64 * 1)()
            descriptors.get(engine, _ENGINE_NUMBER, _cudnn_answers._INT64, number, 1)
            return number[0]

    def answer(self, direction: str, question: Question) -> list[int]:
        """Returns the number of plans, and engine and workspace of each that needs less than all before it."""
        sizes = self.workspaces(
            direction, question.dtype, question.is_last, question.x, question.weight, question.y, question.stride, question.padding,
            question.dilation, True,
        )  # fmt: skip
        if not sizes:
            return []
        found = [len(sizes)]
        for engine, size_bytes in zip(self._engines, sizes, strict=True):
            if len(found) == 1 or size_bytes < found[-1]:
                found += engine, size_bytes
        return found


@functools.cache
def _torchvision(name: str, side: int) -> tuple[Layer, ...]:
    from probes_networks import layers

    def output(layer: Any) -> tuple[int, ...]:
        sizes = zip(layer.input[1:], layer.weight[2:], layer.stride, layer.padding, layer.dilation, strict=True)
        return (layer.weight[0], *((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in sizes))

    return tuple(
        Layer(
            each.input,
            each.weight,
            output(each),
            each.stride,
            each.padding,
            each.dilation,
            each.groups,
            needs_input=number > 0,
        )
        for number, each in enumerate(layers(name, side, Rng(0)))
        if not each.transposed
    )


def _published(choose: Rng) -> tuple[str, Trace]:
    name, side = choose.choice(NETWORKS), choose.choice(SIDES)
    if name.startswith("vit") or name == "maxvit_t":
        side = 224
    elif name in ("inception_v3", "video.s3d"):
        side = max(side, 299)
    elif name.startswith("video"):
        side = min(side, 256)
    trace = Trace(3, (side, side))
    trace.layers = dict.fromkeys(_torchvision(name, side))
    return f"torchvision.{name}", trace


def group(number: int) -> tuple[str, list[Question]]:
    """Returns the family of a group, and its questions in random order."""
    choose = Rng(number)
    while True:
        try:
            if choose.chance(TORCHVISION_SHARE):
                name, trace = _published(choose)
            else:
                build = choose.choices([build for build, _ in FAMILIES], [weight for _, weight in FAMILIES])[0]
                name, trace = build.__name__, build(choose)
        except ImpossibleError:
            continue
        except (ImportError, RuntimeError, ValueError):  # no torchvision, or an image too small for its network
            continue
        if found := list(questions(trace, choose, LAYERS_OF_GROUP)):
            return name, found


def asked(
    number: int, answer: Callable[[str, Question], list[int]], known: set[Question], until: float
) -> tuple[list[Any], int]:
    """Returns the row of a group with those questions that were not asked before, and how many answers it has."""
    name, found = group(number)
    rows, count = [], 0
    for question in found:
        if question in known or time.time() > until:
            continue
        known.add(question)
        answers = {direction[0]: answer(direction, question) for direction in question.directions}
        count += len(answers)
        rows.append(
            [
                question.x,
                question.weight,
                question.y,
                question.stride,
                question.padding,
                question.dilation,
                int(question.is_last),
                answers,
            ]
        )
    return [number, name, found[0].dtype, rows], count


def write_part(path: Path, rows: list[Any]) -> None:
    text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(lzma.compress(text.encode(), preset=6))
    temporary.rename(path)


def work(parts: Path, gpu: str, counter: Any, step: int, until: float) -> None:
    """Asks about one group after the other until the time is over."""
    for path in (paths := libraries()):
        library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    if not paths:
        raise SystemExit("found no cuDNN")
    library.cudnnGetVersion.restype = ctypes.c_size_t
    plans = Plans(library, description(find_gpu(gpu)) or "")
    if not plans.is_here:
        raise SystemExit(f"this machine has no {gpu}")
    about = {"gpu": plans.about(), "cudnn": library.cudnnGetVersion(), "libraries": [str(path) for path in paths]}
    (parts / f"{multiprocessing.current_process().name}.json").write_text(json.dumps(about))
    loop(parts, plans.answer, counter, step, until)


def loop(parts: Path, answer: Callable[[str, Question], list[int]], counter: Any, step: int, until: float) -> None:
    known: set[Question] = set()
    rows: list[Any] = []
    layers = answers = part = 0

    def flush() -> None:
        nonlocal rows, layers, part
        write_part(parts / f"{multiprocessing.current_process().name}.{part}.xz", rows)
        rows, layers, part = [], 0, part + 1

    while time.time() < until:
        with counter.get_lock():
            number = counter.value
            counter.value += step
        row, count = asked(number, answer, known, until)
        rows.append(row)
        layers, answers = layers + len(row[3]), answers + count
        if layers >= LAYERS_OF_PART:
            flush()
    flush()
    print(f"{multiprocessing.current_process().name}: {answers} answers", flush=True)


def joined(parts: Path, out: Path) -> list[str]:
    """Joins the parts, which are streams of xz, to few files; returns the names of parts that are left out."""
    files: list[bytearray] = [bytearray() for _ in range(MAX_FILES)]
    left = []
    for path in sorted(parts.glob("*.xz"), key=lambda path: path.name.split(".")[-2:]):
        data = path.read_bytes()
        smallest = min(files, key=len)
        if len(smallest) + len(data) > MAX_FILE_BYTES:
            left.append(path.name)
        else:
            smallest += data
    for number, data in enumerate(files):
        if data:
            (out / f"plans-{number}.jsonl.xz").write_bytes(data)
    return left


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=260)
    parser.add_argument("--jobs", type=int, default=16)
    parser.add_argument("--gpu", default="H200", help="an H100 has as many processors, and counts as one")
    parser.add_argument("--first", type=int, default=0, help="the number of the first group")
    parser.add_argument("--step", type=int, default=1, help="2: only groups with even numbers, or with odd ones")
    wanted = parser.parse_args()
    find_gpu(wanted.gpu)
    wanted.out.mkdir(parents=True, exist_ok=True)
    import torch  # its libraries are those that are asked

    started = time.time()
    until = started + wanted.seconds
    context = multiprocessing.get_context("fork")
    counter = context.Value("q", wanted.first)
    with tempfile.TemporaryDirectory() as folder:
        parts, running, number, failures = Path(folder), [], 0, 0
        while time.time() < until or running:
            running = [each for each in running if each.is_alive() or (failures := failures + bool(each.exitcode)) < 0]
            while len(running) < wanted.jobs and time.time() < until - 5 and failures < 4 * wanted.jobs:
                # A worker that a crash of the library ended is replaced.
                running.append(
                    context.Process(
                        target=work, args=(parts, wanted.gpu, counter, wanted.step, until), name=f"worker{number}"
                    )
                )
                running[-1].start()
                number += 1
            if not running or time.time() > until + 90:
                break
            time.sleep(0.2)
        for each in running:
            each.terminate()
        left = joined(parts, wanted.out)
        devices = [json.loads(path.read_text()) for path in sorted(parts.glob("*.json"))]
    about = {"devices": devices[:1], "torch": torch.__version__, "groups": [wanted.first, counter.value], "failures": failures, "left_out": left,
             "seconds": round(time.time() - started, 1)}  # fmt: skip
    (wanted.out / "about.json").write_text(json.dumps(about, indent=1) + "\n")
    print(json.dumps(about), file=sys.stderr)
    return 0 if devices else 1


if __name__ == "__main__":
    sys.exit(main())
