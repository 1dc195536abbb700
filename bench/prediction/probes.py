"""Calls of single operators, in groups; kernels.py runs and measures them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from probing import BF16, F16, F32, Probe, both, real
from torch import Tensor, nn
from torch.nn import functional


def products() -> Iterator[Probe]:
    for dtype, (m, k, n) in itertools.product(
        (F32, BF16, F16), ((64, 64, 64), (1024, 768, 3072), (8192, 1024, 32000), (1, 4096, 4096))
    ):
        name = f"{dtype} {m}x{k}x{n}"
        a, b = real(m, k, dtype=dtype), real(k, n, dtype=dtype)
        yield f"mm {name}", both(torch.mm, a, b)
        weight, bias = real(n, k, dtype=dtype), real(n, dtype=dtype)
        yield f"linear {name}", both(functional.linear, a, weight, bias)
        yield f"linear without bias {name}", both(functional.linear, a, weight)
        yield f"linear 3d {name}", both(functional.linear, real(2, m, k, dtype=dtype), weight, bias)
    for dtype in (F32, BF16):
        a, b = real(16, 256, 128, dtype=dtype), real(16, 128, 256, dtype=dtype)
        yield f"bmm {dtype}", both(torch.bmm, a, b)
        yield f"baddbmm {dtype}", both(torch.baddbmm, real(16, 256, 256, dtype=dtype), a, b)
        yield f"einsum {dtype}", both(lambda x, y: torch.einsum("bij,bjk->ik", x, y), a, b)
        yield (
            f"einsum permuted {dtype}",
            both(lambda x, y: torch.einsum("bij,bkj->bik", x, y), a, real(16, 64, 128, dtype=dtype)),
        )
        yield f"matmul broadcast {dtype}", both(torch.matmul, a, real(128, 64, dtype=dtype))
        yield f"mv {dtype}", both(torch.mv, real(512, 256, dtype=dtype), real(256, dtype=dtype))
    side = torch.cuda.Stream() if torch.cuda.is_available() else None

    def elsewhere() -> None:
        with torch.cuda.stream(side):
            torch.mm(real(64, 64), real(64, 64))

    if side:
        yield "mm on a second stream", elsewhere


def convolution(
    dims: int, *, dtypes: tuple[torch.dtype, ...] = (F32, BF16), last: bool = False, **options: bool
) -> Iterator[Probe]:
    plain = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}[dims]
    turned = {1: functional.conv_transpose1d, 2: functional.conv_transpose2d, 3: functional.conv_transpose3d}[dims]
    # Batch, channels before and after, size, kernel, stride, groups.
    shapes = {
        1: ((16, 64, 128, 4096, 3, 1, 1), (4, 1, 512, 80000, 10, 5, 1), (4, 768, 768, 249, 128, 1, 16), (8, 256, 256, 2000, 31, 1, 256)),
        2: (
            (16, 3, 64, 224, 7, 2, 1), (16, 64, 64, 56, 3, 1, 1), (16, 64, 256, 56, 1, 1, 1), (16, 256, 512, 28, 1, 2, 1),
            (16, 512, 512, 7, 3, 1, 1), (48, 128, 128, 28, 3, 1, 1), (4, 64, 64, 256, 3, 1, 1), (4, 1024, 512, 32, 3, 1, 1),
            (32, 96, 96, 56, 7, 1, 96), (32, 240, 240, 14, 5, 1, 240), (16, 128, 256, 28, 3, 1, 32), (16, 3, 768, 224, 16, 16, 1),
            (8, 256, 256, 64, 3, 1, 1), (8, 384, 384, 17, 3, 1, 1), (1, 64, 64, 56, 3, 1, 1), (8, 2048, 256, 40, 3, 1, 1),
        ),
        3: ((4, 3, 64, 56, 3, 1, 1), (4, 64, 64, 28, 3, 1, 1), (2, 128, 256, 14, 3, 2, 1), (2, 32, 32, 28, 3, 1, 32)),
    }[dims]  # fmt: skip
    for (n, before, after, size, kernel, stride, groups), dtype in itertools.product(shapes, dtypes):
        name = f"conv{dims}d {dtype} {n}x{before}->{after} {size} k{kernel} s{stride} g{groups}"
        x = real(n, before, *(size,) * dims, dtype=dtype)
        weight, bias = real(after, before // groups, *(kernel,) * dims, dtype=dtype), real(after, dtype=dtype)
        if last:
            memory = torch.channels_last if dims == 2 else torch.channels_last_3d
            x, weight = (value.detach().to(memory_format=memory).requires_grad_() for value in (x, weight))
        padding = 0 if kernel == stride else kernel // 2
        call = both(lambda x, w, b, s=stride, p=padding, g=groups: plain(x, w, b, s, p, groups=g), x, weight, bias)
        yield name, with_flags(call, **options)
        if before == after and groups == 1:
            call = both(lambda x, w, b: turned(x, w, b, stride=2, padding=1), x, weight, bias)
            yield f"transposed {name}", with_flags(call, **options)
        del x, weight


def with_flags(call: Callable[[], None], *, benchmark: bool = False, tf32: bool = True) -> Callable[[], None]:
    def run() -> None:
        with torch.backends.cudnn.flags(enabled=True, benchmark=benchmark, deterministic=False, allow_tf32=tf32):
            call()

    return run


def normalizations() -> Iterator[Probe]:
    for dtype in (F32, BF16):
        for shape in ((16, 64, 56, 56), (48, 256, 28, 28), (4, 1024, 7, 7), (4, 64, 256, 256), (4, 32, 8, 28, 28)):
            x, channels = real(*shape, dtype=dtype), shape[1]
            weight, bias = real(channels), real(channels)
            mean, variance = torch.zeros(channels), torch.ones(channels)
            name = f"{dtype} {shape}"
            yield (
                f"batch_norm {name}",
                both(lambda x, w, b, m=mean, v=variance: functional.batch_norm(x, m, v, w, b, True), x, weight, bias),
            )
            yield (
                f"batch_norm without cuDNN {name}",
                without_cudnn(
                    both(
                        lambda x, w, b, m=mean, v=variance: functional.batch_norm(x, m, v, w, b, True), x, weight, bias
                    )
                ),
            )
            yield (
                f"batch_norm eval {name}",
                both(lambda x, w, b, m=mean, v=variance: functional.batch_norm(x, m, v, w, b), x, weight, bias),
            )
            if x.dim() == 4:
                last = x.detach().to(memory_format=torch.channels_last).requires_grad_()
                yield (
                    f"batch_norm last {name}",
                    both(
                        lambda x, w, b, m=mean, v=variance: functional.batch_norm(x, m, v, w, b, True),
                        last,
                        weight,
                        bias,
                    ),
                )
                inner = [value.detach().to(dtype).requires_grad_() for value in (weight, bias)]
                yield f"group_norm last {name}", both(lambda x, w, b: functional.group_norm(x, 32, w, b), last, *inner)
            inner = [value.detach().to(dtype).requires_grad_() for value in (weight, bias)]
            yield f"group_norm {name}", both(lambda x, w, b: functional.group_norm(x, 32, w, b), x, *inner)
            yield f"group_norm plain {name}", both(lambda x: functional.group_norm(x, 4), x)
            yield f"instance_norm {name}", both(functional.instance_norm, x)
        for shape in (
            (16, 197, 768),
            (4, 1024, 1024),
            (65536, 96),
            (100352, 192),
            (8, 64),
            (2, 1024, 4096),
            (262144, 32),
        ):
            x, weight, bias = real(*shape, dtype=dtype), real(shape[-1], dtype=dtype), real(shape[-1], dtype=dtype)
            name = f"{dtype} {shape}"
            yield f"layer_norm {name}", both(lambda x, w, b: functional.layer_norm(x, w.shape, w, b), x, weight, bias)
            yield f"layer_norm plain {name}", both(lambda x, n=shape[-1]: functional.layer_norm(x, (n,)), x)
            yield f"rms_norm {name}", both(lambda x, w: functional.rms_norm(x, w.shape, w), x, weight)


def without_cudnn(call: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        with torch.backends.cudnn.flags(enabled=False):
            call()

    return run


def losses() -> Iterator[Probe]:
    for dtype, (rows, classes) in itertools.product(
        (F32, BF16), ((64, 1000), (4096, 50257), (4095, 32000), (8, 151936), (100000, 40))
    ):
        x, labels, name = (
            real(rows, classes, dtype=dtype),
            torch.randint(0, classes, (rows,)),
            f"{dtype} {rows}x{classes}",
        )
        yield f"softmax {name}", both(lambda x: x.softmax(-1), x)
        yield f"softmax to float {name}", both(lambda x: torch.softmax(x, -1, dtype=F32), x)
        yield f"log_softmax {name}", both(lambda x: x.log_softmax(-1), x)
        yield f"softmax over rows {name}", both(lambda x: x.softmax(0), x)
        yield f"cross_entropy {name}", both(lambda x, y=labels: functional.cross_entropy(x, y), x)
        yield (
            f"cross_entropy smoothed {name}",
            both(lambda x, y=labels: functional.cross_entropy(x, y, label_smoothing=0.1), x),
        )
        yield (
            f"cross_entropy each {name}",
            both(lambda x, y=labels: functional.cross_entropy(x, y, reduction="none"), x),
        )
    for dtype in (F32, BF16):
        x, y = real(4, 21, 128, 128, dtype=dtype), torch.randint(0, 21, (4, 128, 128))
        yield f"cross_entropy of images {dtype}", both(lambda x, y=y: functional.cross_entropy(x, y), x)
        a, b = real(512, 4096, dtype=dtype), real(512, 4096, dtype=dtype, grad=False)
        for function in (
            functional.mse_loss,
            functional.smooth_l1_loss,
            functional.l1_loss,
            functional.binary_cross_entropy_with_logits,
        ):
            yield f"{function.__name__} {dtype}", both(lambda a, b=b, f=function: f(a, b.sigmoid()), a)
        yield (
            f"kl_div {dtype}",
            both(lambda a, b=b: functional.kl_div(a.log_softmax(-1), b.softmax(-1), reduction="batchmean"), a),
        )
    for length in (100, 400):
        scores, labels = real(length, 8, 64), torch.randint(1, 64, (8, 20))
        sizes = torch.full((8,), length), torch.full((8,), 20)
        yield (
            f"ctc_loss {length}",
            both(lambda x, y=labels, s=sizes: functional.ctc_loss(x.log_softmax(-1), y, *s), scores),
        )


def attention() -> Iterator[Probe]:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    backends = {
        "flash": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION,
        "cudnn": SDPBackend.CUDNN_ATTENTION, "math": SDPBackend.MATH,
    }  # fmt: skip
    # Batch, heads, length of queries and keys, width of a head, heads of keys.
    shapes = ((4, 12, 1024, 1024, 64, 12), (16, 12, 197, 197, 64, 12), (2, 16, 1024, 1024, 128, 4), (8, 8, 128, 512, 64, 8),
              (8, 4, 1024, 1024, 32, 4), (2, 8, 333, 333, 80, 8), (1, 8, 2048, 2048, 256, 8), (16, 16, 49, 49, 32, 16))  # fmt: skip
    for dtype, (n, heads, length, keys, width, key_heads) in itertools.product((F32, BF16, F16), shapes):
        q = real(n, heads, length, width, dtype=dtype)
        k, v = (real(n, key_heads, keys, width, dtype=dtype) for _ in range(2))
        mask = torch.randn(n, 1, length, keys, dtype=dtype)
        flags = torch.ones(n, 1, length, keys, dtype=torch.bool)
        grouped = heads != key_heads
        kinds: dict[str, dict[str, Any]] = {
            "plain": {}, "causal": {"is_causal": True}, "dropout": {"dropout_p": 0.1}, "mask": {"attn_mask": mask}, "bool mask": {"attn_mask": flags},
        }  # fmt: skip
        for kind, options in kinds.items():
            name = f"{kind} {dtype} {n}x{heads}/{key_heads}x{length}/{keys}x{width}"
            call = both(
                lambda q, k, v, o=options, g=grouped: functional.scaled_dot_product_attention(
                    q, k, v, enable_gqa=g, **o
                ),
                q,
                k,
                v,
            )
            yield f"attention default {name}", call
            for backend, which in backends.items():

                def run(call: Callable[[], None] = call, which: Any = which) -> None:
                    with sdpa_kernel(which):
                        call()

                yield f"attention {backend} {name}", run
        swapped = [value.detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_() for value in (q, k, v)]
        if not grouped:
            yield (
                f"attention transposed {dtype} {n}x{heads}x{length}x{width}",
                both(functional.scaled_dot_product_attention, *swapped),
            )


def recurrent() -> Iterator[Probe]:
    for dtype, (kind, layers, width, both_ways, dropout) in itertools.product(
        (F32, BF16),
        (
            (nn.LSTM, 1, 256, False, 0.0),
            (nn.LSTM, 3, 1024, False, 0.2),
            (nn.GRU, 4, 768, True, 0.0),
            (nn.RNN, 2, 512, False, 0.0),
        ),
    ):
        for n, length in ((16, 64), (64, 128)):
            model = kind(width, width, layers, bidirectional=both_ways, dropout=dropout, batch_first=True).to(dtype)
            x = real(n, length, width, dtype=dtype)
            name = f"{kind.__name__} {dtype} {layers}x{width} {n}x{length}"
            yield name, both(lambda x, m=model: m(x)[0], x)

            def cast(x: Tensor = x, model: nn.Module = model) -> None:
                with torch.autocast(x.device.type, F16 if x.dtype is F32 else x.dtype):
                    model(x)[0].float().sum().backward()

            yield f"autocast {name}", cast
            yield f"flatten {name}", lambda m=model: m.flatten_parameters()
    cell = nn.LSTMCell(256, 256)
    yield "LSTMCell", both(lambda x, m=cell: m(x)[0], real(64, 256))


def _convolutions() -> dict[str, Callable[[], Iterator[Probe]]]:
    groups: dict[str, Callable[[], Iterator[Probe]]] = {}
    kinds: dict[str, dict[str, Any]] = {
        "": {"dtypes": (F32, BF16, F16)}, "_benchmark": {"benchmark": True}, "_ieee": {"tf32": False, "dtypes": (F32,)}, "_last": {"last": True},
    }  # fmt: skip
    for dims in (1, 2, 3):
        for name, options in kinds.items():
            if not (dims == 1 and name == "_last"):
                groups[f"conv{dims}d{name}"] = lambda d=dims, o=options: convolution(d, **o)
    return groups


def _groups() -> dict[str, Callable[[], Iterator[Probe]]]:
    import probes_layers
    import probes_more
    import probes_networks
    import probes_sampled

    found = {function.__name__: function for function in (products, normalizations, losses, attention, recurrent)}
    return (
        _convolutions()
        | found
        | probes_more.GROUPS
        | probes_sampled.GROUPS
        | probes_networks.GROUPS
        | probes_layers.GROUPS
    )


GROUPS = _groups()
