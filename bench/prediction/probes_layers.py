"""Recurrent layers, grouped products, and linear algebra of random shapes: what cuDNN, cuBLAS, cuSOLVER and cuFFT allocate for them.

Groups with even numbers are for choosing rules, the others for showing how exact the rules are.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator
from typing import Any

import torch
from probing import BF16, F16, F32, Probe, both, real
from torch import Tensor, nn
from torch.nn import functional

WIDTHS = (32, 40, 64, 80, 96, 100, 128, 160, 192, 256, 257, 300, 320, 384, 512, 640, 768, 1000, 1024, 1280, 1536)
LENGTHS = (5, 16, 33, 50, 64, 100, 128, 150, 200, 300, 400)
SEQUENCES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 100, 128)
MAX_STEPS = 10_000


def _backward(out: Tensor, contiguous: bool) -> None:
    """Runs the backward with a gradient in the order of the result, or in that of its shape; they differ if the batch is first."""
    out.backward(torch.ones(out.shape, dtype=out.dtype, device=out.device) if contiguous else torch.ones_like(out))


def _recurrent(choose: random.Random) -> tuple[str, Callable[[], None]]:
    kind = choose.choice((nn.GRU, nn.GRU, nn.LSTM, nn.LSTM, nn.RNN))
    before, hidden = choose.choice(WIDTHS), choose.choice(WIDTHS)
    layers, both_ways, first = choose.choice((1, 1, 2, 3, 4)), choose.random() < 0.5, choose.random() < 0.5
    steps = choose.choice(LENGTHS)
    sequences = choose.choice([n for n in SEQUENCES if n * steps <= MAX_STEPS])
    how = choose.choice(("fp32", "fp32", "fp16", "bf16", "autocast bf16", "autocast bf16", "autocast fp16"))
    dropout = choose.choice((0.0, 0.0, 0.2)) if layers > 1 else 0.0
    bias = choose.random() < 0.85
    projected = hidden // 2 if kind is nn.LSTM and choose.random() < 0.2 else 0
    relu = kind is nn.RNN and choose.random() < 0.5
    turned, contiguous, packed = choose.random() < 0.3, choose.random() < 0.5, choose.random() < 0.15
    trains = choose.random() > 0.1
    name = (
        f"{kind.__name__}{' relu' if relu else ''} {how} {layers}x{before}->{hidden}{f'->{projected}' if projected else ''}"
        f"{' both' if both_ways else ''} {sequences}x{steps}{' first' if first else ''}{f' dropout {dropout}' if dropout else ''}"
        f"{'' if bias else ' no bias'}{' turned' if turned else ''}{' contiguous' if contiguous else ''}{' packed' if packed else ''}"
        f"{'' if trains else ' no gradients'}"
    )

    def run() -> None:
        dtype = {"fp16": F16, "bf16": BF16}.get(how, F32)
        more: dict[str, Any] = {"proj_size": projected} if projected else {}
        more |= {"nonlinearity": "relu"} if relu else {}
        model = kind(
            before, hidden, layers, bias=bias, batch_first=first, dropout=dropout, bidirectional=both_ways, **more
        ).to(dtype)
        shape = (sequences, steps, before) if first else (steps, sequences, before)
        x = real(*shape, dtype=dtype)
        if turned:  # the input of convolutions, whose last dimension is the time
            x = real(sequences, before, steps, dtype=dtype).permute((0, 2, 1) if first else (2, 0, 1))
        if packed:
            lengths = torch.tensor([max(1, steps - i % steps) for i in range(sequences)], device="cpu")
            x = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=first, enforce_sorted=False)
        cast = torch.autocast(next(model.parameters()).device.type, F16 if how.endswith("fp16") else BF16)
        with torch.set_grad_enabled(trains):
            if how.startswith("autocast"):
                with cast:
                    out = model(x)[0]
            else:
                out = model(x)[0]
        if trains:
            _backward(out.data if packed else out, contiguous)

    return name, run


def recurrent(seed: int, count: int) -> Iterator[Probe]:
    choose = random.Random(seed)
    for _ in range(count):
        yield _recurrent(choose)


def grouped(seed: int, count: int) -> Iterator[Probe]:
    """Products of the rows of groups with a matrix for each, as experts have them."""
    choose = random.Random(seed)
    for _ in range(count):
        dtype = choose.choice((F32, BF16, BF16, F16))
        groups, rows = choose.choice((1, 4, 8, 16, 32)), choose.choice((64, 256, 1024, 4096, 8192))
        before, after = choose.choice((64, 256, 512, 1024, 2048)), choose.choice((128, 704, 1024, 3584))
        turned = choose.random() < 0.5
        name = f"grouped_mm {dtype} {groups}: {rows}x{before}->{after}{' transposed' if turned else ''}"

        def run(
            d: Any = dtype, g: int = groups, r: int = rows, b: int = before, a: int = after, t: bool = turned
        ) -> None:
            ends = (torch.arange(1, g + 1) * r // g).to(torch.int32)
            weight = real(g, a, b, dtype=d) if t else real(g, b, a, dtype=d)
            both(
                lambda x, w: functional.grouped_mm(x, w.transpose(-2, -1) if t else w, offs=ends),
                real(r, b, dtype=d),
                weight,
            )()

        yield name, run


FACTORED: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "cholesky": lambda a, _: torch.linalg.cholesky(a),
    "cholesky_solve": lambda a, b: torch.cholesky_solve(b, torch.linalg.cholesky(a)),
    "inv": lambda a, _: torch.linalg.inv(a),
    "solve": lambda a, b: torch.linalg.solve(a, b),
    "solve_triangular": lambda a, b: torch.linalg.solve_triangular(a, b, upper=False),
    "lu": lambda a, _: torch.linalg.lu(a)[2],
    "qr": lambda a, _: torch.linalg.qr(a)[1],
    "svd": lambda a, _: torch.linalg.svd(a, full_matrices=False)[1],
    "svdvals": lambda a, _: torch.linalg.svdvals(a),
    "eigh": lambda a, _: torch.linalg.eigh(a)[0],
    "eigvalsh": lambda a, _: torch.linalg.eigvalsh(a),
    "slogdet": lambda a, _: torch.linalg.slogdet(a)[1],
    "det": lambda a, _: torch.linalg.det(a),
    "lstsq": lambda a, b: torch.linalg.lstsq(a.detach(), b.detach())[0],
    "pinv": lambda a, _: torch.linalg.pinv(a),
    "matrix_norm": lambda a, _: torch.linalg.matrix_norm(a, 2),
    "matrix_exp": lambda a, _: torch.matrix_exp(a),
}


def linear_algebra(seed: int, count: int) -> Iterator[Probe]:
    choose = random.Random(seed)
    for _ in range(count):
        kind = choose.choice([*FACTORED])
        size = choose.choice((4, 16, 32, 33, 64, 100, 128, 256, 500, 512, 1024))
        batch = choose.choice(
            [n for n in (0, 1, 2, 3, 8, 16, 64, 256) if n * size * size <= 1 << 20 and n * size <= 4096]
        )
        dtype, columns = choose.choice((F32, F32, torch.float64)), choose.choice((1, 4, size))
        trains = choose.random() < 0.6
        name = f"{kind} {dtype} {batch}x{size} {columns}{'' if trains else ' no gradients'}"

        def run(
            kind: str = kind, n: int = size, m: int = batch, d: Any = dtype, c: int = columns, g: bool = trains
        ) -> None:
            shape = (m,) if m else ()
            a, b = real(*shape, n, n, dtype=d, grad=False), real(*shape, n, c, dtype=d, grad=False)
            a = (a @ a.mT / n + torch.eye(n, dtype=d)).requires_grad_(g)
            out = FACTORED[kind](a, b)
            if g and out.requires_grad:
                out.backward(torch.ones_like(out))

        yield name, run


TRANSFORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "fft": torch.fft.fft,
    "rfft": torch.fft.rfft,
    "fft2": torch.fft.fft2,
    "rfft2": torch.fft.rfft2,
    "ifft": lambda x: torch.fft.ifft(torch.fft.fft(x)),
    "irfft": lambda x: torch.fft.irfft(torch.fft.rfft(x), n=x.shape[-1]),
    "irfft2": lambda x: torch.fft.irfft2(torch.fft.rfft2(x), s=x.shape[-2:]),
    "rfftn": torch.fft.rfftn,
    "fft over rows": lambda x: torch.fft.fft(x, dim=-2),
    "stft": lambda x: torch.stft(
        x.flatten(0, -2), 64, 16, window=torch.hann_window(64, device=x.device), return_complex=True
    ),
}


def transforms(seed: int, count: int) -> Iterator[Probe]:
    choose = random.Random(seed)
    lengths = (64, 100, 128, 200, 243, 256, 320, 499, 512, 768, 1000, 1009, 1024)
    for _ in range(count):
        kind = choose.choice([*TRANSFORMS])
        shape = (choose.choice((1, 2, 8, 16)), choose.choice((16, 64, 100, 224, 257)), choose.choice(lengths))
        trains = choose.random() < 0.6
        name = f"{kind} {shape}{'' if trains else ' no gradients'}"

        def run(kind: str = kind, shape: tuple[int, ...] = shape, g: bool = trains) -> None:
            out = TRANSFORMS[kind](real(*shape, grad=g))
            if g:
                torch.view_as_real(out).sum().backward() if out.is_complex() else out.sum().backward()

        yield name, run


def alignments(seed: int, count: int) -> Iterator[Probe]:
    """CTC losses; PyTorch takes cuDNN's kernel if the labels are on the CPU, of int32, and short."""
    choose = random.Random(seed)
    for _ in range(count):
        steps, n, classes = (
            choose.choice((50, 100, 400, 1000)),
            choose.choice((1, 4, 16, 33)),
            choose.choice((20, 32, 64, 1000)),
        )
        label = choose.choice((5, 20, 25))
        where, joined, trains = choose.choice(("gpu", "cpu", "cudnn")), choose.random() < 0.5, choose.random() < 0.8
        name = f"ctc_loss {where} {steps}x{n}x{classes} {label}{' joined' if joined else ''}{'' if trains else ' no gradients'}"

        def run(
            t: int = steps,
            n: int = n,
            c: int = classes,
            s: int = label,
            w: str = where,
            j: bool = joined,
            g: bool = trains,
        ) -> None:
            place: dict[str, Any] = {"dtype": torch.int32 if w == "cudnn" else torch.int64}
            place |= {} if w == "gpu" else {"device": "cpu"}
            joined = j or w == "cudnn"
            labels = torch.randint(1, c, (n * s,) if joined else (n, s), **place)
            sizes = torch.full((n,), t, **place), torch.full((n,), s, **place)
            scores = real(t, n, c, grad=g)
            loss = functional.ctc_loss(scores.log_softmax(-1), labels, *sizes)
            if g:
                loss.backward()

        yield name, run


def _groups() -> dict[str, Callable[[], Iterator[Probe]]]:
    found: dict[str, Callable[[], Iterator[Probe]]] = {}
    for half in range(2):
        found[f"sampled_recurrent_{half}"] = functools.partial(recurrent, 400 + half, 260)
        found[f"sampled_grouped_{half}"] = functools.partial(grouped, 500 + half, 50)
        found[f"sampled_linalg_{half}"] = functools.partial(linear_algebra, 600 + half, 200)
        found[f"sampled_fft_{half}"] = functools.partial(transforms, 700 + half, 100)
        found[f"sampled_ctc_{half}"] = functools.partial(alignments, 800 + half, 30)
    return found


GROUPS = _groups()
