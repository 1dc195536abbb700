"""Programs of the half `fresh` that train on images and points. They were written and measured once, and no rule was changed in between."""

from __future__ import annotations

from itertools import pairwise

import torch
import torchvision
from torch import Tensor, nn
from torch.nn import functional
from training import Inputs, Setup, Step, optimizer, train
from vision import classify


def efficientnet(setup: Setup) -> Step:
    return classify(setup, torchvision.models.efficientnet_b0(), "rmsprop")


def densenet(setup: Setup) -> Step:
    return classify(setup, torchvision.models.densenet121(), "sgd_foreach")


class Mixing(nn.Module):
    """A layer of MLP-Mixer: a perceptron over the patches, then one over the channels."""

    def __init__(self, patches: int, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.over_patches = nn.Sequential(nn.Linear(patches, width // 2), nn.GELU(), nn.Linear(width // 2, patches))
        self.over_channels = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.over_patches(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        return x + self.over_channels(self.norms[1](x))


class Mixer(nn.Module):
    def __init__(self, size: int, patch: int, width: int, layers: int, classes: int) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, width, patch, patch)
        self.layers = nn.Sequential(*(Mixing((size // patch) ** 2, width) for _ in range(layers)), nn.LayerNorm(width))
        self.head = nn.Linear(width, classes)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.layers(self.embed(images).flatten(2).transpose(1, 2)).mean(1))


def mlp_mixer(setup: Setup) -> Step:
    width, layers = setup.pick((768, 12), (64, 2))
    return classify(setup, Mixer(setup.pick(224, 64), 16, width, layers, 1000), "adamw_fused", max_norm=1.0)


class Modulated(nn.Module):
    """A layer of DiT: attention and a perceptron, scaled and shifted by the condition."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width, elementwise_affine=False) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width))
        self.condition = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        moved, scaled, gate, moved2, scaled2, gate2 = self.condition(condition)[:, None].chunk(6, -1)
        q, k, v = self.qkv(self.norms[0](x) * (1 + scaled) + moved).unflatten(-1, (3, self.heads, -1)).unbind(2)
        attended = functional.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
        x = x + gate * self.out(attended.transpose(1, 2).flatten(2))
        return x + gate2 * self.mlp(self.norms[1](x) * (1 + scaled2) + moved2)


class Transformer(nn.Module):
    def __init__(self, channels: int, patches: int, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.embed, self.places = nn.Conv2d(channels, width, 2, 2), nn.Parameter(torch.zeros(1, patches, width))
        self.times, self.labels = nn.Linear(256, width), nn.Embedding(1000, width)
        self.layers = nn.ModuleList(Modulated(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, 4 * channels)

    def forward(self, noisy: Tensor, times: Tensor, labels: Tensor) -> Tensor:
        x = self.embed(noisy).flatten(2).transpose(1, 2) + self.places
        condition = self.times(times) + self.labels(labels)
        for layer in self.layers:
            x = layer(x, condition)
        return self.head(x)


def dit(setup: Setup) -> Step:
    """A diffusion transformer, with an averaged copy of its weights."""
    width, layers, heads = setup.pick((768, 12, 12), (64, 2, 4))
    size = setup.pick(32, 8)
    patches = (size // 2) ** 2
    model = setup.place(Transformer(4, patches, width, layers, heads))
    average = [each.detach().clone() for each in model.parameters()]

    def make() -> Inputs:
        return (setup.real(setup.batch, 4, size, size), setup.real(setup.batch, 256), setup.whole(1000, setup.batch),
                setup.real(setup.batch, patches, 16))  # fmt: skip

    def loss_of(model: nn.Module, noisy: Tensor, times: Tensor, labels: Tensor, noise: Tensor) -> Tensor:
        return functional.mse_loss(model(noisy, times, labels), noise)

    step = train(setup, model, make, loss_of, "adamw_foreach")

    def averaged() -> Tensor:
        loss = step()
        with torch.no_grad():
            torch._foreach_lerp_(average, [*model.parameters()], 0.001)
        return loss

    return averaged


def critic(width: int) -> nn.Module:
    parts: list[nn.Module] = [nn.Conv2d(3, width, 3, 1, 1), nn.SiLU()]
    for factor in (1, 2, 4):
        parts += [
            nn.Conv2d(factor * width, 2 * factor * width, 4, 2, 1),
            nn.GroupNorm(8, 2 * factor * width),
            nn.SiLU(),
        ]
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8 * width, 1))


def upsampler(noise: int, width: int, size: int) -> nn.Module:
    parts: list[nn.Module] = [
        nn.Linear(noise, 8 * width * (size // 8) ** 2),
        nn.Unflatten(1, (8 * width, size // 8, size // 8)),
    ]
    for factor in (8, 4, 2):
        parts += [nn.Upsample(scale_factor=2), nn.Conv2d(factor * width, factor * width // 2, 3, 1, 1)]
        parts += [nn.BatchNorm2d(factor * width // 2), nn.ReLU(True)]
    return nn.Sequential(*parts, nn.Conv2d(width, 3, 3, 1, 1), nn.Tanh())


def wgan_penalty(setup: Setup) -> Step:
    """WGAN with a penalty on the critic's gradient, which takes a gradient of a gradient."""
    width, size = setup.pick(64, 8), setup.pick(64, 16)
    making, judging = setup.place(upsampler(128, width, size)), setup.place(critic(width))
    steps_making, steps_judging = optimizer("adam", making.parameters()), optimizer("adam_fused", judging.parameters())

    def step() -> Tensor:
        real, noise = setup.real(setup.batch, 3, size, size), setup.real(setup.batch, 128)
        with setup.autocast():
            fake = making(noise).detach()
            loss = judging(fake).mean() - judging(real).mean()
        between = torch.lerp(
            real, fake.to(real.dtype), torch.rand(setup.batch, 1, 1, 1, device=setup.device)
        ).requires_grad_()
        slope = torch.autograd.grad(judging(between).sum(), between, create_graph=True)[0]
        loss = loss + 10 * (slope.flatten(1).norm(dim=1) - 1).square().mean()
        steps_judging.zero_grad()
        loss.backward()
        steps_judging.step()
        with setup.autocast():
            mislead = -judging(making(noise)).mean()
        steps_making.zero_grad()
        mislead.backward()
        steps_making.step()
        return loss.detach()

    return step


class Autoencoder(nn.Module):
    def __init__(self, widths: tuple[int, ...], latent: int, size: int) -> None:
        super().__init__()
        self.down = nn.Sequential(*(part for before, after in pairwise((3, *widths)) for part in (
            nn.Conv2d(before, after, 4, 2, 1), nn.BatchNorm2d(after), nn.ELU())))  # fmt: skip
        side = size >> len(widths)
        self.moments, self.start = nn.Linear(widths[-1] * side**2, 2 * latent), nn.Linear(latent, widths[-1] * side**2)
        self.shape = (widths[-1], side, side)
        self.up = nn.Sequential(*(part for before, after in pairwise((*widths[::-1], widths[0])) for part in (
            nn.ConvTranspose2d(before, after, 4, 2, 1), nn.BatchNorm2d(after), nn.ELU())), nn.Conv2d(widths[0], 3, 3, 1, 1))  # fmt: skip

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, spread = self.moments(self.down(images).flatten(1)).chunk(2, 1)
        code = mean + (0.5 * spread).exp() * torch.randn_like(spread)
        return self.up(self.start(code).unflatten(1, self.shape)), mean, spread


def vae(setup: Setup) -> Step:
    size = setup.pick(128, 32)
    model = setup.place(Autoencoder(setup.pick((64, 128, 256, 512), (8, 16)), 256, size))

    def loss_of(model: nn.Module, images: Tensor) -> Tensor:
        found, mean, spread = model(images)
        divergence = -0.5 * (1 + spread - mean.square() - spread.exp()).sum(1).mean()
        return functional.mse_loss(found, images) + 1e-4 * divergence

    return train(setup, model, lambda: (setup.real(setup.batch, 3, size, size),), loss_of, "adam_foreach")


def shared(widths: tuple[int, ...]) -> nn.Module:
    """The same perceptron for each point."""
    return nn.Sequential(*(part for before, after in pairwise(widths) for part in (
        nn.Conv1d(before, after, 1), nn.BatchNorm1d(after), nn.ReLU())))  # fmt: skip


class PointNet(nn.Module):
    def __init__(self, wide: int, classes: int) -> None:
        super().__init__()
        self.turn, self.turned = shared((3, 64, 128, wide)), nn.Linear(wide, 9)
        self.first, self.rest = shared((3, 64, 64)), shared((64, 64, 128, wide))
        self.head = nn.Sequential(shared((wide + 64, 512, 256, 128)), nn.Conv1d(128, classes, 1))

    def forward(self, points: Tensor) -> Tensor:
        turn = self.turned(self.turn(points).amax(2)).view(-1, 3, 3) + torch.eye(3, device=points.device)
        near = self.first(torch.bmm(turn.to(points.dtype), points))
        whole = self.rest(near).amax(2, keepdim=True).expand(-1, -1, points.size(2))
        return self.head(torch.cat([near, whole.to(near.dtype)], 1))


def pointnet(setup: Setup) -> Step:
    points = setup.pick(4096, 64)
    model = setup.place(PointNet(setup.pick(1024, 32), 50))

    def make() -> Inputs:
        return setup.real(setup.batch, 3, points), setup.whole(50, setup.batch, points)

    return train(setup, model, make, lambda m, x, y: functional.cross_entropy(m(x), y), "adam")
