"""Programs of the half `further` for points, series, physics, sound, games and clicks. They were committed before any of them was predicted or ran on a GPU."""

from __future__ import annotations

import copy
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn import functional
from training import Inputs, Setup, Step, train


def rows(x: Tensor, places: Tensor) -> Tensor:
    """Returns rows of each cloud: places are (batch, points, neighbours)."""
    flat = places.flatten(1)[..., None].expand(-1, -1, x.size(-1))
    return x.gather(1, flat).unflatten(1, places.shape[1:])


class Near(nn.Module):
    """Attention to the nearest points, with a weight for each channel."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.count, self.norm = count, nn.LayerNorm(width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.place = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, width))
        self.weigh = nn.Sequential(nn.Linear(width, width // 4), nn.ReLU(), nn.Linear(width // 4, width))
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, points: Tensor) -> Tensor:
        with torch.no_grad():
            near = torch.cdist(points.float(), points.float()).topk(self.count, dim=2, largest=False).indices
        y = self.norm(x)
        place = self.place(points[:, :, None] - rows(points, near))
        weights = self.weigh(self.query(y)[:, :, None] - rows(self.key(y), near) + place).softmax(2)
        return x + self.out((weights * (rows(self.value(y), near) + place)).sum(2).to(x.dtype))


class Clouds(nn.Module):
    def __init__(self, width: int, count: int, classes: int) -> None:
        super().__init__()
        self.enter = nn.Linear(6, width)
        self.down = nn.ModuleList(Near(width * 2**i, count) for i in range(3))
        self.wide = nn.ModuleList(nn.Linear(width * 2**i, width * 2 ** (i + 1)) for i in range(2))
        self.narrow = nn.ModuleList(nn.Linear(width * 2 ** (i + 1), width * 2**i) for i in range(2))
        self.up = nn.ModuleList(Near(width * 2**i, count) for i in range(2))
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Dropout(0.3), nn.Linear(width, classes))

    def forward(self, cloud: Tensor) -> Tensor:
        points, x, kept = cloud[..., :3], self.enter(cloud), []
        for i, layer in enumerate(self.down):
            x = layer(x, points)
            if i < 2:
                kept.append((x, points))
                chosen = torch.randperm(x.size(1), device=x.device)[: x.size(1) // 4]
                x, points = self.wide[i](x[:, chosen]), points[:, chosen]
        for i in (1, 0):
            skip, finer = kept[i]
            far, near = torch.cdist(finer.float(), points.float()).topk(3, dim=2, largest=False)
            share = functional.normalize(1 / (far + 1e-6), p=1, dim=2)
            x = skip + (rows(self.narrow[i](x), near) * share[..., None].to(x.dtype)).sum(2)
            x, points = self.up[i](x, finer), finer
        return self.head(x)


def clouds(setup: Setup) -> Step:
    """A point transformer that names each point of a cloud, with a loss that prefers hard points."""
    count, classes = setup.pick((1100, 13), (96, 4))
    model = setup.place(Clouds(setup.pick(64, 8), setup.pick(14, 4), classes))

    def loss_of(model: nn.Module, cloud: Tensor, kinds: Tensor) -> Tensor:
        each = functional.cross_entropy(model(cloud).float().transpose(1, 2), kinds, reduction="none")
        return ((1 - (-each).exp()).square() * each).mean()

    make = lambda: (setup.real(setup.batch, count, 6), setup.whole(classes, setup.batch, count))  # noqa: E731
    sgd = lambda weights: torch.optim.SGD(weights, 0.05, 0.9, weight_decay=1e-4, foreach=False)  # noqa: E731
    return train(setup, model, make, loss_of, sgd)


class Gate(nn.Module):
    """A residual network that a gate can shut."""

    def __init__(self, before: int, after: int, context: int = 0) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(before, after), nn.Linear(after, 2 * after)
        self.context = nn.Linear(context, after, bias=False) if context else None
        self.skip = nn.Linear(before, after) if before != after else nn.Identity()
        self.norm = nn.LayerNorm(after)

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        y = self.first(x)
        if self.context is not None:
            y = y + self.context(context)
        return self.norm(self.skip(x) + functional.glu(functional.dropout(self.second(functional.elu(y)), 0.1), -1))


class Fusion(nn.Module):
    """A temporal fusion transformer: it weighs variables, then times."""

    def __init__(self, kinds: int, variables: int, width: int, heads: int, ahead: int) -> None:
        super().__init__()
        self.ahead, self.kinds = ahead, nn.Embedding(kinds, width)
        self.scales, self.shifts = (
            nn.Parameter(torch.randn(variables, width)),
            nn.Parameter(torch.zeros(variables, width)),
        )
        self.each = nn.ModuleList(Gate(width, width) for _ in range(variables))
        self.weigh = Gate(variables * width, variables, width)
        self.past, self.future = nn.LSTM(width, width, batch_first=True), nn.LSTM(width, width, batch_first=True)
        self.enrich, self.attention = (
            Gate(width, width, width),
            nn.MultiheadAttention(width, heads, 0.1, batch_first=True),
        )
        self.norm, self.last, self.head = nn.LayerNorm(width), Gate(width, width), nn.Linear(width, 3)

    def forward(self, series: Tensor, kind: Tensor) -> Tensor:
        about = self.kinds(kind)[:, None]
        x = series[..., None] * self.scales + self.shifts
        weights = self.weigh(x.flatten(2), about.expand(-1, x.size(1), -1)).softmax(-1)
        x = torch.stack([gate(x[:, :, i]) for i, gate in enumerate(self.each)], -1)
        x = (x * weights[:, :, None]).sum(-1).to(about.dtype)
        start = about.transpose(0, 1).contiguous()
        known, state = self.past(x[:, : -self.ahead], (start, torch.zeros_like(start)))
        coming, _ = self.future(x[:, -self.ahead :], state)
        y = self.enrich(torch.cat([known, coming], 1) + x, about)
        hidden = torch.ones(y.size(1), y.size(1), dtype=torch.bool, device=y.device).triu(1)
        mixed, _ = self.attention(y[:, -self.ahead :], y, y, attn_mask=hidden[-self.ahead :], average_attn_weights=True)
        return self.head(self.last(self.norm(mixed + y[:, -self.ahead :])))


def fusion(setup: Setup) -> Step:
    """Forecasts of three quantiles with a temporal fusion transformer."""
    past, ahead, variables, kinds = setup.pick((140, 28, 14, 3000), (9, 3, 3, 10))
    model = setup.place(Fusion(kinds, variables, setup.pick(120, 8), setup.pick(4, 2), ahead))
    levels = torch.tensor([0.1, 0.5, 0.9], device=setup.device)

    def make() -> Inputs:
        return (
            setup.real(setup.batch, past + ahead, variables),
            setup.whole(kinds, setup.batch),
            setup.real(setup.batch, ahead),
        )

    def loss_of(model: nn.Module, series: Tensor, kind: Tensor, wanted: Tensor) -> Tensor:
        apart = wanted.float()[..., None] - model(series, kind).float()
        return torch.maximum(levels * apart, (levels - 1) * apart).mean()

    return train(setup, model, make, loss_of, "adam", max_norm=0.5)


def perceptron(before: int, width: int, after: int) -> nn.Module:
    return nn.Sequential(
        nn.Linear(before, width), nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, width), nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, after)
    )  # fmt: skip


def critics(setup: Setup) -> Step:
    """Soft actor-critic with eight critics that torch.func runs as one, a learned temperature, and a slow copy."""
    seen, moves, width, count = setup.pick((376, 17, 768, 8), (11, 3, 16, 3))
    actor = setup.place(perceptron(seen, width, 2 * moves))
    members = [setup.place(perceptron(seen + moves, width, 1)) for _ in range(count)]
    weights, _ = stack_module_state(members)
    slow = {name: weight.detach().clone() for name, weight in weights.items()}
    shape = copy.deepcopy(members[0]).to("meta")
    heat = nn.Parameter(torch.zeros((), device=setup.device))
    first = torch.optim.Adam(weights.values(), 3e-4)
    second, third = torch.optim.Adam(actor.parameters(), 3e-4), torch.optim.Adam([heat], 3e-4)

    def worth(weights: dict[str, Tensor], state: Tensor, action: Tensor) -> Tensor:
        call = lambda each, x: functional_call(shape, each, (x,))  # noqa: E731
        return vmap(call, (0, None))(weights, torch.cat([state, action], 1)).squeeze(-1)

    def act(state: Tensor) -> tuple[Tensor, Tensor]:
        mean, spread = actor(state).float().chunk(2, 1)
        normal = torch.distributions.Normal(mean, spread.clamp(-5, 2).exp(), validate_args=False)
        raw = normal.rsample()
        bent = 2 * (0.6931 - raw - functional.softplus(-2 * raw))
        return raw.tanh(), (normal.log_prob(raw) - bent).sum(1)

    def step() -> Tensor:
        state, following = setup.real(setup.batch, seen), setup.real(setup.batch, seen)
        action, reward = setup.real(setup.batch, moves).tanh(), setup.real(setup.batch)
        with setup.autocast():
            with torch.no_grad():
                coming, chance = act(following)
                chosen = torch.randperm(count, device=state.device)[:2]
                wanted = reward + 0.99 * (worth(slow, following, coming)[chosen].amin(0) - heat.exp() * chance)
            loss = (worth(weights, state, action).float() - wanted).square().mean(1).sum()
        first.zero_grad()
        loss.backward()
        first.step()
        with setup.autocast():
            own, chance = act(state)
            gain = worth({name: weight.detach() for name, weight in weights.items()}, state, own).float().mean(0)
            aim = (heat.exp().detach() * chance - gain).mean()
        second.zero_grad()
        aim.backward()
        second.step()
        third.zero_grad()
        (-heat * (chance.detach() - moves).mean()).backward()
        third.step()
        with torch.no_grad():
            torch._foreach_lerp_([*slow.values()], [each.detach() for each in weights.values()], 0.005)
        return loss.detach()

    return step


class Waves(nn.Module):
    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.register_buffer("rates", torch.randn(3, width // 2))
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.left, self.right, self.out = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, 3)

    def forward(self, points: Tensor) -> Tensor:
        turns = points @ self.rates
        x = torch.cat([turns.sin(), turns.cos()], 1)
        left, right = self.left(x).tanh(), self.right(x).tanh()
        for layer in self.layers:
            gate = layer(x).tanh()
            x = gate * left + (1 - gate) * right
        return self.out(x)


def slope(values: Tensor, points: Tensor) -> Tensor:
    return torch.autograd.grad(values, points, torch.ones_like(values), create_graph=True)[0]


def viscous(setup: Setup) -> Step:
    """A flow that fulfils the equations of Navier and Stokes: second derivatives by the points, and losses at the walls."""
    model = setup.place(Waves(setup.pick(200, 16), setup.pick(5, 2)))

    def make() -> Inputs:
        inner = torch.rand(setup.batch, 3, device=setup.device, dtype=setup.dtype)
        wall = torch.rand(setup.batch // 2, 3, device=setup.device, dtype=setup.dtype)
        return inner.requires_grad_(), wall.mul_(torch.tensor([1.0, 0.0, 1.0], device=setup.device))

    def loss_of(model: nn.Module, inner: Tensor, wall: Tensor) -> Tensor:
        u, v, pressure = model(inner).unbind(1)
        du, dv, dp = slope(u, inner), slope(v, inner), slope(pressure, inner)
        total = (du[:, 0] + dv[:, 1]).square().mean()
        for value, first, push in ((u, du, dp[:, 0]), (v, dv, dp[:, 1])):
            bend = slope(first[:, 0], inner)[:, 0] + slope(first[:, 1], inner)[:, 1]
            total = total + (first[:, 2] + u * first[:, 0] + v * first[:, 1] + push - 0.01 * bend).square().mean()
            total = total + 0 * value.mean()
        return total + 10 * model(wall)[:, :2].square().mean()

    return train(setup, model, make, loss_of, "adam_foreach", max_norm=1.0)


class Cleaner(nn.Module):
    """A U-Net on the real and imaginary parts of a spectrogram, with a GRU where it is narrow; it returns a complex mask."""

    def __init__(self, width: int, levels: int, rates: int) -> None:
        super().__init__()
        sizes = [2, *(width * 2**i for i in range(levels))]
        self.down = nn.ModuleList(
            nn.Sequential(nn.Conv2d(a, b, (5, 3), (2, 1), (2, 1)), nn.BatchNorm2d(b), nn.PReLU()) for a, b in pairwise(sizes)
        )  # fmt: skip
        for _ in range(levels):
            rates = (rates + 1) // 2
        self.time = nn.GRU(sizes[-1] * rates, 2 * width, 2, batch_first=True, bidirectional=True, dropout=0.1)
        self.back = nn.Linear(4 * width, sizes[-1] * rates)
        self.up = nn.ModuleList(
            nn.ConvTranspose2d(2 * b, a, (5, 3), (2, 1), (2, 1))
            for a, b in zip(sizes[:-1][::-1], sizes[:0:-1], strict=True)
        )

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for layer in self.down:
            x = layer(x)
            kept.append(x)
        batch, width, rates, times = x.shape
        y, _ = self.time(x.permute(0, 3, 1, 2).flatten(2))
        x = x + self.back(y).view(batch, times, width, rates).permute(0, 2, 3, 1)
        for i, layer in enumerate(self.up):
            x = layer(torch.cat([x, kept.pop()], 1))
            x = functional.leaky_relu(x, 0.2) if i + 1 < len(self.up) else x
        return x


def cleaner(setup: Setup) -> Step:
    """Takes noise from speech by a complex mask of its spectrogram, with losses on spectrograms of three resolutions."""
    samples, size, scales = setup.pick((40000, 512, (256, 600, 1500)), (900, 64, (32, 64)))
    model = setup.place(Cleaner(setup.pick(24, 4), setup.pick(5, 2), size // 2 + 1))
    bells = {each: torch.hann_window(each, device=setup.device) for each in (size, *scales)}

    def spectrum(sound: Tensor, each: int) -> Tensor:
        return torch.stft(sound, each, each // 4, window=bells[each], return_complex=True)

    def make() -> Inputs:
        clean = torch.randn(setup.batch, samples, device=setup.device)
        return clean, clean + 0.3 * torch.randn_like(clean)

    def loss_of(model: nn.Module, clean: Tensor, noisy: Tensor) -> Tensor:
        seen = spectrum(noisy, size)
        mask = model(torch.view_as_real(seen).permute(0, 3, 1, 2)).float().tanh()
        heard = torch.istft(
            seen * torch.complex(mask[:, 0], mask[:, 1]), size, size // 4, window=bells[size], length=samples
        )
        loss = functional.l1_loss(heard, clean)
        for each in scales:
            found, wanted = (spectrum(sound, each).abs().clamp(min=1e-5) for sound in (heard, clean))
            loss = loss + (found - wanted).norm() / wanted.norm() + functional.l1_loss(found.log(), wanted.log())
        return loss

    return train(setup, model, make, loss_of, "adamw", max_norm=5.0, accumulate=2)


class Interest(nn.Module):
    """Deep interest: what a person clicked is weighed by what is offered now."""

    def __init__(self, items: int, width: int, features: int) -> None:
        super().__init__()
        self.items, self.kinds = nn.Embedding(items, width), nn.Embedding(items // 100 + 1, width)
        self.person = nn.EmbeddingBag(items // 10 + 1, width, mode="mean")
        self.weigh = nn.Sequential(
            nn.Linear(8 * width, 80), nn.Sigmoid(), nn.Linear(80, 40), nn.Sigmoid(), nn.Linear(40, 1)
        )
        self.norm = nn.BatchNorm1d(5 * width)
        self.head = nn.Sequential(
            nn.Linear(5 * width, features), nn.PReLU(), nn.AlphaDropout(0.1), nn.Linear(features, features // 2), nn.SELU(), nn.Linear(features // 2, 2)
        )  # fmt: skip

    def about(self, items: Tensor) -> Tensor:
        return torch.cat([self.items(items), self.kinds(items // 100)], -1)

    def forward(self, past: Tensor, offered: Tensor, tags: Tensor) -> Tensor:
        clicked, now = self.about(past), self.about(offered)
        wide = now[:, None].expand_as(clicked)
        weights = self.weigh(torch.cat([clicked, wide, clicked - wide, clicked * wide], -1))
        weights = weights.masked_fill((past == 0)[..., None], 0)
        x = torch.cat([(weights * clicked).sum(1).to(now.dtype), now, self.person(tags)], -1)
        return self.head(self.norm(x))


def interest(setup: Setup) -> Step:
    """Clicks and purchases from a history (DIN), with Adagrad."""
    items, width, length = setup.pick((400000, 36, 90), (300, 8, 7))
    model = setup.place(Interest(items, width, setup.pick(256, 16)))

    def make() -> Inputs:
        is_padding = torch.arange(length, device=setup.device) > setup.whole(length, setup.batch, 1)
        past = setup.whole(items, setup.batch, length).masked_fill(is_padding, 0)
        wanted = torch.rand(setup.batch, 2, device=setup.device).gt(0.8).float()
        return past, setup.whole(items, setup.batch), setup.whole(items // 10, setup.batch, 6), wanted

    def loss_of(model: nn.Module, past: Tensor, offered: Tensor, tags: Tensor, wanted: Tensor) -> Tensor:
        scores = model(past, offered, tags).float()
        return functional.binary_cross_entropy_with_logits(scores, wanted, pos_weight=torch.full_like(wanted[0], 4.0))

    return train(setup, model, make, loss_of, "adagrad", max_norm=10.0)
