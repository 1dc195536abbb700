"""Programs that train on sound, graphs, tables, images with text, and noise."""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor, nn
from torch.nn import functional
from training import Inputs, Setup, Step, train


def wav2vec2(setup: Setup) -> Step:
    """Classifies each frame: the CTC loss of transformers selects labels with shapes that depend on the data."""
    from transformers import Wav2Vec2Config, Wav2Vec2ForAudioFrameClassification

    width, layers = setup.pick((768, 12), (64, 2))
    config = Wav2Vec2Config(
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=setup.pick(12, 4),
        intermediate_size=4 * width,
        conv_dim=setup.pick((512,) * 7, (32,) * 7),
        num_conv_pos_embedding_groups=setup.pick(16, 4),
        apply_spec_augment=False,
        layerdrop=0.0,
        num_labels=40,
    )
    model = setup.place(Wav2Vec2ForAudioFrameClassification(config))
    samples = setup.pick(80000, 8000)

    def loss_of(model: nn.Module, sound: Tensor) -> Tensor:
        scores = model(sound).logits
        return functional.cross_entropy(
            scores.flatten(0, 1), torch.zeros(scores.shape[:2], dtype=torch.long, device=sound.device).flatten()
        )

    return train(setup, model, lambda: (setup.real(setup.batch, samples),), loss_of, "adamw_foreach")


def whisper(setup: Setup) -> Step:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    width, layers = setup.pick((512, 6), (64, 2))
    config = WhisperConfig(
        d_model=width,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=8,
        decoder_attention_heads=8,
        encoder_ffn_dim=4 * width,
        decoder_ffn_dim=4 * width,
        max_source_positions=setup.pick(1500, 50),
        use_cache=False,
    )
    model = setup.place(WhisperForConditionalGeneration(config))
    frames, length = setup.pick((3000, 128), (100, 16))

    def loss_of(model: nn.Module, sound: Tensor, labels: Tensor) -> Tensor:
        return model(input_features=sound, labels=labels).loss

    def make() -> Inputs:
        return setup.real(setup.batch, 80, frames), setup.whole(50000, setup.batch, length)

    return train(setup, model, make, loss_of, "adamw_fused", max_norm=1.0)


class Speech(nn.Module):
    """Convolutions over a spectrogram, then recurrent layers in both directions."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(1, 32, (41, 11), (2, 2), (20, 5)), nn.BatchNorm2d(32), nn.Hardtanh(0, 20),
            nn.Conv2d(32, 32, (21, 11), (2, 1), (10, 5)), nn.BatchNorm2d(32), nn.Hardtanh(0, 20),
        )  # fmt: skip
        self.gru = nn.GRU(32 * 40, width, 4, bidirectional=True, batch_first=True)
        self.head = nn.Linear(2 * width, classes)

    def forward(self, sound: Tensor) -> Tensor:
        x = self.convolutions(sound).flatten(1, 2).transpose(1, 2)
        return self.head(self.gru(x)[0])


def speech(setup: Setup) -> Step:
    model = setup.place(Speech(setup.pick(768, 32), 64))
    frames = setup.pick(600, 32)

    def make() -> Inputs:
        return setup.real(setup.batch, 1, 160, frames), setup.whole(64, setup.batch, frames // 2)

    def loss_of(model: nn.Module, sound: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(model(sound).flatten(0, 1), labels.flatten())

    return train(setup, model, make, loss_of, "adam", max_norm=5.0)


class Messages(nn.Module):
    """GraphSAGE: the mean over neighbours by index_add."""

    def __init__(self, widths: tuple[int, ...]) -> None:
        super().__init__()
        pairs = [*itertools.pairwise(widths)]
        self.own = nn.ModuleList(nn.Linear(before, after) for before, after in pairs)
        self.near = nn.ModuleList(nn.Linear(before, after, bias=False) for before, after in pairs)

    def forward(self, x: Tensor, source: Tensor, target: Tensor) -> Tensor:
        degree = x.new_zeros(len(x)).index_add(0, target, x.new_ones(len(target))).clamp(min=1)
        for i, (own, near) in enumerate(zip(self.own, self.near, strict=True)):
            mean = torch.zeros_like(x).index_add(0, target, x[source]) / degree[:, None]
            x = own(x) + near(mean.to(x.dtype))
            if i + 1 < len(self.own):
                x = functional.dropout(x.relu(), 0.5)
        return x


def graph(setup: Setup) -> Step:
    nodes, width = 1000 * setup.batch, setup.pick(256, 16)
    model = setup.place(Messages((setup.pick(128, 16), width, width, 40)))

    def make() -> Inputs:
        ends = setup.whole(nodes, 2, 12 * nodes)
        return setup.real(nodes, setup.pick(128, 16)), ends[0], ends[1], setup.whole(40, nodes)

    def loss_of(model: nn.Module, x: Tensor, source: Tensor, target: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(model(x, source, target).float(), labels)

    return train(setup, model, make, loss_of, "adam")


class Attending(nn.Module):
    def __init__(self, before: int, width: int, classes: int) -> None:
        from torch_geometric.nn import GATConv

        super().__init__()
        self.first = GATConv(before, width, heads=8, dropout=0.2, add_self_loops=False)
        self.second = GATConv(8 * width, classes, heads=1, add_self_loops=False)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        return self.second(functional.elu(self.first(x, edges)), edges)


def graph_attention(setup: Setup) -> Step:
    nodes, features = 1000 * setup.batch, setup.pick(256, 16)
    model = setup.place(Attending(features, setup.pick(32, 4), 40))

    def make() -> Inputs:
        return setup.real(nodes, features), setup.whole(nodes, 2, 10 * nodes), setup.whole(40, nodes)

    def loss_of(model: nn.Module, x: Tensor, edges: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(model(x, edges).float(), labels)

    return train(setup, model, make, loss_of, "adam_loop")


class Clicks(nn.Module):
    """DLRM: bags of embeddings, dense layers, and the products of all pairs of features."""

    def __init__(self, tables: int, rows: int, width: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, width), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(width + (tables + 1) * tables // 2, 1024), nn.ReLU(), nn.Linear(1024, 1))
        self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, -1))

    def forward(self, dense: Tensor, indices: Tensor, offsets: Tensor) -> Tensor:
        x = self.bottom(dense)
        bags = [table(indices[i], offsets).to(x.dtype) for i, table in enumerate(self.tables)]
        all_of = torch.stack([x, *bags], 1)
        products = torch.bmm(all_of, all_of.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat([x, products], 1)).squeeze(1)


def recommendation(setup: Setup) -> Step:
    tables, rows = setup.pick((16, 200_000), (3, 100))
    model = setup.place(Clicks(tables, rows, setup.pick(64, 8)))

    def make() -> Inputs:
        offsets = torch.arange(0, 4 * setup.batch, 4, device=setup.device)
        return (
            setup.real(setup.batch, 13),
            setup.whole(rows, tables, 4 * setup.batch),
            offsets,
            setup.real(setup.batch).sigmoid(),
        )

    def loss_of(model: nn.Module, dense: Tensor, indices: Tensor, offsets: Tensor, clicked: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(model(dense, indices, offsets), clicked)

    return train(setup, model, make, loss_of, "adagrad")


class Residual(nn.Module):
    """A block of a diffusion U-Net: group normalization, convolutions, the time's embedding, and attention over pixels."""

    def __init__(self, before: int, after: int, time: int, heads: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(32, before), nn.SiLU(), nn.Conv2d(before, after, 3, padding=1))
        self.time = nn.Linear(time, after)
        self.second = nn.Sequential(
            nn.GroupNorm(32, after), nn.SiLU(), nn.Dropout(0.1), nn.Conv2d(after, after, 3, padding=1)
        )
        self.skip = nn.Conv2d(before, after, 1) if before != after else nn.Identity()
        self.heads = heads
        if heads:
            self.norm, self.qkv, self.out = (
                nn.GroupNorm(32, after),
                nn.Linear(after, 3 * after),
                nn.Linear(after, after),
            )

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        hidden = self.first(x) + self.time(time)[:, :, None, None]
        x = self.skip(x) + self.second(hidden)
        if not self.heads:
            return x
        q, k, v = (
            self.qkv(self.norm(x).flatten(2).transpose(1, 2)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return x + self.out(mixed).transpose(1, 2).view_as(x)


class Denoiser(nn.Module):
    def __init__(self, widths: tuple[int, ...]) -> None:
        super().__init__()
        self.width, time = widths[0], 4 * widths[0]
        self.embed = nn.Sequential(nn.Linear(self.width, time), nn.SiLU(), nn.Linear(time, time))
        self.enter = nn.Conv2d(3, widths[0], 3, padding=1)
        pairs = [*zip((widths[0], *widths), widths, strict=False)]
        self.down = nn.ModuleList(
            Residual(before, after, time, 4 if i > 0 else 0) for i, (before, after) in enumerate(pairs)
        )
        self.middle = Residual(widths[-1], widths[-1], time, 4)
        self.up = nn.ModuleList(Residual(2 * after, before, time, 0) for before, after in pairs[::-1])
        self.leave = nn.Sequential(nn.GroupNorm(32, widths[0]), nn.SiLU(), nn.Conv2d(widths[0], 3, 3, padding=1))

    def forward(self, x: Tensor, when: Tensor) -> Tensor:
        rates = torch.exp(-math.log(1e4) * torch.arange(self.width // 2, device=x.device) / (self.width // 2))
        angles = when[:, None] * rates
        time = self.embed(torch.cat([angles.sin(), angles.cos()], 1).to(x.dtype))
        x, kept = self.enter(x), []
        for i, block in enumerate(self.down):
            x = block(functional.avg_pool2d(x, 2) if i else x, time)
            kept.append(x)
        x = self.middle(x, time)
        for i, block in enumerate(self.up):
            x = block(torch.cat([functional.interpolate(x, scale_factor=2.0) if i else x, kept.pop()], 1), time)
        return self.leave(x)


def diffusion(setup: Setup) -> Step:
    model = setup.place(Denoiser(setup.pick((128, 256, 384, 512), (32, 64))))
    size = setup.pick(64, 16)

    def loss_of(model: nn.Module, images: Tensor, noise: Tensor, when: Tensor) -> Tensor:
        level = (when / 1000)[:, None, None, None].to(images.dtype)
        return functional.mse_loss(model((1 - level) * images + level * noise, when), noise)

    def make() -> Inputs:
        shape = (setup.batch, 3, size, size)
        return setup.real(*shape), setup.real(*shape), setup.whole(1000, setup.batch)

    return train(setup, model, make, loss_of, "adamw_foreach", max_norm=1.0)


def clip(setup: Setup) -> Step:
    """Two towers and the scores of all pairs in the batch."""
    from transformers import CLIPConfig, CLIPModel, CLIPTextConfig, CLIPVisionConfig

    width, layers = setup.pick((512, 8), (64, 2))
    size, length = setup.pick((224, 77), (32, 16))
    both = {"hidden_size": width, "intermediate_size": 4 * width, "num_hidden_layers": layers, "num_attention_heads": 8}
    config = CLIPConfig(
        text_config=CLIPTextConfig(**both, max_position_embeddings=length).to_dict(),
        vision_config=CLIPVisionConfig(**both, image_size=size, patch_size=16).to_dict(),
        projection_dim=width,
    )
    model = setup.place(CLIPModel(config))

    def make() -> Inputs:
        return setup.whole(49000, setup.batch, length), setup.real(setup.batch, 3, size, size)

    def loss_of(model: nn.Module, tokens: Tensor, images: Tensor) -> Tensor:
        return model(input_ids=tokens, pixel_values=images, return_loss=True).loss

    return train(setup, model, make, loss_of, "adamw", max_norm=1.0)
