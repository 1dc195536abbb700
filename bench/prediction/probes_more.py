"""Probes of indexing, reductions, optimizers and everything else that is neither a product, a convolution nor attention."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import torch
from probing import BF16, F16, F32, Probe, both, real
from torch import Tensor, nn
from torch.nn import functional


def embeddings() -> Iterator[Probe]:
    for dtype, (rows, width), count in itertools.product(
        (F32, BF16), ((32000, 1024), (200000, 64), (100, 32)), (256, 3072, 4096, 65536)
    ):
        weight, indices, name = (
            real(rows, width, dtype=dtype),
            torch.randint(0, rows, (count,)),
            f"{dtype} {rows}x{width} {count}",
        )
        yield f"embedding {name}", both(lambda w, i=indices: functional.embedding(i, w), weight)
        yield f"embedding padded {name}", both(lambda w, i=indices: functional.embedding(i, w, padding_idx=0), weight)
        yield (
            f"embedding scaled {name}",
            both(lambda w, i=indices: functional.embedding(i, w, scale_grad_by_freq=True), weight),
        )
        offsets = torch.arange(0, count, 4)
        for mode in ("sum", "mean", "max"):
            yield (
                f"embedding_bag {mode} {name}",
                both(lambda w, i=indices, o=offsets, m=mode: functional.embedding_bag(i, w, o, mode=m), weight),
            )

        def sparse(weight: Tensor = weight, indices: Tensor = indices) -> None:
            functional.embedding(indices, weight, sparse=True).sum().backward()
            weight.grad = None

        yield f"embedding sparse {name}", sparse


def indexing() -> Iterator[Probe]:
    for dtype, (rows, width, count) in itertools.product(
        (F32, BF16), ((10000, 256, 50000), (1000, 64, 500), (200000, 128, 600000))
    ):
        x, index, name = (
            real(rows, width, dtype=dtype),
            torch.randint(0, rows, (count,)),
            f"{dtype} {rows}x{width} {count}",
        )
        source = real(count, width, dtype=dtype)
        wide = index[:, None].expand(-1, width)
        yield f"index {name}", both(lambda x, i=index: x[i], x)
        yield f"index_select {name}", both(lambda x, i=index: x.index_select(0, i), x)
        yield f"gather {name}", both(lambda x, i=wide: x.gather(0, i), x)
        yield f"index_add {name}", both(lambda x, s, i=index: x.index_add(0, i, s), x, source)
        yield f"scatter_add {name}", both(lambda x, s, i=wide: x.scatter_add(0, i, s), x, source)
        yield f"scatter_reduce {name}", both(lambda x, s, i=wide: x.scatter_reduce(0, i, s, "amax"), x, source)
        yield f"index_put {name}", lambda x=x, s=source, i=index: x.detach().index_put((i,), s.detach())
        yield (
            f"index_put accumulate {name}",
            lambda x=x, s=source, i=index: x.detach().index_put((i,), s.detach(), accumulate=True),
        )
        flags = torch.rand(rows) < 0.5
        yield f"masked rows {name}", both(lambda x, f=flags: x[f], x)
        yield f"masked_fill {name}", both(lambda x, f=flags: x.masked_fill(f[:, None], 0.0), x)
        yield f"masked_select {name}", lambda x=x, f=flags: x.detach().masked_select(f[:, None])
        yield f"nonzero {name}", lambda x=x: (x > 0).nonzero()
        yield f"where {name}", both(lambda x: torch.where(x > 0, x, 0.1 * x), x)
        yield f"repeat_interleave {name}", both(lambda x: x.repeat_interleave(3, 0), x)
        yield f"roll {name}", both(lambda x: x.roll(3, 0), x)
        yield f"index 2d {name}", both(lambda x, i=index, w=width: x[i, i % w], x)
        yield f"one_hot {name}", lambda i=index: functional.one_hot(i[:500] % 80, 80)


def sorting() -> Iterator[Probe]:
    for dtype, shape in itertools.product(
        (F32, BF16), ((64, 1000), (4096, 64), (16, 100000), (1000000,), (8, 32768), (1, 3000))
    ):
        x, name = real(*shape, dtype=dtype), f"{dtype} {shape}"
        yield f"sort {name}", both(lambda x: x.sort(-1).values, x)
        yield f"sort stable {name}", lambda x=x: x.detach().sort(-1, stable=True)
        yield f"argsort {name}", lambda x=x: x.detach().argsort(-1)
        for k in (2, 64, 1000):
            if k <= shape[-1]:
                yield f"topk {k} {name}", both(lambda x, k=k: x.topk(k, -1).values, x)
        yield f"cumsum {name}", both(lambda x: x.cumsum(-1), x)
        yield f"cumsum over rows {name}", both(lambda x: x.cumsum(0), x)
        yield f"cumprod {name}", lambda x=x: x.detach().cumprod(-1)
        yield f"kthvalue {name}", lambda x=x: x.detach().kthvalue(min(5, x.shape[-1]), -1)
        yield f"median {name}", lambda x=x: x.detach().median()
        yield f"argmax {name}", lambda x=x: x.detach().argmax(-1)
        yield f"max all {name}", both(lambda x: x.max(), x)
        whole = torch.randint(0, 1000, shape)
        yield f"unique {name}", lambda w=whole: w.unique(return_inverse=True, return_counts=True)
        yield f"bincount {name}", lambda w=whole: w.flatten().bincount(minlength=1000)
        yield f"searchsorted {name}", lambda w=whole: torch.searchsorted(w.flatten().sort().values, w)
        yield f"sort whole {name}", lambda w=whole: w.sort(-1)
        if len(shape) == 2:
            yield f"multinomial {name}", lambda x=x: x.detach().float().softmax(-1).multinomial(1)
            yield (
                f"multinomial replaced {name}",
                lambda x=x: x.detach().float().softmax(-1).multinomial(4, replacement=True),
            )
    yield "randperm small", lambda: torch.randperm(1000)
    yield "randperm", lambda: torch.randperm(1000000)


def reductions() -> Iterator[Probe]:
    for dtype, shape in itertools.product(
        (F32, BF16), ((64, 64), (4096, 4096), (16384, 8192), (2, 50_000_000), (8, 512, 28, 28), (100_000, 16))
    ):
        x, name = real(*shape, dtype=dtype), f"{dtype} {shape}"
        for function in (
            torch.sum,
            torch.mean,
            torch.var,
            torch.std,
            torch.norm,
            torch.logsumexp,
            torch.amax,
            torch.any,
            torch.argmax,
        ):
            kind = function.__name__
            for dim in (None, 0, -1):
                if dim is None and function in (torch.logsumexp,):
                    continue
                options = {} if dim is None else {"dim": dim}
                plain = x.detach() if kind not in ("sum", "norm", "logsumexp") else x
                call = (lambda x, f=function, o=options: f(x, **o)) if plain is x else None
                yield (
                    f"{kind} {dim} {name}",
                    both(call, x) if call else (lambda x=plain, f=function, o=options: f(x, **o)),
                )
        yield f"var_mean {name}", lambda x=x: torch.var_mean(x.detach(), -1)
        yield f"isfinite all {name}", lambda x=x: x.detach().isfinite().all()
        yield (
            f"bias gradient {name}",
            both(lambda x, b: x + b, x.detach(), real(shape[-1], dtype=dtype)) if x.dim() == 2 else (lambda: None),
        )


def pointwise() -> Iterator[Probe]:
    for dtype, shape in itertools.product((F32, BF16), ((4096, 4096), (16, 64, 56, 56))):
        x, y, name = real(*shape, dtype=dtype), real(*shape, dtype=dtype), f"{dtype} {shape}"
        for function in (functional.relu, functional.gelu, functional.silu, functional.tanh, functional.sigmoid, functional.softplus,
                         functional.hardswish, functional.leaky_relu, functional.elu, functional.mish, functional.dropout):  # fmt: skip
            yield f"{function.__name__} {name}", both(lambda x, f=function: f(x), x)
        yield f"glu {name}", both(lambda x: functional.glu(x, 1), x)
        yield f"add {name}", both(torch.add, x, y)
        yield f"broadcast multiply {name}", both(torch.mul, x, real(*shape[:1], *(1,) * (len(shape) - 1), dtype=dtype))
        yield f"mixed types {name}", both(lambda x, y: x * y.float(), x, y)
        yield f"cast {name}", both(lambda x: x.to(F16), x)
        yield f"transpose copy {name}", both(lambda x: x.transpose(0, 1).contiguous(), x)
        yield (
            f"channels_last {name}",
            (lambda x=x: x.detach().to(memory_format=torch.channels_last)) if x.dim() == 4 else (lambda: None),
        )
        yield f"cat {name}", both(lambda x, y: torch.cat([x, y, x], 1), x, y)
        yield f"cat of many {name}", lambda x=x: torch.cat([*x.detach().unbind(0)] * 4, 0)
        yield f"stack {name}", both(lambda x, y: torch.stack([x, y], 1), x, y)
        yield f"split {name}", both(lambda x: torch.cat(x.split(16, 1), 1), x)
        yield f"pad {name}", both(lambda x: functional.pad(x, (1, 1)), x)
        yield f"pow {name}", both(lambda x: x.abs().pow(1.5), x)
        yield f"addcmul {name}", both(lambda x, y: torch.addcmul(x, x, y), x, y)
        yield f"to and from the host {name}", lambda x=x: x.detach().cpu().to(x.device)
        yield f"copy to a view {name}", lambda x=x, y=y: x.detach().transpose(0, 1).copy_(y.detach().transpose(0, 1))
        yield (
            f"copy between types {name}",
            lambda x=x, y=y: x.detach().transpose(0, 1).copy_(y.detach().to(F16).transpose(0, 1)),
        )
        yield f"tril {name}", lambda x=x: x.detach().tril()
        yield (
            f"cdist {name}",
            both(
                torch.cdist,
                x.detach()[:256].flatten(1)[:, :512].float().requires_grad_(),
                y.detach()[:256].flatten(1)[:, :512].float().requires_grad_(),
            ),
        )
        yield f"bernoulli {name}", lambda x=x: torch.bernoulli(x.detach().sigmoid())
        yield f"prelu {name}", both(functional.prelu, x, real(1, dtype=dtype))
        yield f"normalize {name}", both(lambda x: functional.normalize(x, dim=-1), x)
        yield f"cosine_similarity {name}", both(lambda x, y: functional.cosine_similarity(x, y, -1), x, y)


def images() -> Iterator[Probe]:
    for dtype, shape, last in itertools.product(
        (F32, BF16), ((16, 64, 112, 112), (8, 256, 32, 32), (4, 2048, 7, 7)), (False, True)
    ):
        x = real(*shape, dtype=dtype, grad=False)
        x = (x.to(memory_format=torch.channels_last) if last else x).requires_grad_()
        name = f"{dtype} {shape}{' last' if last else ''}"
        yield f"max_pool2d {name}", both(lambda x: functional.max_pool2d(x, 3, 2, 1), x)
        yield f"avg_pool2d {name}", both(lambda x: functional.avg_pool2d(x, 2), x)
        yield f"adaptive_avg_pool2d {name}", both(lambda x: functional.adaptive_avg_pool2d(x, 1), x)
        yield f"adaptive_avg_pool2d 6 {name}", both(lambda x: functional.adaptive_avg_pool2d(x, 6), x)
        yield f"adaptive_max_pool2d {name}", both(lambda x: functional.adaptive_max_pool2d(x, 3), x)
        for mode in ("nearest", "bilinear", "bicubic"):
            yield (
                f"interpolate {mode} {name}",
                both(lambda x, m=mode: functional.interpolate(x, scale_factor=2, mode=m), x),
            )
        grid = (torch.rand(shape[0], 20, 20, 2) * 2 - 1).to(dtype)
        yield f"grid_sample {name}", both(lambda x, g=grid: functional.grid_sample(x, g, align_corners=False), x)
        yield f"pixel_shuffle {name}", both(lambda x: functional.pixel_shuffle(x, 2), x)
        yield f"unfold {name}", both(lambda x: functional.unfold(x, 3, padding=1), x)
        yield f"reflect {name}", both(lambda x: functional.pad(x, (1, 1, 1, 1), "reflect"), x)
        yield f"dropout2d {name}", both(functional.dropout2d, x)
        yield f"local_response_norm {name}", both(lambda x: functional.local_response_norm(x, 5), x)
    for dtype in (F32, BF16):
        yield f"max_pool1d {dtype}", both(lambda x: functional.max_pool1d(x, 2), real(8, 64, 4000, dtype=dtype))
        yield f"max_pool3d {dtype}", both(lambda x: functional.max_pool3d(x, 2), real(4, 64, 16, 28, 28, dtype=dtype))
        yield f"avg_pool3d {dtype}", both(lambda x: functional.avg_pool3d(x, 2), real(4, 64, 16, 28, 28, dtype=dtype))


def _parameters(dtype: torch.dtype) -> list[Tensor]:
    shapes = [(32000, 512), *[(1536, 512), (1536,), (512, 512), (512,), (2048, 512), (2048,)] * 6]
    found = [real(*shape, dtype=dtype) for shape in shapes]
    for value in found:
        value.grad = torch.randn_like(value)
    return found


def optimizers() -> Iterator[Probe]:
    kinds: dict[str, Callable[..., torch.optim.Optimizer]] = {
        "SGD": lambda p, **o: torch.optim.SGD(p, 1e-3, **o),
        "SGD momentum": lambda p, **o: torch.optim.SGD(p, 1e-3, momentum=0.9, weight_decay=1e-4, **o),
        "Adam": lambda p, **o: torch.optim.Adam(p, 1e-3, **o),
        "Adam decayed": lambda p, **o: torch.optim.Adam(p, 1e-3, weight_decay=0.1, **o),
        "AdamW": lambda p, **o: torch.optim.AdamW(p, 1e-3, **o),
        "AdamW amsgrad": lambda p, **o: torch.optim.AdamW(p, 1e-3, amsgrad=True, **o),
        "Adagrad": lambda p, **o: torch.optim.Adagrad(p, 1e-3, **o),
        "RMSprop": lambda p, **o: torch.optim.RMSprop(p, 1e-3, **o),
        "Adafactor": lambda p, **o: torch.optim.Adafactor(p, 1e-3, **o),
        "NAdam": lambda p, **o: torch.optim.NAdam(p, 1e-3, **o),
        "Rprop": lambda p, **o: torch.optim.Rprop(p, 1e-3, **o),
    }
    for dtype, (name, make), way in itertools.product((F32, BF16), kinds.items(), ("foreach", "fused", "loop")):
        options = {"foreach": {"foreach": True}, "fused": {"fused": True}, "loop": {"foreach": False}}[way]
        try:
            steps = make(_parameters(dtype), **options)
        except (TypeError, RuntimeError):
            continue
        yield f"{name} {way} {dtype}", steps.step
    for dtype in (F32, BF16):
        parameters = _parameters(dtype)
        yield f"clip_grad_norm_ {dtype}", lambda p=parameters: nn.utils.clip_grad_norm_(p, 1.0)
        yield f"clip_grad_norm_ loop {dtype}", lambda p=parameters: nn.utils.clip_grad_norm_(p, 1.0, foreach=False)
        yield f"clip_grad_value_ {dtype}", lambda p=parameters: nn.utils.clip_grad_value_(p, 1.0)
    yield "GradScaler", _scaled
    values = [value.detach() for value in _parameters(F32)]
    yield "EMA", lambda: torch._foreach_lerp_([value.clone() for value in values], values, 0.1)


def _scaled() -> None:
    scaler = torch.amp.GradScaler(init_scale=2.0)
    weight = real(1024, 1024)
    steps = torch.optim.SGD([weight], 1e-3)
    scaler.scale((weight * 2).sum()).backward()
    scaler.unscale_(steps)
    scaler.step(steps)
    scaler.update()


def mathematics() -> Iterator[Probe]:
    for shape in ((64, 1024), (8, 3, 256, 256), (16, 50000), (4, 1000, 1000)):
        x, name = real(*shape), f"{shape}"
        yield f"fft {name}", both(lambda x: torch.fft.fft(x).abs(), x)
        yield f"rfft {name}", both(lambda x: torch.fft.rfft(x).abs(), x)
        yield f"fft2 {name}", both(lambda x: torch.fft.fft2(x).abs(), x)
        yield f"irfft {name}", lambda x=x: torch.fft.irfft(torch.fft.rfft(x.detach()))
    yield (
        "stft",
        both(
            lambda x: torch.stft(x, 400, 160, window=torch.hann_window(400), return_complex=True).abs(), real(8, 80000)
        ),
    )
    for n, size in ((1, 512), (16, 64), (1, 2048)):
        a = real(n, size, size)
        positive = (a.detach() @ a.detach().mT + size * torch.eye(size)).requires_grad_()
        name = f"{n}x{size}"
        yield f"cholesky {name}", both(torch.linalg.cholesky, positive)
        yield f"inv {name}", both(torch.linalg.inv, positive)
        yield f"solve {name}", both(torch.linalg.solve, positive, a)
        yield f"qr {name}", both(lambda a: torch.linalg.qr(a).R, a)
        yield f"svdvals {name}", both(torch.linalg.svdvals, a)
        yield f"svd {name}", lambda a=a: torch.linalg.svd(a.detach(), full_matrices=False)
        yield f"eigh {name}", both(torch.linalg.eigvalsh, positive)
        yield f"det {name}", both(torch.linalg.det, a)
        yield f"matrix_norm {name}", both(lambda a: torch.linalg.matrix_norm(a), a)
        yield f"lstsq {name}", lambda a=a: torch.linalg.lstsq(a.detach(), a.detach())
    sparse = torch.randn(2000, 2000).relu().mul(2).sub(3).relu().to_sparse_coo()
    yield "sparse mm", lambda: torch.sparse.mm(sparse, torch.randn(2000, 128))


GROUPS: dict[str, Callable[[], Iterator[Probe]]] = {
    function.__name__: function
    for function in (embeddings, indexing, sorting, reductions, pointwise, images, optimizers, mathematics)
}
