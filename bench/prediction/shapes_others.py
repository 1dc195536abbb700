"""Families of networks for volumes, videos, sound, sequences, small images and pairs of images, with random widths, depths, kernels and sizes."""

from __future__ import annotations

from shapes import Rng, Trace
from shapes_images import images


def atari(choose: Rng) -> Trace:
    """Small networks that learn from games."""
    side, width = choose.choice((84, 84, 84, 64, 96, 42)), choose.choice((8, 16, 32, 32, 32, 64))
    net = Trace(choose.choice((1, 3, 4, 4, 4, 12)), (side, side), max_batch=8192)
    if choose.chance(0.5):
        return net.conv(width, 8, 4, 0).conv(2 * width, 4, 2, 0).conv(2 * width, 3, 1, 0)
    for stage in range(3):
        net.conv(width << min(stage, 1)).pool(3, 2, 1).conv(net.channels).conv(net.channels)
    return net


def boards(choose: Rng) -> Trace:
    side, width = choose.choice((8, 8, 9, 13, 15, 19)), choose.width(32, 256)
    net = Trace(choose.choice((2, 3, 17, 18, 19, 119)), (side, side), max_batch=4096)
    return (
        net.conv(width)
        .conv(width)
        .conv(width)
        .conv(choose.choice((1, 2, 32, 73)), 1)
        .at(width)
        .conv(choose.choice((1, 32)), 1)
    )


def digits(choose: Rng) -> Trace:
    """Networks for images of 28 or 32 pixels."""
    side, width = choose.choice((28, 28, 32, 32, 16)), choose.width(4, 64)
    net = Trace(choose.choice((1, 1, 3, 3)), (side, side), max_batch=2048)
    kernel, padding = choose.choice((3, 3, 5)), choose.choice((0, None))
    for stage in range(choose.randint(2, 4)):
        net.conv(width << stage, kernel, choose.choice((1, 1, 2)), padding)
        if choose.chance(0.6):
            net.pool(2)
    return net


def lines(choose: Rng) -> Trace:
    """Lines of text: images that are pooled in height only."""
    net, width = (
        Trace(choose.choice((1, 1, 3)), (choose.choice((32, 32, 48, 64)), choose.side(96, 1024))),
        choose.width(16, 96),
    )
    for stage, stride in enumerate((2, 2, (2, 1), (2, 1))):
        net.conv(width << min(stage, 3)).conv(width << min(stage, 3)).pool(2, stride)
    return net.conv(net.channels, 2, 1, 0)


def spectrograms(choose: Rng) -> Trace:
    """Networks for spectrograms: mel bands and frames."""
    net = Trace(choose.choice((1, 1, 1, 2, 3)), (choose.choice((40, 64, 80, 128, 161, 257, 513)), choose.log(64, 2048)))
    if choose.chance(0.3):
        net.at(1, *net.sizes[::-1])
    width, kernel = choose.width(8, 96), choose.choice((3, 3, 3, 5, (11, 41), (3, 9), (41, 11)))
    stride = choose.choice((1, 2, (2, 1), (2, 2)))
    net.conv(width, kernel, stride).conv(width, choose.choice((kernel, 3)), choose.choice((1, stride)))
    for stage in range(1, choose.randint(1, 4)):
        net.pool(2).conv(width << stage).conv(width << stage)
    return net


def brains(choose: Rng) -> Trace:
    """Signals of many electrodes: a convolution over time, one over electrodes, depthwise ones."""
    electrodes, width = choose.choice((8, 19, 22, 32, 64, 128)), choose.choice((4, 8, 8, 16, 25, 40))
    net = Trace(1, (electrodes, choose.log(128, 4096)), max_batch=1024)
    net.conv(width, (1, choose.choice((10, 25, 64, 65))), 1, choose.choice((0, None)))
    net.conv(2 * width, (electrodes, 1), 1, 0, groups=choose.choice((1, width)))
    return net.conv(2 * width, (1, 16), 1, (0, 8), groups=choose.choice((1, 2 * width))).conv(2 * width, 1)


def speech(choose: Rng) -> Trace:
    """wav2vec's features and positions, and stems of encoders."""
    width = choose.width(64, 512)
    if choose.chance(0.5):
        net = Trace(1, (choose.log(8000, 320000),), max_batch=64)
        net.conv(width, 10, 5, 0)
        for kernel in (3, 3, 2):
            net.conv(width, kernel, 2, 0)
        hidden, groups = choose.choice((256, 512, 768, 1024)), choose.choice((1, 8, 16))
        return net.conv(width, 2, 2, 0).conv(width, 2, 2, 0).at(hidden).conv(hidden, 128, 1, 64, groups=groups)
    net = Trace(choose.choice((40, 80, 80, 128)), (choose.log(200, 3000),), max_batch=128)
    return net.conv(width, 3).conv(width, 3, choose.choice((1, 2))).conv(width, choose.choice((1, 5, 7)))


def tcn(choose: Rng) -> Trace:
    """Causal convolutions: padded at both sides, and cut."""
    length, width, kernel = choose.log(32, 16384), choose.width(8, 512), choose.choice((2, 3, 3, 5, 7, 8))
    net = Trace(choose.width(1, 128), (length,))
    for level in range(choose.randint(2, 8)):
        for _ in range(2):
            net.conv(width, kernel, 1, (kernel - 1) << level, 1 << level).at(width, length)
    return net.conv(choose.width(1, 64), 1)


def wavenet(choose: Rng) -> Trace:
    length, width, skips = choose.log(1000, 64000), choose.width(16, 256), choose.width(16, 512)
    net, kernel = Trace(choose.choice((1, 1, 80, 128, 256)), (length,), max_batch=64), choose.choice((2, 2, 3))
    net.conv(width, choose.choice((1, 2, 3)))
    for level in range(choose.randint(3, 10)):
        outs = choose.choice((width, 2 * width))
        padding = choose.choice((0, (kernel - 1 << level) // 2, kernel - 1 << level))
        net.conv(outs, kernel, 1, padding, 1 << level).at(width, length).conv(width, 1).at(width, length).conv(skips, 1)
        net.at(width, length)
    return net.at(skips, length).conv(skips, 1).conv(choose.choice((1, 2, 30, 256)), 1)


def recognizer(choose: Rng) -> Trace:
    """QuartzNet's and Jasper's blocks: long kernels, in groups for each channel or in one."""
    net, width = Trace(choose.choice((40, 64, 80)), (choose.log(100, 3000),), max_batch=128), choose.width(64, 512)
    is_separable = choose.chance(0.6)
    net.conv(width, choose.choice((11, 33)), 2)
    for _ in range(choose.randint(2, 5)):
        kernel, outs = choose.choice((11, 13, 17, 21, 25, 33, 39, 51, 63, 75)), choose.choice((width, 2 * width))
        if is_separable:
            net.depthwise(kernel).conv(outs, 1)
        else:
            net.conv(outs, kernel)
        net.conv(outs, 1)
    return net.conv(2 * width, choose.choice((1, 29, 87)), 1, None, choose.choice((1, 2))).conv(
        choose.choice((28, 29, 32, 1024)), 1
    )


def conformer(choose: Rng) -> Trace:
    width, frames, bands = choose.width(96, 768), choose.log(100, 3000), choose.choice((40, 80, 80, 128))
    net = Trace(1, (frames, bands), max_batch=128)
    net.conv(width, 3, 2, choose.choice((0, 1))).conv(
        width, choose.choice((3, 5)), 2, choose.choice((0, 1)), groups=choose.choice((1, 1, width))
    )
    net.at(width, net.sizes[0]).conv(2 * width, 1).at(width).depthwise(choose.choice((7, 15, 31, 32))).conv(width, 1)
    return net.at(width, frames // 4).conv(4 * width, choose.choice((1, 3, 9))).conv(width, choose.choice((1, 3)))


def points(choose: Rng) -> Trace:
    """Pointwise convolutions over the points of a cloud, or over their neighbours."""
    count, first = choose.choice((512, 1000, 1024, 2048, 2048, 4096, 2500)), choose.choice((3, 3, 6, 9))
    net = Trace(first, (count,), max_batch=128)
    if choose.chance(0.5):
        for low, high in ((32, 64), (64, 128), (128, 256), (256, 1024)):
            net.conv(choose.width(low, high), 1)
        return (
            net.at(net.channels + 64)
            .conv(choose.width(128, 512), 1)
            .conv(choose.width(64, 256), 1)
            .conv(choose.choice((3, 9, 13, 50)), 1)
        )
    net.at(2 * first, count // choose.choice((1, 1, 2, 4)), choose.choice((16, 20, 32, 40, 64)))
    for low, high in ((32, 64), (32, 128), (64, 256)):
        net.conv(choose.width(low, high), 1)
    return net


def signals(choose: Rng) -> Trace:
    """Residual networks for sequences such as electrocardiograms."""
    net, width = (
        Trace(choose.choice((1, 2, 6, 8, 12, 12)), (choose.log(100, 10000),), max_batch=1024),
        choose.width(8, 128),
    )
    kernel = choose.choice((3, 5, 7, 9, 15, 16, 17))
    net.conv(width, choose.choice((7, 15, 17)), choose.choice((1, 2)))
    for stage in range(choose.randint(2, 5)):
        outs, sizes = min(width << stage, 768), net.sizes
        before = net.channels
        net.conv(outs, 1, 2).at(before, *sizes).conv(outs, kernel, 2).conv(outs, kernel)
    return net


def texts(choose: Rng) -> Trace:
    """Convolutions over words or characters."""
    net, width = (
        Trace(choose.choice((16, 50, 100, 128, 200, 300, 300, 768)), (choose.log(16, 1024),), max_batch=1024),
        choose.width(32, 512),
    )
    first, sizes = net.channels, net.sizes
    for kernel in (2, 3, 4, 5, 7):
        net.at(first, *sizes).conv(width, kernel, 1, choose.choice((0, None)))
    return net.at(width, *sizes).conv(width, 3).conv(2 * width, 3)


def vocoder(choose: Rng) -> Trace:
    """HiFi-GAN: transposed convolutions to sound, dilated ones, and discriminators of periods and scales."""
    width, frames = choose.width(64, 512), choose.log(16, 128)
    net = Trace(choose.choice((80, 80, 128, 192)), (frames,), max_batch=128)
    net.conv(width, 7)
    for stride in choose.choice(((8, 8, 2, 2), (8, 8, 4), (5, 5, 4, 2), (4, 4, 4))):
        net.transposed(max(8, net.channels // 2), 2 * stride, stride, stride // 2, stride % 2)
        for kernel, dilation in ((3, choose.choice((1, 3, 5))), (choose.choice((7, 11)), choose.choice((1, 3, 5)))):
            net.conv(net.channels, kernel, dilation=dilation)
    net.conv(1, 7)
    length, period = net.sizes[0], choose.choice((2, 3, 5, 7, 11))
    for outs in (32, 128, 512, 1024) if choose.chance(0.5) else (16, 64, 256, 512):
        net.at(
            1 if outs in (16, 32) else net.channels,
            *((-(-length // period), period) if outs in (16, 32) else net.sizes),
        )
        net.conv(outs, (5, 1), (3, 1))
    net.conv(1, (3, 1)).at(1, length).conv(128, 15).conv(128, 41, 2, groups=4).conv(256, 41, 2, groups=16)
    return net.conv(1024, 41, 4, groups=16).conv(1024, 5).conv(1, 3)


def separation(choose: Rng) -> Trace:
    """Demucs, codecs and separation of speakers: strided convolutions of waves, and their inverse."""
    net, width, kernel = (
        Trace(choose.choice((1, 1, 2)), (choose.log(8000, 160000),), max_batch=64),
        choose.width(16, 96),
        choose.choice((7, 8, 16)),
    )
    if choose.chance(0.4):
        filters, hidden = choose.choice((256, 512)), choose.choice((64, 128, 256))
        kernel = choose.choice((16, 20, 32, 40))
        net.conv(filters, kernel, kernel // 2, 0).conv(hidden, 1).conv(2 * filters, 1).depthwise(
            3, dilation=choose.choice((1, 4, 16))
        ).conv(hidden, 1)
        return net.at(filters).transposed(1, kernel, kernel // 2)
    strides = choose.choice(((4, 4, 4, 4), (2, 4, 5, 8), (2, 2, 2, 2, 2)))
    for level, stride in enumerate(strides):
        size = kernel if kernel == 8 else 2 * stride
        net.conv(min(width << level, 1024), size, stride, 0).conv(2 * net.channels, 1).at(net.channels // 2).conv(
            net.channels // 2 or 1, 3
        )
        net.conv(min(width << level, 1024), 1)
    for level in range(len(strides) - 1, -1, -1):
        size = kernel if kernel == 8 else 2 * strides[level]
        net.transposed(max(1, min(width << level, 1024) // 2), size, strides[level])
    return net


def volumes(choose: Rng) -> Trace:
    """U-Nets for volumes."""
    side = choose.choice((16, 24, 32, 48, 64, 64, 80, 96, 96, 112, 128, 128, 160))
    depth = side if choose.chance(0.7) else choose.choice((8, 16, 20, 32, 40))
    net, width, levels = (
        Trace(choose.choice((1, 1, 1, 2, 4)), (depth, side, side), max_batch=32),
        choose.width(4, 48),
        choose.randint(2, 5),
    )
    kind, kept = choose.randint(0, 2), []
    for level in range(levels):
        outs = min(width << level, 384)
        stride = 2 if level and kind == 2 else 1
        if level and kind != 2:
            net.pool(2)
        net.conv(outs, choose.choice((3, 3, 3, (1, 3, 3))), stride).conv(outs)
        kept.append((net.channels, net.sizes))
    for channels, sizes in kept[-2::-1]:
        if kind == 1:
            net.grow()
        else:
            net.transposed(channels, 2, 2)
        net.at(net.channels + channels, *sizes).conv(channels).conv(channels)
    return net.conv(choose.choice((1, 2, 3, 4, 5, 14)), 1)


def videos(choose: Rng) -> Trace:
    """Residual networks for videos: cubic kernels, or ones in space and in time."""
    side, frames = choose.choice((56, 64, 96, 112, 112, 128, 160, 224)), choose.choice((4, 8, 8, 16, 16, 32))
    net, width, kind = (
        Trace(choose.choice((3, 3, 3, 1, 2)), (frames, side, side), max_batch=64),
        choose.width(8, 96),
        choose.randint(0, 2),
    )
    net.conv(
        width,
        choose.choice(((3, 7, 7), (1, 7, 7), (5, 7, 7), (3, 3, 3))),
        choose.choice(((1, 2, 2), (1, 2, 2), (2, 2, 2))),
    )
    for stage in range(choose.randint(2, 4)):
        outs, stride = width << stage, 2 if stage else 1
        before, sizes = net.channels, net.sizes
        net.conv(outs, 1, stride).at(before, *sizes)
        if kind == 0:
            net.conv(outs, 3, stride).conv(outs, 3)
        elif kind == 1:
            between = max(1, before * outs * 27 // (before * 9 + 3 * outs))
            net.conv(between, (1, 3, 3), (1, stride, stride)).conv(outs, (3, 1, 1), (stride, 1, 1))
        else:
            net.conv(outs, choose.choice((1, (3, 1, 1)))).conv(outs, (1, 3, 3), (1, stride, stride)).conv(4 * outs, 1)
    return net


def voxels(choose: Rng) -> Trace:
    """Small networks for voxels and scans: classifiers, autoencoders, generators."""
    side, width = choose.choice((16, 24, 28, 32, 32, 48, 64, 91)), choose.width(4, 64)
    net, kernel = Trace(choose.choice((1, 1, 2, 19)), (side,) * 3, max_batch=256), choose.choice((3, 3, 4, 5))
    levels = choose.randint(2, 4)
    for level in range(levels):
        if kernel == 3 and choose.chance(0.6):
            net.conv(width << level).pool(2)
        else:
            net.conv(width << level, kernel, 2, (kernel - 1) // 2)
    for level in range(levels - 2, -1, -1):
        net.transposed(width << level, 4, 2, 1)
    return net.conv(1, 3)


def random_layers(choose: Rng) -> Trace:
    """Layers that belong to no network, of all shapes."""
    rank = choose.choice((1, 2, 2, 2, 2, 3))
    net = Trace(1, (1,) * rank, has_input_gradient=True, max_batch=1024)
    while len(net.layers) < 8:
        high = {1: 60000, 2: 640, 3: 128}[rank]
        sizes = tuple(choose.log(2, high) for _ in range(rank))
        sizes = sizes if choose.chance(0.3) else (sizes[0],) * rank
        groups = choose.choice((2, 3, 4, 8, 16, 32, 64)) if choose.chance(0.12) else 1
        ins, outs = (choose.width(1, 512 if groups > 1 else 2048) for _ in range(2))
        net.at(-(-ins // groups) * groups, *sizes)
        kernel = choose.choice((1, 1, 2, 3, 3, 3, 3, 4, 5, 7, 9, 11))
        kernels = (kernel,) * rank if choose.chance(0.85) else tuple(choose.choice((1, kernel)) for _ in range(rank))
        if choose.chance(0.12) and kernel > 1:
            stride = choose.choice((2, 2, 2, 3, 4))
            net.transposed(
                -(-outs // groups) * groups, kernels, stride, min(choose.choice((0, 1)), kernel // 2), 0, groups
            )
            continue
        stride = choose.choice((1, 1, 1, 2, 2, 3, 4, kernel))
        padding, dilation = (
            choose.choice((0, None, None, None, kernel)),
            choose.choice((2, 3, 4, 8, 16)) if choose.chance(0.08) else 1,
        )
        net.conv(-(-outs // groups) * groups, kernels, stride, padding, dilation, groups)
    return net


def flow(choose: Rng) -> Trace:
    """Optical flow and stereo: two images, large kernels, and correlations."""
    net, width = images(choose, 128, 768, (6, 2, 3)), choose.width(16, 64)
    net.max_batch = 64
    net.conv(width, 7, 2).conv(2 * width, 5, 2).conv(4 * width, choose.choice((3, 5)), 2).conv(4 * width)
    net.at(choose.choice((81, 441, 196, 324)) + width).conv(8 * width).conv(choose.width(64, 256), (1, 5)).conv(
        choose.width(64, 256), (5, 1)
    )
    return net.transposed(2 * width, 4, 2, 1).conv(2, 3).transposed(2, 4, 2, 1)
