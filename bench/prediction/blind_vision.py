"""Programs of the half `blind` that train on images and volumes. They were written before the last rules were changed, and measured after."""

from __future__ import annotations

from collections import OrderedDict
from itertools import pairwise

import torch
import torchvision
from torch import Tensor, nn
from torch.nn import functional
from training import Inputs, Setup, Step, optimizer, train
from vision import classify


def regnet(setup: Setup) -> Step:
    return classify(setup, torchvision.models.regnet_y_1_6gf(), "sgd")


def shufflenet(setup: Setup) -> Step:
    return classify(setup, torchvision.models.shufflenet_v2_x1_5(), "sgd_foreach", channels_last=True)


class Pyramid(nn.Module):
    """A small network with a feature pyramid, and heads for classes and boxes on each of its levels."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        layers = {"layer2": "2", "layer3": "3", "layer4": "4"}
        self.body = torchvision.models._utils.IntermediateLayerGetter(torchvision.models.resnet18(), layers)
        self.levels = torchvision.ops.FeaturePyramidNetwork([128, 256, 512], width)
        self.tower = nn.Sequential(
            *(
                part
                for _ in range(2)
                for part in (nn.Conv2d(width, width, 3, padding=1), nn.GroupNorm(8, width), nn.ReLU())
            )
        )
        self.classes, self.boxes = nn.Conv2d(width, classes, 3, padding=1), nn.Conv2d(width, 4, 3, padding=1)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        levels: OrderedDict[str, Tensor] = self.levels(self.body(images))
        found = [self.tower(level) for level in levels.values()]
        classes = torch.cat([self.classes(each).flatten(2) for each in found], 2)
        return classes, torch.cat([self.boxes(each).flatten(2) for each in found], 2)


def pyramid(setup: Setup) -> Step:
    size, classes = setup.pick(416, 64), 20
    model = setup.place(Pyramid(128, classes))
    places = sum((size // stride) ** 2 for stride in (8, 16, 32))

    def make() -> Inputs:
        images = setup.real(setup.batch, 3, size, size)
        return images, setup.whole(2, setup.batch, classes, places).float(), setup.real(setup.batch, 4, places)

    def loss_of(model: nn.Module, images: Tensor, labels: Tensor, boxes: Tensor) -> Tensor:
        scores, found = model(images)
        loss = functional.binary_cross_entropy_with_logits(scores.float(), labels)
        return loss + functional.smooth_l1_loss(found.float(), boxes.float())

    return train(setup, model, make, loss_of, "sgd", max_norm=10.0)


class Translating(nn.Module):
    """The generator of pix2pix: strided convolutions down, transposed ones up, with connections between them."""

    def __init__(self, widths: tuple[int, ...]) -> None:
        super().__init__()
        self.down = nn.ModuleList(
            nn.Sequential(nn.Conv2d(before, after, 4, 2, 1), nn.InstanceNorm2d(after), nn.LeakyReLU(0.2))
            for before, after in pairwise((3, *widths))
        )
        self.up = nn.ModuleList(
            nn.Sequential(nn.ConvTranspose2d(before, after, 4, 2, 1), nn.InstanceNorm2d(after), nn.ReLU())
            for before, after in zip(
                (widths[-1], *(2 * width for width in widths[-2:0:-1])), widths[-2::-1], strict=True
            )
        )
        self.last = nn.ConvTranspose2d(2 * widths[0], 3, 4, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for layer in self.down:
            x = layer(x)
            kept.append(x)
        for layer, skip in zip(self.up, kept[-2::-1], strict=True):
            x = torch.cat([layer(x), skip], 1)
        return self.last(x).tanh()


def patches(width: int) -> nn.Module:
    """The discriminator of pix2pix, which judges patches."""
    parts: list[nn.Module] = [nn.Conv2d(6, width, 4, 2, 1), nn.LeakyReLU(0.2)]
    for factor, stride in ((1, 2), (2, 2), (4, 1)):
        parts += [
            nn.Conv2d(factor * width, 2 * factor * width, 4, stride, 1),
            nn.InstanceNorm2d(2 * factor * width),
            nn.LeakyReLU(0.2),
        ]
    return nn.Sequential(*parts, nn.Conv2d(8 * width, 1, 4, 1, 1))


def pix2pix(setup: Setup) -> Step:
    size = setup.pick(256, 64)
    making = setup.place(Translating(setup.pick((64, 128, 256, 512, 512, 512), (8, 16, 16))))
    judging = setup.place(patches(setup.pick(64, 8)))
    steps_making, steps_judging = optimizer("adam", making.parameters()), optimizer("adam", judging.parameters())
    bce = functional.binary_cross_entropy_with_logits

    def step() -> Tensor:
        source, target = setup.real(setup.batch, 3, size, size), setup.real(setup.batch, 3, size, size)
        with setup.autocast():
            made = making(source)
            yes, no = (
                judging(torch.cat([source, target], 1)),
                judging(torch.cat([source, made.detach().to(source.dtype)], 1)),
            )
            loss = bce(yes, torch.ones_like(yes)) + bce(no, torch.zeros_like(no))
        steps_judging.zero_grad()
        loss.backward()
        steps_judging.step()
        with setup.autocast():
            yes = judging(torch.cat([source, made.to(source.dtype)], 1))
            mislead = bce(yes, torch.ones_like(yes)) + 100 * functional.l1_loss(made, target)
        steps_making.zero_grad()
        mislead.backward()
        steps_making.step()
        return mislead.detach()

    return step


class Volumes(nn.Module):
    """A U-Net of three levels for volumes of one channel."""

    def __init__(self, width: int) -> None:
        super().__init__()

        def block(before: int, after: int) -> nn.Module:
            return nn.Sequential(*(part for first, last in ((before, after), (after, after)) for part in (
                nn.Conv3d(first, last, 3, padding=1), nn.InstanceNorm3d(last), nn.LeakyReLU(0.01))))  # fmt: skip

        self.down = nn.ModuleList([block(1, width), block(width, 2 * width), block(2 * width, 4 * width)])
        self.up = nn.ModuleList(
            [nn.ConvTranspose3d(4 * width, 2 * width, 2, 2), nn.ConvTranspose3d(2 * width, width, 2, 2)]
        )
        self.join = nn.ModuleList([block(4 * width, 2 * width), block(2 * width, width)])
        self.head = nn.Conv3d(width, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for i, block in enumerate(self.down):
            x = block(functional.max_pool3d(x, 2) if i else x)
            kept.append(x)
        for up, join, skip in zip(self.up, self.join, kept[-2::-1], strict=True):
            x = join(torch.cat([up(x), skip], 1))
        return self.head(x)


def volumes(setup: Setup) -> Step:
    size = setup.pick(80, 16)
    model = setup.place(Volumes(setup.pick(24, 4)))

    def make() -> Inputs:
        return setup.real(setup.batch, 1, size, size, size), setup.whole(4, setup.batch, size, size, size)

    return train(setup, model, make, lambda m, x, y: functional.cross_entropy(m(x), y), "sgd")


class Modulation(nn.Module):
    """A convolution of StyleGAN2: each image has weights of its own, as one convolution in groups."""

    def __init__(self, before: int, after: int, style: int) -> None:
        super().__init__()
        self.weight, self.style = nn.Parameter(torch.randn(after, before, 3, 3)), nn.Linear(style, before)

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        batch, _, height, width = x.shape
        weight = self.weight[None] * self.style(style).to(self.weight.dtype)[:, None, :, None, None]
        weight = weight * (weight.square().sum((2, 3, 4), keepdim=True) + 1e-8).rsqrt()
        x = functional.conv2d(x.reshape(1, -1, height, width), weight.flatten(0, 1), padding=1, groups=batch)
        return functional.leaky_relu(x.view(batch, -1, height, width), 0.2)


class Styles(nn.Module):
    def __init__(self, widths: tuple[int, ...], style: int) -> None:
        super().__init__()
        self.style = nn.Sequential(*(part for _ in range(4) for part in (nn.Linear(style, style), nn.LeakyReLU(0.2))))
        self.start = nn.Parameter(torch.randn(1, widths[0], 4, 4))
        self.layers = nn.ModuleList(
            Modulation(before, after, style) for before, after in pairwise((widths[0], *widths))
        )
        self.image = nn.Conv2d(widths[-1], 3, 1)

    def forward(self, noise: Tensor) -> Tensor:
        style, x = self.style(noise), self.start.expand(len(noise), -1, -1, -1)
        for i, layer in enumerate(self.layers):
            x = layer(functional.interpolate(x, scale_factor=2.0, mode="bilinear") if i else x, style)
        return self.image(x)


def styles(setup: Setup) -> Step:
    """The generator alone, trained to make given images."""
    widths = setup.pick((256, 256, 256, 128, 64), (8, 8))
    model, size = setup.place(Styles(widths, 128)), 4 << len(widths) - 1

    def make() -> Inputs:
        return setup.real(setup.batch, 128), setup.real(setup.batch, 3, size, size)

    return train(setup, model, make, lambda m, x, y: functional.l1_loss(m(x), y), "adam")


def super_resolution(setup: Setup) -> Step:
    """EDSR: equal convolutions at a low resolution, and a shuffle of channels to a high one."""
    width, size = setup.pick(64, 8), setup.pick(64, 16)

    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(width, width, 3, 1, 1), nn.ReLU(), nn.Conv2d(width, width, 3, 1, 1))

        def forward(self, x: Tensor) -> Tensor:
            return x + 0.1 * self.body(x)

    grow = (
        nn.Conv2d(width, 4 * width, 3, 1, 1),
        nn.PixelShuffle(2),
        nn.Conv2d(width, 4 * width, 3, 1, 1),
        nn.PixelShuffle(2),
    )
    body = nn.Sequential(
        nn.Conv2d(3, width, 3, 1, 1),
        *(Residual() for _ in range(setup.pick(12, 1))),
        *grow,
        nn.Conv2d(width, 3, 3, 1, 1),
    )
    model = setup.place(body)

    def make() -> Inputs:
        return setup.real(setup.batch, 3, size, size), setup.real(setup.batch, 3, 4 * size, 4 * size)

    return train(setup, model, make, lambda m, x, y: functional.l1_loss(m(x), y), "adam_fused")


def convmixer(setup: Setup) -> Step:
    """Depthwise convolutions with large kernels, and pointwise ones."""
    width, depth = setup.pick((384, 8), (16, 1))

    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.places = nn.Sequential(
                nn.Conv2d(width, width, 9, groups=width, padding=4), nn.GELU(), nn.BatchNorm2d(width)
            )
            self.channels = nn.Sequential(nn.Conv2d(width, width, 1), nn.GELU(), nn.BatchNorm2d(width))

        def forward(self, x: Tensor) -> Tensor:
            return self.channels(x + self.places(x))

    start = (nn.Conv2d(3, width, 7, 7), nn.GELU(), nn.BatchNorm2d(width))
    body = nn.Sequential(
        *start, *(Mixed() for _ in range(depth)), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 1000)
    )
    return classify(setup, body, "adamw_foreach")
