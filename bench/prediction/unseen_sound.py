"""Programs of the half `unseen` that train on sound. They were written and committed before any of them ran on a GPU."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from training import Inputs, Setup, Step, optimizer, train


class Transducer(nn.Module):
    """RNN-T: a network for sound, one for the letters so far, and a joint result for each pair of their places."""

    def __init__(self, width: int, letters: int) -> None:
        super().__init__()
        self.sound = nn.LSTM(240, width, 3, batch_first=True, dropout=0.1)
        self.letters, self.past = nn.Embedding(letters, width // 2), nn.LSTM(width // 2, width, 1, batch_first=True)
        self.left, self.right = nn.Linear(width, width), nn.Linear(width, width)
        self.head = nn.Linear(width, letters)

    def forward(self, sound: Tensor, letters: Tensor) -> Tensor:
        heard, said = self.left(self.sound(sound)[0]), self.right(self.past(self.letters(letters))[0])
        return self.head((heard[:, :, None] + said[:, None]).tanh()).float().log_softmax(-1)


def transducer(setup: Setup) -> Step:
    """The sum over all paths is a loop over frames, in plain PyTorch."""
    frames, count, letters = setup.pick((200, 32, 256), (12, 4, 10))
    model = setup.place(Transducer(setup.pick(512, 16), letters))

    def make() -> Inputs:
        return setup.real(setup.batch, frames, 240), setup.whole(letters - 1, setup.batch, count) + 1

    def loss_of(model: nn.Module, sound: Tensor, said: Tensor) -> Tensor:
        scores = model(sound, functional.pad(said, (1, 0)))
        blank = scores[..., 0]
        spoken = scores[:, :, :-1].gather(3, said[:, None, :, None].expand(-1, frames, -1, -1)).squeeze(3)
        reach = functional.pad(spoken[:, 0].cumsum(1), (1, 0))
        for i in range(1, frames):
            stay = reach + blank[:, i - 1]
            steps = functional.pad(spoken[:, i].cumsum(1), (1, 0))
            reach = (stay - steps).logcumsumexp(1) + steps
        return -(reach[:, -1] + blank[:, -1, -1]).mean()

    return train(setup, model, make, loss_of, "adam", max_norm=5.0)


class Snake(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.rate = nn.Parameter(torch.ones(1, width, 1))

    def forward(self, x: Tensor) -> Tensor:
        return x + (self.rate + 1e-9).reciprocal() * (self.rate * x).sin().square()


def normed(convolution: nn.Module) -> nn.Module:
    return nn.utils.parametrizations.weight_norm(convolution)


class Unit(nn.Module):
    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()
        near = nn.Conv1d(width, width, 7, dilation=dilation, padding=3 * dilation)
        self.body = nn.Sequential(Snake(width), normed(near), Snake(width), normed(nn.Conv1d(width, width, 1)))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)


def codec(setup: Setup) -> Step:
    """A codec for sound: strided convolutions with normed weights, and a loss on spectra of several sizes."""
    width, samples = setup.pick((32, 32768), (4, 512))
    parts: list[nn.Module] = [normed(nn.Conv1d(1, width, 7, padding=3))]
    for i, stride in enumerate((2, 4, 4)):
        parts += [Unit(width << i, 1), Unit(width << i, 3), Snake(width << i)]
        parts += [normed(nn.Conv1d(width << i, width << i + 1, 2 * stride, stride, stride // 2))]
    for i, stride in zip((3, 2, 1), (4, 4, 2), strict=True):
        parts += [
            Snake(width << i),
            normed(nn.ConvTranspose1d(width << i, width << i - 1, 2 * stride, stride, stride // 2)),
        ]
        parts += [Unit(width << i - 1, 1), Unit(width << i - 1, 3)]
    model = setup.place(nn.Sequential(*parts, Snake(width), normed(nn.Conv1d(width, 1, 7, padding=3)), nn.Tanh()))
    windows = [torch.hann_window(size, device=setup.device) for size in setup.pick((2048, 512, 128), (64, 32))]

    def spectrum(sound: Tensor, window: Tensor) -> Tensor:
        return torch.stft(sound, len(window), len(window) // 4, window=window, return_complex=True).abs()

    steps = optimizer("adamw_foreach", model.parameters())

    def step() -> Tensor:
        sound = setup.real(setup.batch, 1, samples).tanh()
        with setup.autocast():
            made = model(sound)
        loss = functional.l1_loss(made.float(), sound)
        for window in windows:
            found, wanted = spectrum(made.float().squeeze(1), window), spectrum(sound.squeeze(1), window)
            loss = (
                loss
                + (found - wanted).abs().mean()
                + (found.clamp(1e-5).log10() - wanted.clamp(1e-5).log10()).abs().mean()
            )
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        steps.step()
        steps.zero_grad()
        return loss.detach()

    return step
