"""Programs of the half `unseen` that train on images. They were written and committed before any of them ran on a GPU."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import chain, pairwise

import torch
import torchvision
from torch import Tensor, nn
from torch.nn import functional
from training import Inputs, Setup, Step, optimizer, train
from vision import classify


def resnext(setup: Setup) -> Step:
    """Grouped convolutions, and an average of the weights after each step."""
    model = torchvision.models.resnext50_32x4d()
    step = classify(setup, model, "sgd")
    average = copy.deepcopy(model)

    def averaged() -> Tensor:
        loss = step()
        with torch.no_grad():
            for kept, new in zip(average.parameters(), model.parameters(), strict=True):
                kept.mul_(0.999).add_(new, alpha=0.001)
        return loss

    return averaged


def maxvit(setup: Setup) -> Step:
    """Attention within windows and across a grid, between depthwise convolutions."""
    size, heads = setup.pick((224, 32), (64, 8))
    model = torchvision.models.MaxVit(
        (size, size), setup.pick(64, 16), setup.pick(7, 2), setup.pick([64, 128, 256], [16, 32]), setup.pick([2, 2, 4], [1, 1]), heads, 0.2,
        num_classes=1000,
    )  # fmt: skip
    return classify(setup, model, "adamw_foreach", max_norm=1.0)


def block(before: int, after: int, kernel: int = 1, stride: int = 1) -> nn.Module:
    convolution = nn.Conv2d(before, after, kernel, stride, kernel // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(after), nn.SiLU(inplace=True))


class Partial(nn.Module):
    """A cross-stage partial block: half of the channels pass through bottlenecks, and all their results are joined."""

    def __init__(self, before: int, after: int, depth: int) -> None:
        super().__init__()
        half = after // 2
        self.enter, self.leave = block(before, after), block((2 + depth) * half, after)
        self.layers = nn.ModuleList(nn.Sequential(block(half, half, 3), block(half, half, 3)) for _ in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        parts = [*self.enter(x).chunk(2, 1)]
        for layer in self.layers:
            parts.append(parts[-1] + layer(parts[-1]))
        return self.leave(torch.cat(parts, 1))


class Detector(nn.Module):
    """A detector in the manner of YOLO: a path down, a path up, another one down, and a head at three levels."""

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__()
        self.start = nn.Sequential(
            block(3, width, 3, 2), block(width, 2 * width, 3, 2), Partial(2 * width, 2 * width, 1)
        )
        self.down = nn.ModuleList(
            nn.Sequential(block(before * width, after * width, 3, 2), Partial(after * width, after * width, 2))
            for before, after in pairwise((2, 4, 8, 16))
        )
        self.pools, self.pooled = nn.MaxPool2d(5, 1, 2), block(64 * width, 16 * width)
        self.up = nn.ModuleList([Partial(24 * width, 8 * width, 1), Partial(12 * width, 4 * width, 1)])
        self.strides = nn.ModuleList([block(4 * width, 4 * width, 3, 2), block(8 * width, 8 * width, 3, 2)])
        self.join = nn.ModuleList([Partial(12 * width, 8 * width, 1), Partial(24 * width, 16 * width, 1)])
        self.heads = nn.ModuleList(
            nn.Sequential(block(size * width, 4 * width, 3), nn.Conv2d(4 * width, outputs, 1)) for size in (4, 8, 16)
        )

    def forward(self, images: Tensor) -> Tensor:
        x, levels = self.start(images), []
        for layer in self.down:
            x = layer(x)
            levels.append(x)
        pooled = [x]
        for _ in range(3):
            pooled.append(self.pools(pooled[-1]))
        levels[-1] = self.pooled(torch.cat(pooled, 1))
        middle = self.up[0](torch.cat([functional.interpolate(levels[2], scale_factor=2.0), levels[1]], 1))
        found = [self.up[1](torch.cat([functional.interpolate(middle, scale_factor=2.0), levels[0]], 1))]
        for stride, join, skip in zip(self.strides, self.join, (middle, levels[2]), strict=True):
            found.append(join(torch.cat([stride(found[-1]), skip], 1)))
        return torch.cat([head(each).flatten(2) for head, each in zip(self.heads, found, strict=True)], 2)


def yolo(setup: Setup) -> Step:
    size, classes = setup.pick(416, 64), 80
    model = setup.place(Detector(setup.pick(24, 4), 64 + classes))
    places = sum((size // stride) ** 2 for stride in (8, 16, 32))

    def make() -> Inputs:
        labels = torch.rand(setup.batch, classes, places, device=setup.device).square()
        return setup.real(setup.batch, 3, size, size), labels, setup.whole(15, setup.batch, 4, places)

    def loss_of(model: nn.Module, images: Tensor, labels: Tensor, sides: Tensor) -> Tensor:
        boxes, scores = model(images).split((64, classes), 1)
        loss = functional.binary_cross_entropy_with_logits(scores.float(), labels, reduction="sum") / labels.sum()
        distances = boxes.unflatten(1, (4, 16)).transpose(1, 2)
        return loss + functional.cross_entropy(distances.float(), sides)

    return train(setup, model, make, loss_of, "sgd", max_norm=10.0)


def moco(setup: Setup) -> Step:
    """MoCo: an encoder, its slow copy, and a queue of what the copy made of earlier images."""
    size, kept, width = setup.pick((160, 65536, 128), (32, 64, 16))
    encoder = setup.place(torchvision.models.resnet50(num_classes=width))
    slow = copy.deepcopy(encoder).requires_grad_(False)
    queue = functional.normalize(setup.real(width, kept), dim=0)
    steps = optimizer("sgd", encoder.parameters())

    def step() -> Tensor:
        one, other = setup.real(setup.batch, 3, size, size), setup.real(setup.batch, 3, size, size)
        with setup.autocast():
            query = functional.normalize(encoder(one), dim=1)
            with torch.no_grad():
                for old, new in zip(slow.parameters(), encoder.parameters(), strict=True):
                    old.mul_(0.999).add_(new, alpha=0.001)
                order = torch.randperm(setup.batch, device=setup.device)
                key = functional.normalize(slow(other[order]), dim=1)[order.argsort()]
            near, far = torch.einsum("nc,nc->n", query, key)[:, None], torch.einsum("nc,ck->nk", query, queue)
            scores = torch.cat([near, far], 1) / 0.2
            loss = functional.cross_entropy(scores, torch.zeros(setup.batch, dtype=torch.long, device=setup.device))
        steps.zero_grad()
        loss.backward()
        steps.step()
        queue[:, : setup.batch] = key.T.to(queue.dtype)
        return loss.detach()

    return step


def distillation(setup: Setup) -> Step:
    """A frozen network teaches a small one."""
    size = setup.pick(224, 64)
    teacher = setup.place(torchvision.models.resnet34()).eval().requires_grad_(False)
    model = setup.place(torchvision.models.mobilenet_v2())
    steps = torch.optim.RMSprop(model.parameters(), 1e-4, momentum=0.9, weight_decay=1e-5)

    def step() -> Tensor:
        images, labels = setup.real(setup.batch, 3, size, size), setup.whole(1000, setup.batch)
        with setup.autocast():
            with torch.no_grad():
                wanted = (teacher(images) / 4).log_softmax(1)
            found = model(images)
            loss = functional.kl_div((found / 4).log_softmax(1), wanted, reduction="batchmean", log_target=True)
            loss = 16 * loss + functional.cross_entropy(found, labels)
        steps.zero_grad()
        loss.backward()
        steps.step()
        return loss.detach()

    return step


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        parts = (nn.ReflectionPad2d(1), nn.Conv2d(width, width, 3), nn.InstanceNorm2d(width), nn.ReLU(True))
        again = (nn.ReflectionPad2d(1), nn.Conv2d(width, width, 3), nn.InstanceNorm2d(width))
        self.body = nn.Sequential(*parts, *again)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)


def translating(width: int, depth: int) -> nn.Module:
    parts: list[nn.Module] = [nn.ReflectionPad2d(3), nn.Conv2d(3, width, 7), nn.InstanceNorm2d(width), nn.ReLU(True)]
    for factor in (1, 2):
        down = nn.Conv2d(factor * width, 2 * factor * width, 3, 2, 1)
        parts += [down, nn.InstanceNorm2d(2 * factor * width), nn.ReLU(True)]
    parts += [Residual(4 * width) for _ in range(depth)]
    for factor in (4, 2):
        up = nn.ConvTranspose2d(factor * width, factor * width // 2, 3, 2, 1, 1)
        parts += [up, nn.InstanceNorm2d(factor * width // 2), nn.ReLU(True)]
    return nn.Sequential(*parts, nn.ReflectionPad2d(3), nn.Conv2d(width, 3, 7), nn.Tanh())


def judging(width: int) -> nn.Module:
    parts: list[nn.Module] = [nn.Conv2d(3, width, 4, 2, 1), nn.LeakyReLU(0.2, True)]
    for factor in (1, 2):
        down = nn.Conv2d(factor * width, 2 * factor * width, 4, 2, 1)
        parts += [down, nn.InstanceNorm2d(2 * factor * width), nn.LeakyReLU(0.2, True)]
    return nn.Sequential(*parts, nn.Conv2d(4 * width, 1, 4, 1, 1))


def cyclegan(setup: Setup) -> Step:
    """CycleGAN: two networks that make images, two that judge them, two optimizers, and gradients of two batches."""
    size, width, depth = setup.pick((128, 64, 6), (32, 4, 1))
    makers = [setup.place(translating(width, depth)) for _ in range(2)]
    judges = [setup.place(judging(width)) for _ in range(2)]
    making = optimizer("adam", chain(*(each.parameters() for each in makers)))
    judged = optimizer("adam_foreach", chain(*(each.parameters() for each in judges)))
    square = lambda scores, wanted: (scores.float() - wanted).square().mean()  # noqa: E731

    def step() -> Tensor:
        loss = torch.zeros((), device=setup.device)
        for _ in range(2):
            real = [setup.real(setup.batch, 3, size, size) for _ in range(2)]
            for each in judges:
                each.requires_grad_(False)
            with setup.autocast():
                fake = [makers[1](real[0]), makers[0](real[1])]
                back = [makers[0](fake[0]), makers[1](fake[1])]
                loss = square(judges[1](fake[0]), 1) + square(judges[0](fake[1]), 1)
                loss = loss + 10 * sum(functional.l1_loss(new, old) for new, old in zip(back, real, strict=True))
            (loss / 2).backward()
            for each in judges:
                each.requires_grad_(True)
            with setup.autocast():
                bad = sum(
                    square(judge(old), 1) + square(judge(new.detach()), 0)
                    for judge, old, new in zip(judges, real, fake[::-1], strict=True)
                )
            (bad / 2).backward()
        for steps in (making, judged):
            steps.step()
            steps.zero_grad()
        return loss.detach()

    return step


class Depth(nn.Module):
    """Depth of one image: a network that makes it small, and one that makes it large again, with a result at each size."""

    def __init__(self, width: int) -> None:
        super().__init__()
        body = torchvision.models.resnet18()
        self.start, self.pool = nn.Sequential(body.conv1, body.bn1, body.relu), body.maxpool
        self.layers = nn.ModuleList([body.layer1, body.layer2, body.layer3, body.layer4])
        widths, skips = (512, *(width << i for i in (3, 2, 1, 0, 0))), (256, 128, 64, 64, 0)
        self.before = nn.ModuleList(self._block(old, new) for old, new in pairwise(widths))
        self.after = nn.ModuleList(self._block(new + skip, new) for new, skip in zip(widths[1:], skips, strict=True))
        self.heads = nn.ModuleList(nn.Conv2d(new, 1, 3, 1, 1, padding_mode="reflect") for new in widths[2:])

    @staticmethod
    def _block(before: int, after: int) -> nn.Module:
        return nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(before, after, 3), nn.ELU(inplace=True))

    def forward(self, images: Tensor) -> list[Tensor]:
        kept = [self.start(images)]
        x = self.pool(kept[0])
        for layer in self.layers:
            x = layer(x)
            kept.append(x)
        skips, found = [*kept[-2::-1], None], []
        for i, (before, after, skip) in enumerate(zip(self.before, self.after, skips, strict=True)):
            x = functional.interpolate(before(x), scale_factor=2.0, mode="nearest")
            x = after(x if skip is None else torch.cat([x, skip], 1))
            if i:
                found.append(self.heads[i - 1](x).sigmoid())
        return found


def likeness(x: Tensor, y: Tensor) -> Tensor:
    """Returns one less the structural similarity of two images."""
    pool: Callable[[Tensor], Tensor] = lambda z: functional.avg_pool2d(functional.pad(z, (1, 1, 1, 1), "reflect"), 3, 1)  # noqa: E731
    mean_x, mean_y = pool(x), pool(y)
    spread_x, spread_y = pool(x.square()) - mean_x.square(), pool(y.square()) - mean_y.square()
    both = pool(x * y) - mean_x * mean_y
    above = (2 * mean_x * mean_y + 1e-4) * (2 * both + 9e-4)
    below = (mean_x.square() + mean_y.square() + 1e-4) * (spread_x + spread_y + 9e-4)
    return (0.5 - 0.5 * above / below).clamp(0, 1)


def depth(setup: Setup) -> Step:
    """Depth without labels: the depth moves the pixels of one image, and the result has to look like the other one."""
    height, width = setup.pick((192, 640), (64, 64))
    model = setup.place(Depth(setup.pick(32, 4)))
    identity = torch.eye(2, 3, device=setup.device)

    def make() -> Inputs:
        return setup.real(setup.batch, 3, height, width).sigmoid(), setup.real(setup.batch, 3, height, width).sigmoid()

    def loss_of(model: nn.Module, left: Tensor, right: Tensor) -> Tensor:
        places = functional.affine_grid(identity.expand(len(left), 2, 3), list(left.shape), align_corners=False)
        losses = []
        for found in model(left):
            moved = functional.interpolate(found.float(), (height, width), mode="bilinear", align_corners=False)
            shift = torch.stack([0.3 * moved[:, 0], torch.zeros_like(moved[:, 0])], 3)
            seen = functional.grid_sample(right, places + shift, padding_mode="border", align_corners=False)
            losses.append((0.85 * likeness(seen, left) + 0.15 * (seen - left).abs()).mean())
        return torch.stack(losses).mean()

    return train(setup, model, make, loss_of, "adam")


def raft(setup: Setup) -> Step:
    """Optical flow: products of all pairs of places, and a recurrent network of convolutions that reads them again and again."""
    height, width = setup.pick((256, 320), (128, 128))
    model = setup.place(torchvision.models.optical_flow.raft_small())

    def make() -> Inputs:
        first, second = (setup.real(setup.batch, 3, height, width).tanh() for _ in range(2))
        return first, second, setup.real(setup.batch, 2, height, width)

    def loss_of(model: nn.Module, first: Tensor, second: Tensor, flow: Tensor) -> Tensor:
        found = model(first, second, num_flow_updates=setup.pick(8, 2))
        return sum((0.8 ** (len(found) - i - 1) * (each - flow).abs().mean() for i, each in enumerate(found)), flow.new_zeros(()))  # fmt: skip

    return train(setup, model, make, loss_of, "adamw_fused", max_norm=1.0)
