"""Programs that train on images, video and point clouds."""

from __future__ import annotations

import torch
import torchvision
from torch import Tensor, nn
from torch.nn import functional
from training import Inputs, Setup, Step, optimizer, train


def classify(
    setup: Setup, model: nn.Module, kind: str, size: int = 224, *, channels_last: bool = False, max_norm: float = 0.0
) -> Step:
    model = setup.place(model)
    size = setup.pick(size, 64)
    memory = torch.channels_last if channels_last else torch.contiguous_format
    if channels_last:
        model = model.to(memory_format=memory)

    def make() -> Inputs:
        return setup.real(setup.batch, 3, size, size).to(memory_format=memory), setup.whole(1000, setup.batch)

    def loss_of(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(model(images), labels)

    return train(setup, model, make, loss_of, kind, max_norm=max_norm)


def resnet50(setup: Setup) -> Step:
    return classify(setup, torchvision.models.resnet50(), "sgd")


def resnet18_channels_last(setup: Setup) -> Step:
    return classify(setup, torchvision.models.resnet18(), "sgd_fused", channels_last=True)


def vit(setup: Setup) -> Step:
    layers, width = setup.pick((12, 768), (2, 64))
    model = torchvision.models.VisionTransformer(
        setup.pick(224, 64), 16, layers, setup.pick(12, 4), width, 4 * width, dropout=0.1
    )
    return classify(setup, model, "adamw_foreach", max_norm=1.0)


def convnext(setup: Setup) -> Step:
    return classify(setup, torchvision.models.convnext_tiny(), "adamw_foreach")


def mobilenet(setup: Setup) -> Step:
    return classify(setup, torchvision.models.mobilenet_v3_large(), "rmsprop")


def swin(setup: Setup) -> Step:
    return classify(setup, torchvision.models.swin_t(), "adamw_fused", max_norm=5.0)


class DoubleConv(nn.Sequential):
    def __init__(self, before: int, after: int) -> None:
        super().__init__(
            nn.Conv2d(before, after, 3, padding=1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(inplace=True),
            nn.Conv2d(after, after, 3, padding=1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(inplace=True),
        )


class UNet(nn.Module):
    """The U-Net of 2015 with batch normalization and transposed convolutions."""

    def __init__(self, widths: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.down = nn.ModuleList(
            DoubleConv(before, after) for before, after in zip((3, *widths), widths, strict=False)
        )
        pairs = [*zip(widths[:0:-1], widths[-2::-1], strict=True)]
        self.up = nn.ModuleList(nn.ConvTranspose2d(before, after, 2, 2) for before, after in pairs)
        self.join = nn.ModuleList(DoubleConv(2 * after, after) for _, after in pairs)
        self.head = nn.Conv2d(widths[0], classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for i, block in enumerate(self.down):
            x = block(functional.max_pool2d(x, 2) if i else x)
            kept.append(x)
        for up, join, skip in zip(self.up, self.join, kept[-2::-1], strict=True):
            x = join(torch.cat([skip, up(x)], 1))
        return self.head(x)


def unet(setup: Setup) -> Step:
    model = setup.place(UNet(setup.pick((64, 128, 256, 512, 1024), (8, 16, 32)), 21))
    size = setup.pick(256, 32)

    def make() -> Inputs:
        return setup.real(setup.batch, 3, size, size), setup.whole(21, setup.batch, size, size)

    return train(setup, model, make, lambda m, x, y: functional.cross_entropy(m(x), y), "adam")


def segmentation(setup: Setup) -> Step:
    model = setup.place(
        torchvision.models.segmentation.deeplabv3_resnet50(weights=None, weights_backbone=None, num_classes=21)
    )
    size = setup.pick(320, 64)

    def make() -> Inputs:
        return setup.real(setup.batch, 3, size, size), setup.whole(21, setup.batch, size, size)

    return train(setup, model, make, lambda m, x, y: functional.cross_entropy(m(x)["out"], y), "sgd")


def video(setup: Setup) -> Step:
    model = setup.place(torchvision.models.video.r3d_18())
    frames, size = setup.pick((16, 112), (4, 32))

    def make() -> Inputs:
        return setup.real(setup.batch, 3, frames, size, size), setup.whole(400, setup.batch)

    return train(setup, model, make, lambda m, x, y: functional.cross_entropy(m(x), y), "sgd_foreach")


class Detector(nn.Module):
    """RetinaNet's network: a ResNet, a feature pyramid, and two towers of convolutions for all levels.

    torchvision's own detectors match boxes with shapes that depend on the data, so the targets are dense here, as the networks
    of one stage without anchors have them.
    """

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.body = torchvision.models._utils.IntermediateLayerGetter(
            torchvision.models.resnet50(norm_layer=torchvision.ops.FrozenBatchNorm2d),
            {"layer2": "0", "layer3": "1", "layer4": "2"},
        )
        self.pyramid = torchvision.ops.FeaturePyramidNetwork([512, 1024, 2048], width)
        self.scores = nn.Sequential(*self._tower(width), nn.Conv2d(width, classes, 3, padding=1))
        self.boxes = nn.Sequential(*self._tower(width), nn.Conv2d(width, 4, 3, padding=1))

    @staticmethod
    def _tower(width: int) -> list[nn.Module]:
        return [
            part
            for _ in range(4)
            for part in (nn.Conv2d(width, width, 3, padding=1), nn.GroupNorm(32, width), nn.ReLU())
        ]

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        levels = self.pyramid(self.body(images)).values()
        scores = [self.scores(level).flatten(2) for level in levels]
        boxes = [self.boxes(level).flatten(2) for level in levels]
        return torch.cat(scores, 2), torch.cat(boxes, 2)


def detection(setup: Setup) -> Step:
    classes, size = 80, setup.pick(512, 64)
    model = setup.place(Detector(setup.pick(256, 32), classes))
    cells = sum((size // stride) ** 2 for stride in (8, 16, 32))

    def make() -> Inputs:
        labels = functional.one_hot(setup.whole(classes, setup.batch, cells), classes).transpose(1, 2).to(setup.dtype)
        return setup.real(setup.batch, 3, size, size), labels, setup.real(setup.batch, 4, cells).abs()

    def loss_of(model: nn.Module, images: Tensor, labels: Tensor, boxes: Tensor) -> Tensor:
        scores, found = model(images)
        focal = torchvision.ops.sigmoid_focal_loss(scores.float(), labels.float(), reduction="mean")
        return focal + functional.smooth_l1_loss(found, boxes)

    return train(setup, model, make, loss_of, "sgd", max_norm=10.0)


def generator(noise: int, width: int) -> nn.Module:
    parts: list[nn.Module] = [nn.ConvTranspose2d(noise, 8 * width, 4, 1, 0, bias=False)]
    for factor in (8, 4, 2):
        parts += [nn.BatchNorm2d(factor * width), nn.ReLU(True)]
        parts += [nn.ConvTranspose2d(factor * width, factor * width // 2, 4, 2, 1, bias=False)]
    return nn.Sequential(
        *parts, nn.BatchNorm2d(width), nn.ReLU(True), nn.ConvTranspose2d(width, 3, 4, 2, 1, bias=False), nn.Tanh()
    )


def discriminator(width: int) -> nn.Module:
    parts: list[nn.Module] = [nn.Conv2d(3, width, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, True)]
    for factor in (1, 2, 4):
        parts += [nn.Conv2d(factor * width, 2 * factor * width, 4, 2, 1, bias=False)]
        parts += [nn.BatchNorm2d(2 * factor * width), nn.LeakyReLU(0.2, True)]
    return nn.Sequential(*parts, nn.Conv2d(8 * width, 1, 4, 1, 0, bias=False), nn.Flatten(0))


def gan(setup: Setup) -> Step:
    """DCGAN: two networks and two optimizers in each step."""
    width = setup.pick(128, 8)
    making, judging = setup.place(generator(128, width)), setup.place(discriminator(width))
    steps_making, steps_judging = optimizer("adam", making.parameters()), optimizer("adam", judging.parameters())
    bce = functional.binary_cross_entropy_with_logits

    def step() -> Tensor:
        real, noise = setup.real(setup.batch, 3, 64, 64), setup.real(setup.batch, 128, 1, 1)
        steps_judging.zero_grad()
        with setup.autocast():
            fake = making(noise)
            yes, no = judging(real), judging(fake.detach())
            loss = bce(yes, torch.ones_like(yes)) + bce(no, torch.zeros_like(no))
        loss.backward()
        steps_judging.step()
        steps_making.zero_grad()
        with setup.autocast():
            yes = judging(fake)
            loss = bce(yes, torch.ones_like(yes))
        loss.backward()
        steps_making.step()
        return loss.detach()

    return step
