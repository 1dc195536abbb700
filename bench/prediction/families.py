"""The families of training programs on which predictions are measured.

The halves were fixed before any of the programs was measured, but after the first rules were written. Rules and constants are chosen with the programs of `choose` alone; those of
`prove` are measured too, but only to show how exact the rules are for programs that they were not tuned for. `fresh` was added later, after rules
had been changed with `prove` in view: its programs were predicted before they were measured for the first time. So were those of `blind`, which were
written before rules were changed with `fresh` in view. `unseen` came last: programs of kinds that no other half has, committed before any of them ran on a GPU.
`later` was written after the rules had been changed with `unseen` in view, and committed before any of its programs was predicted or ran on a GPU.
`further` was written after the rules had been changed with `later` in view, and committed before any of its programs was predicted or ran on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import blind_others
import blind_vision
import fresh_language
import fresh_others
import fresh_vision
import further_language
import further_others
import further_vision
import language
import later_language
import later_others
import later_vision
import others
import unseen_language
import unseen_others
import unseen_sound
import unseen_vision
import vision
from training import Setup, Step

HALVES = ("choose", "prove")
GROUPS = (*HALVES, "fresh", "blind", "unseen", "later", "further")
BOTH = ("fp32", "bf16_autocast")
PURE = (*BOTH, "bf16")


@dataclass(frozen=True)
class Family:
    name: str
    half: str
    build: Callable[[Setup], Step]
    batches: tuple[int, int]
    precisions: tuple[str, ...] = BOTH


@dataclass(frozen=True)
class Program:
    family: Family
    precision: str
    batch: int

    @property
    def name(self) -> str:
        return f"{self.family.name}.{self.precision}.{self.batch}"


def _of(half: str) -> Callable[..., Family]:
    """Return what enters a family into a half: its function, two batch sizes, and precisions."""

    def enter(build: Callable[[Setup], Step], *batches: int, precisions: tuple[str, ...] = BOTH) -> Family:
        return Family(build.__name__, half, build, (batches[0], batches[1]), precisions)

    return enter


choose, prove, fresh, blind, unseen, later, further = map(_of, GROUPS)

FAMILIES = (
    choose(vision.resnet50, 16, 48, precisions=(*BOTH, "fp16")),
    choose(vision.resnet18_channels_last, 32, 96, precisions=(*BOTH, "fp16")),
    choose(vision.vit, 16, 48),
    choose(vision.convnext, 16, 48),
    choose(vision.unet, 4, 12),
    choose(vision.video, 4, 12),
    choose(vision.detection, 4, 12),
    choose(language.gpt2, 4, 10),
    choose(language.llama, 4, 12, precisions=PURE),
    choose(language.llama_lora, 4, 12, precisions=PURE),
    choose(language.t5, 8, 24, precisions=PURE),
    choose(language.bert, 8, 24),
    choose(language.moe, 4, 16),
    choose(language.lstm, 32, 96),
    choose(others.wav2vec2, 4, 12),
    choose(others.graph, 50, 200),
    choose(others.recommendation, 4096, 16384),
    choose(others.diffusion, 8, 32, precisions=PURE),
    choose(others.clip, 32, 128),
    prove(vision.mobilenet, 32, 96),
    prove(vision.swin, 16, 48),
    prove(vision.segmentation, 4, 12),
    prove(vision.gan, 64, 256),
    prove(language.qwen_checkpointed, 2, 6, precisions=PURE),
    prove(language.translation, 8, 32),
    prove(others.whisper, 4, 12),
    prove(others.speech, 16, 48),
    prove(others.graph_attention, 20, 80),
    fresh(fresh_vision.efficientnet, 24, 64),
    fresh(fresh_vision.densenet, 16, 40),
    fresh(fresh_vision.mlp_mixer, 24, 80),
    fresh(fresh_vision.dit, 16, 56),
    fresh(fresh_vision.wgan_penalty, 48, 160),
    fresh(fresh_vision.vae, 64, 200),
    fresh(fresh_vision.pointnet, 8, 28),
    fresh(fresh_language.siglip, 24, 100),
    fresh(fresh_language.seq2seq, 24, 80),
    fresh(fresh_language.gemma, 2, 5),
    fresh(fresh_language.mamba, 4, 12),
    fresh(fresh_others.dlrm, 2048, 12000),
    fresh(fresh_others.wavenet, 4, 14),
    fresh(fresh_others.conformer, 6, 20),
    fresh(fresh_others.actor_critic, 24, 72),
    blind(blind_vision.regnet, 24, 72),
    blind(blind_vision.shufflenet, 48, 160),
    blind(blind_vision.pyramid, 8, 24),
    blind(blind_vision.pix2pix, 8, 24),
    blind(blind_vision.volumes, 2, 6),
    blind(blind_vision.styles, 16, 48),
    blind(blind_vision.super_resolution, 8, 28),
    blind(blind_vision.convmixer, 24, 80),
    blind(blind_others.tcn, 16, 56),
    blind(blind_others.quartznet, 12, 40),
    blind(blind_others.neox, 4, 10),
    blind(blind_others.tagger, 32, 112),
    blind(blind_others.molecules, 400, 1500),
    blind(blind_others.nerf, 8, 24),
    unseen(unseen_vision.resnext, 16, 48),
    unseen(unseen_vision.maxvit, 12, 36),
    unseen(unseen_vision.yolo, 8, 24, precisions=(*BOTH, "fp16")),
    unseen(unseen_vision.moco, 24, 80),
    unseen(unseen_vision.distillation, 24, 72),
    unseen(unseen_vision.cyclegan, 4, 12),
    unseen(unseen_vision.depth, 6, 18),
    unseen(unseen_vision.raft, 4, 12),
    unseen(unseen_language.modernbert, 8, 24),
    unseen(unseen_language.phi, 4, 12),
    unseen(unseen_language.dpo, 2, 6),
    unseen(unseen_language.mixture, 4, 12),
    unseen(unseen_language.transformer_xl, 12, 40),
    unseen(unseen_language.deberta, 16, 48),
    unseen(unseen_others.painter, 8, 28, precisions=(*BOTH, "fp16")),
    unseen(unseen_others.vqvae, 24, 80),
    unseen(unseen_sound.transducer, 8, 24),
    unseen(unseen_others.edges, 20, 70),
    unseen(unseen_others.tabular, 512, 2000),
    unseen(unseen_others.mae, 32, 112),
    unseen(unseen_others.ode, 32, 100),
    unseen(unseen_others.perceiver, 12, 40),
    unseen(unseen_sound.codec, 12, 40),
    later(later_vision.standardized, 16, 56, precisions=(*BOTH, "fp16")),
    later(later_vision.registers, 16, 56),
    later(later_vision.gates, 4, 16),
    later(later_vision.centers, 5, 20, precisions=(*BOTH, "fp16")),
    later(later_vision.clips, 12, 44),
    later(later_vision.velocity, 20, 80, precisions=PURE),
    later(later_language.alibi, 3, 9, precisions=PURE),
    later(later_language.mistral, 2, 7, precisions=PURE),
    later(later_language.qwen_lora, 3, 12, precisions=PURE),
    later(later_language.gated_t5, 6, 24, precisions=PURE),
    later(later_language.electra, 4, 14),
    later(later_language.expert_choice, 4, 14, precisions=PURE),
    later(later_language.packed, 128, 480),
    later(later_others.isomorphism, 300, 1200),
    later(later_others.separation, 5, 20),
    later(later_others.dueling, 320, 1400),
    later(later_others.purchases, 240, 1000),
    later(later_others.autoformer, 32, 140),
    further(further_vision.inception, 10, 41, precisions=(*BOTH, "fp16")),
    further(further_vision.cosines, 10, 38),
    further(further_vision.queries, 6, 26, precisions=(*BOTH, "fp16")),
    further(further_vision.crops, 8, 34),
    further(further_vision.streams, 5, 20, precisions=PURE),
    further(further_vision.slots, 10, 44),
    further(further_vision.hashes, 2500, 11000, precisions=(*BOTH, "fp16")),
    further(further_vision.flows, 20, 85),
    further(further_language.latents, 2, 7, precisions=PURE),
    further(further_language.soft_caps, 2, 6, precisions=PURE),
    further(further_language.gaps, 3, 12),
    further(further_language.retention, 2, 8, precisions=PURE),
    further(further_language.advantages, 1, 4, precisions=PURE),
    further(further_language.drafts, 2, 8, precisions=PURE),
    further(further_language.ranking, 2, 6),
    further(further_language.permuted, 4, 15),
    further(further_others.clouds, 9, 40),
    further(further_others.fusion, 50, 210),
    further(further_others.critics, 2500, 11000),
    further(further_others.viscous, 2500, 10500),
    further(further_others.cleaner, 7, 30),
    further(further_others.interest, 4000, 17000),
)


def programs(halves: tuple[str, ...] = HALVES) -> Iterator[Program]:
    for family in FAMILIES:
        if family.half in halves:
            for precision in family.precisions:
                for batch in family.batches:
                    yield Program(family, precision, batch)


def build(program: Program, device: str = "cuda", *, tiny: bool = False) -> Step:
    return program.family.build(Setup(program.batch, program.precision, device, tiny))


def preload() -> None:
    """Imports what the programs import when they are built, so that forks of this process share it.

    Not torch_geometric: its import initializes CUDA, which forks could not use then.
    """
    import transformers

    for name in ("GPT2LMHeadModel", "LlamaForCausalLM", "Qwen2ForCausalLM", "T5ForConditionalGeneration", "BertForMaskedLM", "CLIPModel",
                 "Wav2Vec2ForAudioFrameClassification", "WhisperForConditionalGeneration", "SiglipModel", "Gemma3ForCausalLM",
                 "GPTNeoXForCausalLM", "ModernBertForMaskedLM", "PhiForCausalLM", "DebertaV2ForTokenClassification",
                 "ViTMAEForPreTraining", "MistralForCausalLM", "Qwen3ForCausalLM", "ElectraForPreTraining",
                 "Swinv2ForImageClassification", "Gemma2ForCausalLM", "BartForConditionalGeneration", "GraniteForCausalLM", "Olmo2Model",
                 "RobertaForSequenceClassification", "XLNetLMHeadModel"):  # fmt: skip
        getattr(transformers, name)
