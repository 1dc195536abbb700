"""Training programs: real models, real PyTorch, seeded. Each yields its loss after every step.

The first nine use GPU memory in the usual ways. The last three test special cases of allocators: CUDA graphs of several sizes,
four streams at once, gradients over NCCL.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

Losses = Iterator[Tensor]
DEVICE = torch.device("cuda")


def llama(layers: int = 16) -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=2048,
        num_hidden_layers=layers,
        num_attention_heads=16,
        num_key_value_heads=4,
        intermediate_size=5632,
        vocab_size=32000,
        max_position_embeddings=8192,
    )
    with torch.device("cuda"):
        torch.set_default_dtype(torch.bfloat16)
        model = LlamaForCausalLM(config)
        torch.set_default_dtype(torch.float32)
    return model


def step(loss: Tensor, optimizer: torch.optim.Optimizer) -> Tensor:
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss


def gpt2_fixed(steps: int) -> Losses:
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(n_layer=12, n_embd=768, n_head=12)).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    for _ in range(steps):
        tokens = torch.randint(0, 50000, (16, 1024), device=DEVICE)
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(input_ids=tokens, labels=tokens).loss
        yield step(loss, optimizer)


def resnet50(steps: int) -> Losses:
    import torchvision

    model = torchvision.models.resnet50().to(DEVICE).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(steps):
        images = torch.randn(128, 3, 224, 224, device=DEVICE).to(memory_format=torch.channels_last)
        labels = torch.randint(0, 1000, (128,), device=DEVICE)
        with torch.autocast("cuda", torch.float16):
            loss = functional.cross_entropy(model(images), labels)
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        yield loss


def llama_varlen(steps: int) -> Losses:
    model = llama()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5)
    for _ in range(steps):
        batch = random.choice([2, 4, 6, 8])
        length = int(min(2048, max(64, random.lognormvariate(6.2, 0.7))))
        tokens = torch.randint(0, 32000, (batch, length), device=DEVICE)
        yield step(model(input_ids=tokens, labels=tokens).loss, optimizer)


def rlhf(steps: int) -> Losses:
    policy, reference = llama(), llama().eval()
    optimizer = torch.optim.AdamW(policy.parameters(), 1e-6)
    for _ in range(steps):
        batch, length = random.choice([4, 8]), random.randint(32, 700)
        prompts = torch.randint(0, 32000, (batch, length), device=DEVICE)
        policy.eval()
        with torch.no_grad():
            tokens = policy.generate(
                input_ids=prompts,
                max_new_tokens=random.randint(16, 64),
                do_sample=True,
                pad_token_id=0,
                eos_token_id=None,
            )
            expected = reference(input_ids=tokens).logits.log_softmax(-1)
        policy.train()
        for part in tokens.split(4):
            found = policy(input_ids=part).logits.log_softmax(-1)
            loss = step((found.exp() * (found - expected[: found.shape[0]])).sum(-1).mean(), optimizer)
        del found, expected, tokens
        yield loss


class UNet(nn.Module):
    def __init__(self, channels: tuple[int, ...] = (64, 128, 256, 512, 512)) -> None:
        super().__init__()
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        width = 3
        for wanted in channels:
            self.down.append(self.block(width, wanted))
            width = wanted
        for wanted in reversed(channels[:-1]):
            self.up.append(self.block(width + wanted, wanted))
            width = wanted
        self.out = nn.Conv2d(width, 3, 1)

    @staticmethod
    def block(inside: int, outside: int) -> nn.Module:
        def half(width: int) -> list[nn.Module]:
            return [nn.Conv2d(width, outside, 3, padding=1), nn.GroupNorm(8, outside), nn.SiLU()]

        return nn.Sequential(*half(inside), *half(outside))

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for i, down in enumerate(self.down):
            x = down(x)
            if i < len(self.down) - 1:
                kept.append(x)
                x = functional.max_pool2d(x, 2)
        for up in self.up:
            skip = kept.pop()
            x = up(torch.cat([functional.interpolate(x, size=skip.shape[-2:]), skip], 1))
        return self.out(x)


def unet_multiscale(steps: int) -> Losses:
    model = UNet().to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), 1e-4)
    average = [parameter.detach().clone() for parameter in model.parameters()]
    for _ in range(steps):
        height, width = random.choice(range(192, 769, 32)), random.choice(range(192, 769, 32))
        images = torch.randn(max(1, int(8 * 512 * 512 / (height * width))), 3, height, width, device=DEVICE)
        with torch.autocast("cuda", torch.bfloat16):
            loss = functional.mse_loss(model(images), images)
        step(loss, optimizer)
        for mean, parameter in zip(average, model.parameters(), strict=True):
            mean.lerp_(parameter.detach(), 0.01)
        yield loss


def prefetch_streams(steps: int) -> Losses:
    import torchvision

    model = torchvision.models.convnext_base().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    side = torch.cuda.Stream()

    def prefetch() -> Tensor:
        with torch.cuda.stream(side):
            batch = torch.randn(random.choice([24, 32, 48, 64]), 3, 224, 224).pin_memory()
            return batch.to(DEVICE, non_blocking=True) * 2 - 1

    following = prefetch()
    for i in range(steps):
        torch.cuda.current_stream().wait_stream(side)
        images = following
        images.record_stream(torch.cuda.current_stream())
        following = prefetch()
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(images).float().square().mean()
        step(loss, optimizer)
        if i % 5 == 4:
            with torch.no_grad():
                model.eval()(torch.randn(256, 3, 224, 224, device=DEVICE))
            model.train()
        yield loss


def leak(steps: int) -> Losses:
    import torchvision

    model = torchvision.models.resnet18().to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    history = []
    for i in range(steps):
        images = torch.randn(random.choice([48, 64]), 3, 224, 224, device=DEVICE)
        loss = step(model(images).square().mean(), optimizer)
        if i % 3 == 0:
            history.append(model(images[:8]).square().mean())  # keeps a graph alive
        yield loss


def offload(steps: int) -> Losses:
    model = llama(layers=12)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5)
    for _ in range(steps):
        tokens = torch.randint(0, 32000, (4, random.randint(300, 1800)), device=DEVICE)
        with torch.autograd.graph.save_on_cpu(pin_memory=False):
            loss = model(input_ids=tokens, labels=tokens).loss
        yield step(loss, optimizer)


def compiled(steps: int) -> Losses:
    layers = [nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, dropout=0.0) for _ in range(4)]
    model = nn.Sequential(*layers).to(DEVICE)
    fast = torch.compile(model, mode="reduce-overhead")
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    for _ in range(steps):
        x = torch.randn(16, 256, 512, device=DEVICE)
        torch.compiler.cudagraph_mark_step_begin()
        yield step(fast(x).square().mean(), optimizer)


def graphs(steps: int) -> Losses:
    """Replays graphs of three sizes at random, with ordinary tensors of other sizes in between."""
    model = nn.Sequential(nn.Linear(2048, 8192), nn.GELU(), nn.Linear(8192, 2048)).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    inputs = {n: torch.randn(n, 2048, device=DEVICE) for n in (256, 1024, 4096)}
    captured = {}
    for n, x in inputs.items():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step(model(x).square().mean(), optimizer)
        torch.cuda.current_stream().wait_stream(side)
        optimizer.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
        captured[n] = (graph, loss)
    for _ in range(steps):
        n = random.choice(list(captured))
        inputs[n].normal_()
        captured[n][0].replay()
        between = torch.randn(random.randint(64, 8192), 16384, device=DEVICE)
        yield captured[n][1] + between.square().mean()


def four_streams(steps: int) -> Losses:
    """Trains four models of different sizes in parallel, each on its own stream."""
    streams = [torch.cuda.Stream() for _ in range(4)]
    models = []
    for i, stream in enumerate(streams):
        with torch.cuda.stream(stream):
            width = 1024 * (i + 1)
            layers = [
                m for _ in range(4) for m in (nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            ]
            model = nn.Sequential(*layers).to(DEVICE)
            models.append((model, torch.optim.SGD(model.parameters(), 1e-3), width))
    for _ in range(steps):
        losses = []
        for stream, (model, optimizer, width) in zip(streams, models, strict=True):
            with torch.cuda.stream(stream):
                x = torch.randn(random.randint(512, 8192), width, device=DEVICE)
                losses.append(step(model(x).square().mean(), optimizer))
        for stream in streams:
            torch.cuda.current_stream().wait_stream(stream)
        yield torch.stack([loss.detach() for loss in losses]).sum()


def ddp(steps: int) -> Losses:
    """Runs one rank of data-parallel training over NCCL; ranks get batches of different lengths."""
    import torch.distributed as dist

    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    with torch.cuda.device(rank):
        model = nn.parallel.DistributedDataParallel(llama(layers=8), device_ids=[rank])
        optimizer = torch.optim.AdamW(model.parameters(), 1e-5)
        for _ in range(steps):
            tokens = torch.randint(0, 32000, (4, random.randint(200, 900) * (rank + 1)), device=f"cuda:{rank}")
            yield step(model(input_ids=tokens, labels=tokens).loss, optimizer)
    dist.destroy_process_group()


PROGRAMS: dict[str, tuple[Callable[[int], Losses], int]] = {
    "gpt2_fixed": (gpt2_fixed, 20),
    "resnet50": (resnet50, 40),
    "llama_varlen": (llama_varlen, 40),
    "rlhf": (rlhf, 6),
    "unet_multiscale": (unet_multiscale, 40),
    "prefetch_streams": (prefetch_streams, 20),
    "leak": (leak, 60),
    "offload": (offload, 4),
    "compiled": (compiled, 20),
    "graphs": (graphs, 60),
    "four_streams": (four_streams, 20),
    "ddp": (ddp, 20),
}
