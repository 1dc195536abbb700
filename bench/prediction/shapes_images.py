"""Families of networks for images, with random widths, depths, kernels and sizes. Each function traces one network."""

from __future__ import annotations

from itertools import pairwise

from shapes import Rng, Trace


def images(choose: Rng, low: int = 64, high: int = 512, channels: tuple[int, ...] = (3, 3, 3, 3, 1, 4)) -> Trace:
    return Trace(choose.choice(channels), choose.image(low, high))


def stem(choose: Rng, net: Trace, width: int) -> None:
    kind = choose.random()
    if kind < 0.5:
        net.conv(width, 7, 2).pool(3, 2, 1)
    elif kind < 0.65:
        net.conv(width // 2 or 1, 3, 2).conv(width // 2 or 1).conv(width).pool(3, 2, 1)
    elif kind < 0.85:
        net.conv(width, choose.choice((3, 3, 5)), choose.choice((1, 1, 2)))
    else:
        net.conv(width, 4, 4, 0)


def block(
    net: Trace,
    kind: str,
    width: int,
    outs: int,
    stride: int,
    groups: int,
    dilation: int = 1,
    *,
    strides_first: bool = False,
) -> None:
    """A residual block of two or three convolutions, with a projection where shapes change."""
    before, sizes = net.channels, net.sizes
    if stride > 1 or before != outs:
        net.conv(outs, 1, stride).at(before, *sizes)
    if kind == "basic":
        net.conv(outs, 3, stride, dilation=dilation).conv(outs, 3, dilation=dilation)
        return
    net.conv(width, 1, stride if strides_first else 1)
    net.conv(width, 3, 1 if strides_first else stride, dilation=dilation, groups=groups).conv(outs, 1)


def body(choose: Rng, net: Trace, *, dilated: bool = False) -> list[tuple[int, tuple[int, ...]]]:
    """A residual network; returns the shapes after its stages."""
    kind = choose.choice(("basic", "bottleneck", "bottleneck"))
    width, expansion = choose.width(16, 128), choose.choice((4, 4, 4, 2, 1)) if kind == "bottleneck" else 1
    groups = choose.choice((1, 1, 1, 2, 4, 8, 16, 32)) if kind == "bottleneck" else 1
    wide, strides_first, growth = choose.choice((1, 1, 1, 2, 4)), choose.chance(0.2), choose.choice((2, 2, 2, 1.5))
    width = -(-width // groups) * groups
    stem(choose, net, width)
    shapes = []
    stages = choose.randint(2, 4)
    for stage in range(stages):
        outs = int(width * growth**stage) // groups * groups
        stride, dilation = (1 if stage == 0 else 2), 1
        if dilated and stage >= stages - 2:
            stride, dilation = 1, choose.choice((2, 4))
        for number in range(2):
            block(
                net,
                kind,
                outs * wide,
                outs * expansion,
                stride if number == 0 else 1,
                groups,
                dilation,
                strides_first=strides_first,
            )
        shapes.append((net.channels, net.sizes))
    return shapes


def resnet(choose: Rng) -> Trace:
    net = images(choose, 28, 448)
    body(choose, net)
    return net


def vgg(choose: Rng) -> Trace:
    net, width = images(choose, 32, 320), choose.width(8, 96)
    for stage in range(choose.randint(2, 5)):
        for _ in range(choose.randint(1, 3)):
            net.conv(min(width << stage, 768), choose.choice((3, 3, 3, 5)))
        net.pool(2)
    return net


def unet(choose: Rng) -> Trace:
    net, width, levels = images(choose, 64, 640, (3, 3, 1, 4, 6)), choose.width(8, 96), choose.randint(2, 5)
    padding, kind, kernel = choose.choice((None, None, None, 0)), choose.randint(0, 2), choose.choice((3, 3, 3, 5))
    kept = []
    for level in range(levels):
        if level:
            if choose.chance(0.2):
                net.conv(net.channels, 3, 2)
            else:
                net.pool(2)
        for _ in range(2):
            net.conv(width << level, kernel, 1, padding)
        kept.append((net.channels, net.sizes))
    for channels, sizes in kept[-2::-1]:
        before = net.channels
        if kind == 0:
            net.transposed(channels, 2, 2)
        elif kind == 1:
            net.grow().conv(channels, choose.choice((1, 3)))
        else:
            net.grow().at(before)
        net.at(channels + net.channels, *(net.sizes if padding == 0 else sizes))
        net.conv(channels, kernel, 1, padding).conv(channels, kernel, 1, padding)
    return net.conv(choose.choice((1, 2, 3, 4, 10, 19, 21)), 1)


def diffusion(choose: Rng) -> Trace:
    side = choose.choice((8, 16, 24, 28, 32, 32, 48, 64, 64, 96, 128))
    net, width = Trace(choose.choice((1, 3, 3, 4, 4, 8)), (side, side)), choose.width(16, 320)
    first = net.channels
    factors = choose.choice(
        ((1, 2, 2, 2), (1, 2, 4), (1, 2, 3, 4), (1, 2, 4, 4), (1, 1, 2, 2, 4), (1, 2, 4, 8), (1, 2))
    )
    shortcut, attention = choose.choice((1, 1, 3)), choose.chance(0.4)

    def residual(before: int, after: int) -> None:
        net.at(before)
        if before != after:
            net.conv(after, shortcut).at(before)
        net.conv(after).conv(after)

    net.conv(width)
    kept = [width]
    for number, factor in enumerate(factors):
        for _ in range(choose.randint(1, 2)):
            residual(net.channels, width * factor)
            kept.append(net.channels)
        if attention and number:
            net.conv(3 * net.channels, 1).at(net.channels // 3).conv(net.channels, 1)
        if number < len(factors) - 1:
            net.conv(net.channels, choose.choice((3, 3, 4)), 2, 1)
            kept.append(net.channels)
    residual(net.channels, net.channels)
    for number, factor in reversed(list(enumerate(factors))):
        for skip in {kept.pop() for _ in range(min(2, len(kept)))}:
            residual(net.channels + skip, width * factor)
        if number:
            if choose.chance(0.3):
                net.transposed(net.channels, 4, 2, 1)
            else:
                net.grow().conv(net.channels)
    return net.conv(first)


def dcgan(choose: Rng) -> Trace:
    """A generator from noise, and the discriminator of its images."""
    levels, width, channels = choose.randint(2, 6), choose.width(8, 128), choose.choice((1, 3, 3))
    kernel, start = choose.choice((4, 4, 4, 5, 3)), choose.choice((4, 4, 7, 8))
    net = Trace(choose.choice((64, 100, 100, 128, 256, 512)), (1, 1), max_batch=1024)
    net.transposed(width << levels - 1, start, 1)
    for level in range(levels - 2, -1, -1):
        net.transposed(width << level, kernel, 2, (kernel - 1) // 2, kernel % 2)
    if choose.chance(0.6):
        net.transposed(channels, kernel, 2, (kernel - 1) // 2, kernel % 2)
    else:
        net.conv(channels, 3)
    for level in range(levels):
        net.conv(width << level, kernel, 2, (kernel - 1) // 2)
    if min(net.sizes) >= 4:
        net.conv(1, 4, 1, 0)
    return net


def translation(choose: Rng) -> Trace:
    """Images to images: CycleGAN's or pix2pix's generator, and a discriminator of patches."""
    net, width = images(choose, 64, 512, (3, 3, 1, 6)), choose.width(16, 96)
    size, outs = net.sizes, choose.choice((1, 3))
    if choose.chance(0.5):
        net.conv(width, 7).conv(2 * width, 3, 2).conv(4 * width, 3, 2).conv(4 * width, 3, 1, 0)
        net.at(4 * width, *(n + 2 for n in net.sizes)).conv(4 * width, 3, 1)
        net.transposed(2 * width, 3, 2, 1, 1).transposed(width, 3, 2, 1, 1).conv(outs, 7)
    else:
        widths = [width << min(i, 3) for i in range(choose.randint(3, 8))]
        for each in widths:
            net.conv(each, 4, 2, 1)
        for number, each in enumerate([*widths[-2::-1], outs]):
            net.transposed(each, 4, 2, 1).at(each * (2 if number < len(widths) - 1 else 1))
    net.at(choose.choice((3, 6)), *size)
    for level, stride in enumerate((2, 2, choose.choice((1, 2)), 1)):
        net.conv(width << level, 4, stride, 1)
    return net.conv(1, 4, 1, 1)


def styles(choose: Rng) -> Trace:
    """A generator with a style for each image, and a discriminator; weights of their own for each image in some."""
    widths = [choose.width(32, 512)]
    for _ in range(choose.randint(2, 6)):
        widths.append(widths[-1] if choose.chance(0.5) else max(8, widths[-1] // 2))
    net, modulated = Trace(widths[0], (4, 4), max_batch=128, has_input_gradient=True), choose.chance(0.6)
    for number, (before, after) in enumerate(pairwise((widths[0], *widths))):
        if number:
            net.grow()
        net.at(before).conv(after, 3, modulated=modulated).conv(after, 3, modulated=modulated)
        sizes = net.sizes
        net.conv(3, 1, modulated=modulated and choose.chance(0.5)).at(after, *sizes)
    net.at(3).conv(widths[-1], 1)
    for before, after in pairwise(widths[::-1]):
        sizes = net.sizes
        net.conv(before).conv(after, 3, choose.choice((1, 2))).at(before, *sizes).pool(2).conv(after, 1)
    return net


def autoencoder(choose: Rng) -> Trace:
    net, width, levels = images(choose, 28, 512, (3, 3, 1)), choose.width(8, 128), choose.randint(2, 5)
    first, kernel, growth = net.channels, choose.choice((3, 4, 4, 5)), choose.choice((1, 2, 2))
    widths = [min(width * growth**level, 1024) for level in range(levels)]
    for each in widths:
        net.conv(each, kernel, 2, (kernel - 1) // 2)
        if choose.chance(0.3):
            net.conv(each)
    for _ in range(choose.randint(0, 2)):
        net.conv(widths[-1] // 2 or 1).conv(widths[-1], 1)
    code = choose.width(3, 256)
    net.conv(code, choose.choice((1, 3)))
    for each in [*widths[-2::-1], width]:
        if kernel == 4 or choose.chance(0.7):
            net.transposed(each, kernel, 2, (kernel - 1) // 2, kernel % 2)
        else:
            net.grow().conv(each)
    return net.conv(first, choose.choice((1, 3)))


def super_resolution(choose: Rng) -> Trace:
    net, width, factor = (
        Trace(choose.choice((1, 3, 3)), choose.image(24, 256)),
        choose.width(16, 256),
        choose.choice((2, 3, 4)),
    )
    first = net.channels
    kind = choose.randint(0, 3)
    net.max_batch = 128
    if kind == 0:
        return net.grow(factor).conv(width, 9).conv(width // 2 or 1, choose.choice((1, 5))).conv(first, 5)
    net.conv(width, choose.choice((3, 5, 9))).conv(width).conv(width)
    if kind == 1:
        growth = choose.width(8, 64)
        for number in range(4):
            net.at(width + number * growth).conv(growth)
        net.at(width + 4 * growth).conv(width)
    if kind == 2:
        sizes = net.sizes
        net.at(width, 1, 1).conv(max(1, width // 16), 1).conv(width, 1).at(width, *sizes)
    while factor > 1:
        step = 3 if factor == 3 else 2
        net.conv(width * step * step).at(width).grow(step)
        factor //= step
    return net.conv(first, choose.choice((3, 9)))


def segmentation(choose: Rng) -> Trace:
    net, classes = images(choose, 96, 768), choose.choice((1, 2, 11, 19, 21, 21, 32, 59, 150))
    body(choose, net, dilated=choose.chance(0.7))
    before, sizes, width = net.channels, net.sizes, choose.choice((64, 128, 256, 256, 512))
    if choose.chance(0.6):
        for dilation in choose.choice(((6, 12, 18), (12, 24, 36), (3, 6, 9))):
            net.at(before, *sizes).conv(width, 3, dilation=dilation)
        net.at(before, *sizes).conv(width, 1).at(before, 1, 1).conv(width, 1)
        return net.at(5 * width, *sizes).conv(width, choose.choice((1, 3))).conv(width).conv(classes, 1)
    return net.conv(width).conv(classes, 1).grow(2).transposed(classes, 4, 2, 1)


def detection(choose: Rng) -> Trace:
    net = images(choose, 160, 1024, (3,))
    net.max_batch = 64
    shapes = body(choose, net)
    width, classes = choose.width(48, 256), choose.choice((1, 2, 3, 9, 20, 80, 91))
    anchors = choose.choice((1, 1, 3, 9))
    for channels, sizes in shapes[-3:]:
        net.at(channels, *sizes).conv(width, 1).conv(width).conv(width)
        net.conv(classes * anchors, choose.choice((1, 3))).at(width, *sizes).conv(4 * anchors, 3).at(
            width, *sizes
        ).conv(anchors, choose.choice((1, 3)))
    net.at(width, *shapes[-1][1]).conv(width, 3, 2)
    if choose.chance(0.3):
        size = choose.choice((7, 14))
        net.at(width, size, size).conv(width).transposed(width, 2, 2).conv(classes, 1)
    return net


def yolo(choose: Rng) -> Trace:
    net, width = images(choose, 192, 1024, (3,)), choose.width(8, 64)
    net.max_batch, slope = 128, choose.choice((3, 3, 6))
    net.conv(width, slope, choose.choice((1, 2)), slope // 2 - (slope == 6) * 1)
    for level in range(choose.randint(3, 5)):
        outs = width << level + 1
        net.conv(outs, 3, 2).conv(outs // 2, 1).conv(outs // 2, choose.choice((1, 3))).conv(outs, 3).conv(outs, 1)
    for _ in range(3):
        outs, sizes = net.channels, net.sizes
        net.conv(choose.choice((18, 64, 75, 85, 255)), 1).at(outs, *sizes).conv(outs // 2 or 1, 1)
        net.grow().at(net.channels * choose.choice((1, 2))).conv(outs // 2 or 1).conv(outs, choose.choice((1, 3)))
        net.at(outs // 2 or 1)
    return net


def mobile(choose: Rng) -> Trace:
    """Inverted residuals with depthwise convolutions, and squeezing."""
    net, width = images(choose, 64, 384, (3,)), choose.width(8, 48)
    net.conv(width, 3, 2)
    squeeze = choose.choice((0, 0, 4, 16, 24))
    for stage in range(choose.randint(3, 7)):
        outs = max(8, int(width * choose.uniform(1.2, 1.6) ** stage) // 8 * 8) if choose.chance(0.8) else net.channels
        kernel, factor, stride = choose.choice((3, 3, 5, 7)), choose.choice((1, 3, 4, 6, 6)), choose.choice((1, 2))
        net.conv(net.channels * factor, 1).depthwise(kernel, stride)
        if squeeze:
            hidden, sizes = net.channels, net.sizes
            net.at(hidden, 1, 1).conv(max(1, hidden // squeeze), 1).conv(hidden, 1).at(hidden, *sizes)
        net.conv(outs, 1)
    return net.conv(choose.width(256, 1536), 1)


def shuffle(choose: Rng) -> Trace:
    net, width, groups = images(choose, 64, 320, (3,)), choose.width(24, 256), choose.choice((1, 1, 2, 3, 4, 8))
    width = -(-width // (4 * groups)) * 4 * groups
    net.conv(24, 3, 2).pool(3, 2, 1).conv(width, 1)
    for _ in range(choose.randint(2, 3)):
        net.conv(width, 1, groups=groups).depthwise(3, 2).conv(width, 1, groups=groups)
        net.conv(2 * width, 1)
        width *= 2
    return net


def convnext(choose: Rng) -> Trace:
    net, width, patch = images(choose, 96, 384, (3, 3, 1)), choose.width(32, 192), choose.choice((2, 4, 4, 4, 7, 8))
    net.conv(width, patch, patch, 0)
    for stage in range(choose.randint(1, 4)):
        if stage:
            net.conv(2 * net.channels, choose.choice((2, 2, 3)), 2, 0)
        net.depthwise(choose.choice((5, 7, 7, 9)))
        if choose.chance(0.5):
            net.conv(4 * net.channels, 1).conv(net.channels // 4, 1)
    return net


def dense(choose: Rng) -> Trace:
    net, growth, width = images(choose, 32, 320), choose.width(8, 48), choose.width(16, 96)
    stem(choose, net, width)
    for _ in range(choose.randint(2, 4)):
        for _ in range(choose.randint(2, 6)):
            before = net.channels
            if choose.chance(0.7):
                net.conv(4 * growth, 1)
            net.conv(growth).at(before + growth)
        net.conv(net.channels // 2, 1).pool(2)
    return net


def inception(choose: Rng) -> Trace:
    net, width = images(choose, 96, 384), choose.width(8, 64)
    net.conv(width, choose.choice((3, 7)), 2).conv(2 * width).pool(3, 2)
    for _ in range(3):
        before, sizes = net.channels, net.sizes
        long = choose.choice((3, 5, 7))
        for part in ((1,), (1, 5), (1, 3, 3), (1, (1, long), (long, 1)), (1,)):
            net.at(before, *sizes)
            for kernel in part:
                net.conv(choose.width(16, 192), kernel)
        net.at(choose.width(64, 768), *sizes).conv(net.channels, 3, 2, 0)
    return net


def patches(choose: Rng) -> Trace:
    """Transformers' embeddings of patches, their hybrids, and mixers."""
    side = choose.choice((4, 8, 14, 16, 16, 32, 7))
    net = Trace(choose.choice((1, 3, 3, 3, 4, 12)), tuple(side * choose.randint(3, 32) for _ in range(2)))
    width = choose.width(64, 1280)
    net.conv(width, side, side, 0)
    if choose.chance(0.5):
        net.depthwise(choose.choice((3, 5, 7, 9))).conv(width, 1)
    if choose.chance(0.3):
        net.conv(width, 2, 2, 0).conv(choose.width(64, 1280), 1).transposed(width // 2, 2, 2)
    return net


def poses(choose: Rng) -> Trace:
    """Several resolutions side by side, and stacked hourglasses."""
    net, width, points = images(choose, 128, 512, (3,)), choose.width(16, 64), choose.choice((14, 16, 17, 68))
    net.conv(64, 3, 2).conv(64, 3, 2).conv(256, 1)
    sizes = net.sizes
    for level in range(choose.randint(2, 4)):
        now = tuple(-(-n >> level) for n in sizes)
        net.at(width << level, *now).conv(width << level).conv(2 * width << level, 3, 2)
        net.at(width << level, *now).conv(width, 1).at(2 * width << level, *now).conv(width << level, 1)
    net.at(width * 15, *sizes).conv(width * 15, 1).conv(points, 1)
    return net.at(choose.choice((256, 512)), 8, 6).transposed(256, 4, 2, 1).transposed(256, 4, 2, 1).conv(points, 1)
