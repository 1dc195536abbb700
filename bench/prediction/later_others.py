"""Programs of the half `later` that train on graphs, sound, games, purchases and series. They were committed before any of them was
predicted or ran on a GPU."""

# size: one file holds what trains on neither images nor texts

from __future__ import annotations

import copy
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional
from training import Inputs, Setup, Step, train


class Aggregated(nn.Module):
    """A layer of a network for molecules: sums, means and maxima of messages, scaled by the numbers of neighbours."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.bonds = nn.Embedding(6, width)
        self.message = nn.Linear(2 * width, width)
        self.update = nn.Sequential(
            nn.Linear(5 * width, 2 * width), nn.BatchNorm1d(2 * width), nn.LeakyReLU(0.05), nn.Linear(2 * width, width)
        )
        self.norm = nn.BatchNorm1d(width)

    def forward(self, x: Tensor, source: Tensor, target: Tensor, bonds: Tensor, degree: Tensor) -> Tensor:
        sent = functional.softplus(self.message(torch.cat([x[source] + self.bonds(bonds), x[target]], 1)))
        empty = sent.new_zeros(x.shape)
        places = target[:, None].expand_as(sent)
        total = empty.index_add(0, target, sent)
        highest = empty.scatter_reduce(0, places, sent, "amax", include_self=False)
        mean = total / degree.clamp(min=1).to(total.dtype)[:, None]
        scale = (degree + 1).log()[:, None].to(mean.dtype)
        y = torch.cat([x.to(mean.dtype), total, highest, mean * scale, mean / (scale + 0.1)], 1)
        return x + functional.leaky_relu(self.norm(self.update(y)), 0.05)


class Isomorphism(nn.Module):
    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.atoms, self.numbers = nn.Embedding(100, width), nn.Linear(9, width)
        self.layers = nn.ModuleList(Aggregated(width) for _ in range(layers))
        self.head = nn.Sequential(nn.Linear(2 * width, width), nn.ELU(), nn.Linear(width, 3))

    def forward(
        self, kinds: Tensor, numbers: Tensor, edges: Tensor, bonds: Tensor, graphs: Tensor, count: int
    ) -> Tensor:
        source, target = edges
        degree = torch.bincount(target, minlength=len(kinds))
        x = self.atoms(kinds) + self.numbers(numbers)
        for layer in self.layers:
            x = layer(x, source, target, bonds, degree)
        sizes = torch.bincount(graphs, minlength=count).clamp(min=1)[:, None]
        mean = x.new_zeros(count, x.size(1)).index_add(0, graphs, x) / sizes.to(x.dtype)
        highest = x.new_zeros(mean.shape).scatter_reduce(0, graphs[:, None].expand_as(x), x, "amax", include_self=False)
        return self.head(torch.cat([mean, highest], 1))


def isomorphism(setup: Setup) -> Step:
    size = setup.pick(31, 5)
    nodes = size * setup.batch
    model = setup.place(Isomorphism(setup.pick(176, 8), setup.pick(5, 2)))
    graphs = torch.arange(setup.batch, device=setup.device).repeat_interleave(size)
    steps = torch.optim.AdamW(model.parameters(), 1e-3, amsgrad=True)

    def make() -> Inputs:
        source = torch.arange(nodes, device=setup.device).repeat_interleave(7)
        target = source // size * size + setup.whole(size, len(source))
        order = target.argsort(stable=True)
        return (
            setup.whole(100, nodes),
            setup.real(nodes, 9),
            torch.stack([source, target])[:, order],
            setup.whole(6, len(source)),
        )

    def step() -> Tensor:
        inputs, wanted = make(), setup.real(setup.batch, 3)
        steps.zero_grad()
        with setup.autocast():
            found = model(*inputs, graphs, setup.batch)
            loss = functional.huber_loss(found.float(), wanted, delta=0.5)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0, norm_type=float("inf"))
        steps.step()
        return loss.detach()

    return step


class Separated(nn.Module):
    """A block of Conv-TasNet: a depthwise dilated convolution between narrow ones, with norms over channels and time."""

    def __init__(self, width: int, inner: int, dilation: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(width, inner, 1), nn.PReLU(), nn.GroupNorm(1, inner, eps=1e-8),
            nn.Conv1d(inner, inner, 3, padding=dilation, dilation=dilation, groups=inner), nn.PReLU(), nn.GroupNorm(1, inner, eps=1e-8),
        )  # fmt: skip
        self.more, self.skip = nn.Conv1d(inner, width, 1), nn.Conv1d(inner, width, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.body(x)
        return x + self.more(y), self.skip(y)


class Separation(nn.Module):
    def __init__(self, filters: int, width: int, inner: int, repeats: int, depth: int) -> None:
        super().__init__()
        self.encoder = nn.Conv1d(1, filters, 20, 10, bias=False)
        self.enter = nn.Sequential(nn.GroupNorm(1, filters), nn.Conv1d(filters, width, 1))
        self.blocks = nn.ModuleList(Separated(width, inner, 1 << i) for _ in range(repeats) for i in range(depth))
        self.masks = nn.Sequential(nn.PReLU(), nn.Conv1d(width, 2 * filters, 1), nn.Sigmoid())
        self.decoder = nn.ConvTranspose1d(filters, 1, 20, 10, bias=False)

    def forward(self, sound: Tensor) -> Tensor:
        coded = self.encoder(sound[:, None]).relu()
        x, total = self.enter(coded), torch.zeros((), device=sound.device)
        for block in self.blocks:
            x, skip = block(x)
            total = total + skip
        masked = self.masks(total).unflatten(1, (2, -1)) * coded[:, None]
        return self.decoder(masked.flatten(0, 1)).view(len(sound), 2, -1)


def ratio(found: Tensor, wanted: Tensor) -> Tensor:
    """Returns how far sounds are from others, in decibels, whatever their loudness."""
    found, wanted = found - found.mean(-1, keepdim=True), wanted - wanted.mean(-1, keepdim=True)
    share = (found * wanted).sum(-1, keepdim=True) / (wanted.square().sum(-1, keepdim=True) + 1e-8)
    noise = found - share * wanted
    return 10 * ((share * wanted).square().sum(-1) / (noise.square().sum(-1) + 1e-8) + 1e-8).log10()


def separation(setup: Setup) -> Step:
    """Two voices in one recording, in whichever order, with a loss on spectra of overlapping frames as well."""
    samples, sizes = setup.pick((12010, (320, 112, 416, 3, 7)), (210, (16, 8, 12, 1, 2)))
    model = setup.place(Separation(*sizes))
    window = setup.pick(400, 40)
    bell = torch.hamming_window(window, device=setup.device)

    def spectra(sound: Tensor) -> Tensor:
        return torch.fft.rfft(sound.unfold(-1, window, window // 2) * bell).abs().add(1e-5).log()

    def loss_of(model: nn.Module, voices: Tensor) -> Tensor:
        found = model(voices.sum(1)).float()
        straight, crossed = ratio(found, voices).mean(1), ratio(found, voices.flip(1)).mean(1)
        is_crossed = (crossed > straight)[:, None, None]
        ordered = torch.where(is_crossed, voices.flip(1), voices)
        return -torch.maximum(straight, crossed).mean() + functional.smooth_l1_loss(spectra(found), spectra(ordered))

    adam = lambda weights: torch.optim.Adam(weights, 1e-3, weight_decay=1e-6, foreach=True)  # noqa: E731
    return train(setup, model, lambda: (setup.real(setup.batch, 2, samples),), loss_of, adam, max_norm=5.0)


class Noisy(nn.Linear):
    """A linear layer that explores by noise on its weights."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__(before, after)
        self.spread = nn.Parameter(torch.full((after, before), 0.5 / before**0.5))
        self.bias_spread = nn.Parameter(torch.full((after,), 0.5 / before**0.5))

    def forward(self, x: Tensor) -> Tensor:
        def shaped(count: int) -> Tensor:
            noise = torch.randn(count, device=x.device, dtype=self.weight.dtype)
            return noise.sign() * noise.abs().sqrt()

        left, right = shaped(self.in_features), shaped(self.out_features)
        weight = self.weight + self.spread * torch.outer(right, left)
        return functional.linear(x, weight, self.bias + self.bias_spread * right)


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        norm = nn.utils.parametrizations.spectral_norm
        self.first, self.second = norm(nn.Conv2d(width, width, 3, padding=1)), nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.second(functional.relu(self.first(functional.relu(x))))


class Dueling(nn.Module):
    """A residual network for frames of games; the value of a state, and what each action adds, for 51 returns."""

    def __init__(self, widths: tuple[int, ...], hidden: int, actions: int, side: int) -> None:
        super().__init__()
        parts: list[nn.Module] = []
        for before, after in pairwise((4, *widths)):
            parts += [nn.Conv2d(before, after, 3, padding=1), nn.MaxPool2d(3, 2, 1), Residual(after), Residual(after)]
            side = (side + 1) // 2
        self.body = nn.Sequential(
            *parts, nn.ReLU(), nn.Flatten(), nn.Linear(widths[-1] * side * side, hidden), nn.ReLU()
        )
        self.value, self.gain = Noisy(hidden, 51), Noisy(hidden, 51 * actions)

    def forward(self, frames: Tensor) -> Tensor:
        x = self.body(frames)
        value, gain = self.value(x)[:, None], self.gain(x).unflatten(1, (-1, 51))
        return (value + gain - gain.mean(1, keepdim=True)).float().log_softmax(2)


def projected(chance: Tensor, reward: Tensor, is_end: Tensor, support: Tensor) -> Tensor:
    """Returns the chances of returns after a reward, on the same support."""
    low, gap = support[0], support[1] - support[0]
    moved = (reward[:, None] + 0.97 * ~is_end[:, None] * support).clamp(support[0], support[-1])
    place = (moved - low) / gap
    below, above = (
        place.floor().long().clamp(max=len(support) - 2),
        place.floor().long().clamp(max=len(support) - 2) + 1,
    )
    found = torch.zeros_like(chance).scatter_add(1, below, chance * (above - place))
    return found.scatter_add_(1, above, chance * (place - below))


def dueling(setup: Setup) -> Step:
    """Distributional Q-learning from a replay memory on the GPU, with priorities and a slow copy of the network."""
    kept, side, actions = setup.pick((50000, 84, 15), (200, 20, 3))
    widths, hidden = setup.pick(((24, 40, 40), 384), ((4, 8), 16))
    model = setup.place(Dueling(widths, hidden, actions, side))
    slow = copy.deepcopy(model).requires_grad_(False)
    steps = torch.optim.Adam(model.parameters(), 1e-4, eps=1.5e-4, foreach=False)
    memory = torch.randint(0, 256, (kept, side, side), dtype=torch.uint8, device=setup.device)
    done, rewards = setup.whole(actions, kept), setup.real(kept).float()
    priorities, is_end = torch.ones(kept, device=setup.device), setup.whole(50, kept) == 0
    support, behind = torch.linspace(-10, 10, 51, device=setup.device), torch.arange(4, device=setup.device)

    def seen(places: Tensor) -> Tensor:
        return memory[(places[:, None] - behind) % kept].to(setup.dtype) / 255

    def step() -> Tensor:
        places = torch.multinomial(priorities, setup.batch, replacement=True)
        rarity = (priorities[places] / priorities.sum() * kept).pow(-0.4)
        with torch.no_grad(), setup.autocast():
            following = seen(places + 3)
            best = (model(following).exp() * support).sum(2).argmax(1)
            chance = slow(following)[torch.arange(setup.batch, device=setup.device), best].exp()
            wanted = projected(chance, rewards[places], is_end[places], support)
        with setup.autocast():
            scores = model(seen(places)).gather(1, done[places][:, None, None].expand(-1, 1, 51)).squeeze(1)
            apart = functional.kl_div(scores, wanted, reduction="none").sum(1)
            loss = (apart * rarity / rarity.max()).mean()
        steps.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 10.0, foreach=False)
        steps.step()
        with torch.no_grad():
            priorities[places] = apart.detach().clamp(min=1e-3).pow(0.5)
            for old, new in zip(slow.parameters(), model.parameters(), strict=True):
                old.copy_(0.995 * old + 0.005 * new)
        return loss.detach()

    return step


class Purchases(nn.Module):
    """SASRec: a causal transformer over what a person bought, with bags of the tags of each thing."""

    def __init__(self, items: int, tags: int, width: int, heads: int, layers: int, length: int) -> None:
        super().__init__()
        self.items, self.places = nn.Embedding(items, width, padding_idx=0), nn.Embedding(length, width)
        self.tags = nn.EmbeddingBag(tags, width, mode="sum")
        layer = nn.TransformerEncoderLayer(width, heads, 2 * width, 0.2, "gelu", batch_first=True, norm_first=True)
        self.mixed = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width), enable_nested_tensor=False)

    def forward(self, bought: Tensor, tags: Tensor, weights: Tensor) -> Tensor:
        batch, length = bought.shape
        about = self.tags(tags.flatten(0, 1), per_sample_weights=weights.flatten(0, 1)).view(batch, length, -1)
        x = self.items(bought) * self.items.embedding_dim**0.5 + about + self.places.weight[:length]
        hidden = torch.ones(length, length, dtype=torch.bool, device=bought.device).triu(1)
        return self.mixed(functional.dropout(x, 0.2), mask=hidden, src_key_padding_mask=bought == 0)


def purchases(setup: Setup) -> Step:
    """The next purchase against 100 others that are drawn by how common they are."""
    items, tags, width, length, others = setup.pick((150001, 900, 112, 120, 100), (61, 11, 16, 9, 5))
    model = setup.place(Purchases(items, tags, width, setup.pick(2, 2), setup.pick(3, 1), length))
    common = 1 / torch.arange(1, items, device=setup.device)
    chance = (common / common.sum()).log()

    def make() -> Inputs:
        is_padding = torch.arange(length + 1, device=setup.device) > setup.whole(length, setup.batch, 1) + 2
        bought = (setup.whole(items - 1, setup.batch, length + 1) + 1).masked_fill(is_padding, 0)
        weights = torch.rand(setup.batch, length, 4, device=setup.device, dtype=setup.dtype)
        return bought, setup.whole(tags, setup.batch, length, 4), weights

    def loss_of(model: nn.Module, bought: Tensor, tags: Tensor, weights: Tensor) -> Tensor:
        state, following = model(bought[:, :-1], tags, weights), bought[:, 1:]
        drawn = torch.multinomial(common, others, replacement=True) + 1
        own = (state * model.items(following)).sum(-1, keepdim=True) - chance[following.clamp(min=1) - 1][..., None]
        against = state @ model.items(drawn).to(state.dtype).T - chance[drawn - 1]
        against = against.float().masked_fill(following[..., None] == drawn, float("-inf"))
        scores = torch.cat([own.float(), against], -1).flatten(0, 1)
        return functional.cross_entropy(scores, torch.where(following.flatten() > 0, 0, -100), ignore_index=-100)

    return train(setup, model, make, loss_of, "adam_loop", accumulate=2)


def trend(x: Tensor, kernel: int) -> Tensor:
    padded = functional.pad(x.transpose(1, 2), (kernel // 2, kernel // 2), "replicate")
    return functional.avg_pool1d(padded, kernel, 1).transpose(1, 2)


class Correlation(nn.Module):
    """Attention of Autoformer: the delays at which a series is most like itself, found by Fourier transforms."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out, self.count = nn.Linear(width, width), count

    def forward(self, x: Tensor, other: Tensor) -> Tensor:
        length = x.size(1)
        q, k, v = self.query(x), self.key(other), self.value(other)
        k, v = (
            functional.pad(each, (0, 0, 0, length - each.size(1))) if each.size(1) < length else each[:, :length]
            for each in (k, v)
        )
        product = torch.fft.rfft(q.float(), dim=1) * torch.fft.rfft(k.float(), dim=1).conj()
        like = torch.fft.irfft(product, n=length, dim=1).mean(2)
        weights, delays = like.topk(self.count, 1)
        weights = weights.softmax(1).to(v.dtype)
        places, total = torch.arange(length, device=x.device), torch.zeros_like(v)
        for i in range(self.count):
            rolled = v.gather(1, ((places + delays[:, i, None]) % length)[..., None].expand_as(v))
            total = total + weights[:, i, None, None] * rolled
        return self.out(total)


class Seasonal(nn.Module):
    def __init__(self, width: int, kernel: int, count: int, *, crosses: bool) -> None:
        super().__init__()
        self.own, self.cross = Correlation(width, count), Correlation(width, count) if crosses else None
        self.inner = nn.Sequential(
            nn.Conv1d(width, 3 * width, 1, bias=False),
            nn.GELU(),
            nn.Dropout(0.05),
            nn.Conv1d(3 * width, width, 1, bias=False),
        )
        self.kernel = kernel

    def split(self, x: Tensor, trends: list[Tensor]) -> Tensor:
        trends.append(trend(x, self.kernel))
        return x - trends[-1]

    def forward(self, x: Tensor, other: Tensor | None = None) -> tuple[Tensor, Tensor]:
        trends: list[Tensor] = []
        x = self.split(x + self.own(x, x), trends)
        if self.cross is not None and other is not None:
            x = self.split(x + self.cross(x, other), trends)
        x = self.split(x + self.inner(x.transpose(1, 2)).transpose(1, 2), trends)
        return x, torch.stack(trends).sum(0)


class Autoformer(nn.Module):
    def __init__(self, series: int, width: int, kernel: int, count: int) -> None:
        super().__init__()
        embed = lambda: nn.Conv1d(series, width, 3, padding=1, padding_mode="circular", bias=False)  # noqa: E731
        self.kernel, self.enter, self.again = kernel, embed(), embed()
        self.days = nn.Embedding(24, width)
        self.encoder = nn.ModuleList(Seasonal(width, kernel, count, crosses=False) for _ in range(3))
        self.decoder = nn.ModuleList(Seasonal(width, kernel, count, crosses=True) for _ in range(2))
        self.trends = nn.ModuleList(nn.Conv1d(width, series, 3, padding=1, padding_mode="circular") for _ in range(2))
        self.mean, self.spread = nn.Linear(width, series), nn.Linear(width, series)

    def forward(self, past: Tensor, hours: Tensor, ahead: int) -> tuple[Tensor, Tensor]:
        x = self.enter(past.transpose(1, 2)).transpose(1, 2) + self.days(hours[:, : past.size(1)])
        for layer in self.encoder:
            x, _ = layer(x)
        half, slow = past.size(1) // 2, trend(past, self.kernel)
        start = functional.pad((past - slow)[:, half:], (0, 0, 0, ahead))
        level = torch.cat([slow[:, half:], past.mean(1, keepdim=True).expand(-1, ahead, -1)], 1)
        y = self.again(start.transpose(1, 2)).transpose(1, 2) + self.days(hours[:, half:])
        for layer, reduce in zip(self.decoder, self.trends, strict=True):
            y, more = layer(y, x)
            level = level + reduce(more.transpose(1, 2)).transpose(1, 2)
        return (self.mean(y) + level)[:, -ahead:], functional.softplus(self.spread(y))[:, -ahead:]


def autoformer(setup: Setup) -> Step:
    past, ahead, series = setup.pick((330, 90, 21), (24, 6, 3))
    model = setup.place(Autoformer(series, setup.pick(208, 16), setup.pick(25, 5), setup.pick(6, 2)))
    schedules = []

    def adagrad(weights: list[nn.Parameter]) -> torch.optim.Optimizer:
        made = torch.optim.Adagrad(weights, 5e-3, foreach=True)
        schedules.append(torch.optim.lr_scheduler.StepLR(made, 100, 0.5))
        return made

    def make() -> Inputs:
        hours = (torch.arange(past + ahead, device=setup.device) + setup.whole(24, setup.batch, 1)) % 24
        values = setup.real(setup.batch, past + ahead, series).cumsum(1)
        values = (values - values.mean(1, keepdim=True)) / (values.std(1, keepdim=True) + 1e-3)
        return values[:, :past], hours, values[:, past:]

    def loss_of(model: nn.Module, before: Tensor, hours: Tensor, after: Tensor) -> Tensor:
        mean, spread = model(before, hours, ahead)
        return functional.gaussian_nll_loss(mean.float(), after.float(), spread.float().square() + 1e-3)

    step = train(setup, model, make, loss_of, adagrad)

    def scheduled() -> Tensor:
        loss = step()
        schedules[0].step()
        return loss

    return scheduled
