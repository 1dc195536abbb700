#include "plan/model/memory.hpp"

#include "base/bytes.hpp"
#include "base/file.hpp"
#include "base/testing/paths.hpp"
#include "plan/model/activations.hpp"
#include "plan/model/families.hpp"
#include "plan/model/weights.hpp"

#include <gtest/gtest.h>

namespace vram::plan {
namespace {

constexpr uint64_t kLlama7b = 6'738'415'616;
constexpr uint64_t kWorkspace = 2 * 32 * kMiB;  // of two threads

Architecture read_model(const std::string& name) {
  const std::string path = source_path("tests/data/plan/models/" + name + ".json");
  return parse_model(read_whole(path, kMiB).value()).value();
}

Phase phase_of(const Architecture& model, const Task& task, std::string_view name,
               const Share& share) {
  for (const Phase& each : Memory(model, task).estimate(share).phases)
    if (each.name == name) return each;
  ADD_FAILURE() << "no phase " << name;
  return {};
}

Phase phase_of(const Architecture& model, const Task& task, std::string_view name) {
  return phase_of(model, task, name, whole(model));
}

TEST(ModelMemory, OfMixedTrainingHasSixteenBytesForEachParameter) {
  const Architecture model = read_model("llama-7b");
  const Task task = {.batch = 1, .sequence = 4096};
  const Phase step = phase_of(model, task, "optimizer step");
  EXPECT_EQ(step.of(Holder::kWeights), 2 * kLlama7b);
  EXPECT_EQ(step.of(Holder::kGradients), 2 * kLlama7b);
  EXPECT_EQ(step.of(Holder::kOptimizer), 12 * kLlama7b);
  EXPECT_EQ(step.of(Holder::kActivations), 0u);
  EXPECT_EQ(step.total_bytes(), 16 * kLlama7b + kWorkspace);
}

TEST(ModelMemory, OfPlainAdamWNeedsTheSquareRootsOfItsMoments) {
  const Architecture model = read_model("gpt2");
  const uint64_t count = parameter_count(model);
  Task task = {.precision = Precision::kFp32, .sequence = 128};
  EXPECT_EQ(phase_of(model, task, "optimizer step").total_bytes(), 20 * count + kWorkspace);
  task.optimizer = Optimizer::kAdamWFused;
  EXPECT_EQ(phase_of(model, task, "optimizer step").total_bytes(), 16 * count + kWorkspace);
  task.optimizer = Optimizer::kSgd;
  EXPECT_EQ(phase_of(model, task, "optimizer step").total_bytes(), 8 * count + kWorkspace);
}

// By hand, for a token in bf16: both norms keep an fp32 copy (4 h), a normalized one and their
// output (2 h each) and a statistic; attention keeps q, k, v and its output (2 h each) and a
// statistic for each head; the MLP keeps four tensors of its inner width.
TEST(ModelMemory, OfALlamaLayerKeepsWhatTheFormulaSays) {
  const Architecture model = read_model("llama-7b");
  const Task task = {.batch = 1, .sequence = 4096};
  const uint64_t hidden = 4096;
  const uint64_t inner = 11008;
  EXPECT_EQ(bytes_of(kept_by(model.blocks.front(), task)),
            2 * (8 * hidden + 4) + 4 * 2 * hidden + 4 * 32 + 4 * 2 * inner);
}

TEST(ModelMemory, OfAttentionWithScoresGrowsWithTheSquareOfTheSequence) {
  const auto scores = [](const char* name, Precision precision) {
    const Block block = read_model(name).blocks.front();
    const auto kept = [&](uint64_t sequence) {
      return bytes_of(kept_by(block, {.precision = precision, .sequence = sequence}));
    };
    return (kept(2048) - kept(1024)) / 1024 / block.attention.heads;  // for each pair of tokens
  };
  EXPECT_EQ(scores("gemma2-9b", Precision::kBf16), 8u);  // limited, in fp32, in bf16
  EXPECT_EQ(scores("gemma2-9b", Precision::kFp32), 8u);
  EXPECT_EQ(scores("llama-70b", Precision::kFp32), 4u);  // grouped heads in fp32
  EXPECT_EQ(scores("llama-70b", Precision::kBf16), 0u);
  EXPECT_EQ(scores("llama-7b", Precision::kFp32), 0u);
}

TEST(ModelMemory, OfCheckpointsKeepsTheInputsAndOneLayer) {
  const Architecture model = read_model("llama-7b");
  Task task = {.batch = 2, .sequence = 4096};
  task.checkpoints = true;
  const uint64_t layer = bytes_of(kept_by(model.blocks.front(), task));
  const uint64_t ids = 16;
  EXPECT_EQ(phase_of(model, task, "backward").of(Holder::kActivations) % task.tokens(), 0u);
  const uint64_t first = 2 * 4096 + ids + layer;  // of the first layer, whose backward comes last
  const uint64_t last = 32 * 2 * 4096 + ids + layer;
  const uint64_t found = phase_of(model, task, "backward").of(Holder::kActivations) / task.tokens();
  EXPECT_TRUE(found == first || found == last) << found;
}

TEST(ModelMemory, OfTheKvCacheFollowsHeadsWindowsAndType) {
  const auto cache = [](const char* name, uint64_t sequence, uint64_t number) {
    const Architecture model = read_model(name);
    const Task task = {.use = Use::kInfer,
                       .precision = Precision::kBf16,
                       .batch = 3,
                       .sequence = sequence,
                       .cached_bytes = number};
    return phase_of(model, task, "decode").of(Holder::kCache);
  };
  EXPECT_EQ(cache("llama-7b", 4096, 2), 3 * 2 * 32 * 4096ULL * 4096 * 2);
  EXPECT_EQ(cache("llama-70b", 4096, 2), 3 * 2 * 80 * 1024ULL * 4096 * 2);  // eight heads of 128
  EXPECT_EQ(cache("llama-70b", 4096, 1), 3 * 2 * 80 * 1024ULL * 4096);
  EXPECT_EQ(cache("mistral-7b", 32768, 2), 3 * 2 * 32 * 1024ULL * 4096 * 2);  // of the window
  EXPECT_EQ(cache("gemma2-9b", 8192, 2), 3 * 2 * 2048ULL * (21 * 4096 + 21 * 8192) * 2);
}

TEST(ModelMemory, OfAPrefillKeepsTheTokensThatAWindowLeavesOut) {
  const Architecture model = read_model("mistral-7b");
  const Task task = {.use = Use::kInfer, .precision = Precision::kBf16, .sequence = 32768};
  const uint64_t token = 2 * 32 * 1024ULL * 2;
  EXPECT_EQ(phase_of(model, task, "prefill").of(Holder::kCache), 32768 * token);
  EXPECT_EQ(phase_of(model, task, "decode").of(Holder::kCache), 4096 * token);
}

// Peaks of requested bytes on an H200 (PyTorch 2.11, bench/prediction/model_truth.py), of models
// with random weights.
struct Measured {
  const char* config;
  Task task;
  uint64_t peak_bytes;
};

constexpr const char* kMistral = R"({"model_type": "mistral", "hidden_size": 1536,
  "intermediate_size": 4096, "num_hidden_layers": 8, "num_attention_heads": 24,
  "num_key_value_heads": 8, "max_position_embeddings": 4096, "vocab_size": 32000,
  "tie_word_embeddings": false, "sliding_window": 256})";
constexpr const char* kFalcon = R"({"model_type": "falcon", "hidden_size": 1536,
  "num_hidden_layers": 9, "num_attention_heads": 24, "multi_query": true, "parallel_attn": true,
  "new_decoder_architecture": false, "vocab_size": 40000})";
constexpr const char* kBert = R"({"model_type": "bert", "hidden_size": 768,
  "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12,
  "max_position_embeddings": 1024, "vocab_size": 30522})";
// As Transformers 5 writes it.
constexpr const char* kQwenMoe = R"({"model_type": "qwen3_moe", "hidden_size": 1024,
  "intermediate_size": 3072, "num_hidden_layers": 6, "num_attention_heads": 16,
  "num_key_value_heads": 4, "head_dim": 128, "max_position_embeddings": 4096,
  "moe_intermediate_size": 512,
  "num_local_experts": 32, "num_experts_per_tok": 8, "vocab_size": 32000,
  "tie_word_embeddings": false})";

TEST(ModelMemory, IsThatOfAGpu) {
  Task lora = {.use = Use::kLora, .precision = Precision::kFp32, .batch = 6, .sequence = 640};
  Task cast = lora;
  cast.precision = Precision::kAutocast;
  cast.batch = 4;
  cast.sequence = 512;
  const auto infer = [](Precision precision, uint64_t batch, uint64_t sequence) {
    return Task{.use = Use::kInfer, .precision = precision, .batch = batch, .sequence = sequence};
  };
  const auto train = [](Precision precision) {
    return Task{.precision = precision, .optimizer = Optimizer::kSgd, .batch = 8, .sequence = 640};
  };
  const std::vector<Measured> rows = {{kMistral, lora, 6'401'151'240},
                                      {kMistral, infer(Precision::kBf16, 16, 768), 1'294'869'512},
                                      {kFalcon, train(Precision::kBf16), 8'345'571'736},
                                      {kFalcon, infer(Precision::kBf16, 16, 768), 2'997'627'212},
                                      {kBert, train(Precision::kAutocast), 4'333'312'436},
                                      {kBert, cast, 2'230'605'236},
                                      {kBert, infer(Precision::kFp32, 8, 1024), 1'524'791'528},
                                      {kQwenMoe, train(Precision::kAutocast), 9'397'099'880},
                                      {kQwenMoe, lora, 7'272'621'320}};
  for (const Measured& each : rows) {
    const Architecture model = parse_model(each.config).value();
    const uint64_t peak = Memory(model, each.task).peak_bytes(whole(model));
    EXPECT_NEAR(static_cast<double>(peak) / static_cast<double>(each.peak_bytes), 1, 0.02)
        << model.family;
  }
}

TEST(ModelMemory, OfLoraHasNoGradientsOfTheModel) {
  const Architecture model = read_model("llama-7b");
  Task task = {.use = Use::kLora, .precision = Precision::kBf16, .sequence = 1024};
  task.rank = 8;
  task.targets = Targets::kQueryValue;
  const uint64_t adapters = 32 * 2 * 8 * (4096 + 4096);
  const Phase step = phase_of(model, task, "optimizer step");
  EXPECT_EQ(step.of(Holder::kWeights), 2 * kLlama7b + 4 * adapters);
  EXPECT_EQ(step.of(Holder::kGradients), 4 * adapters);
  EXPECT_EQ(step.of(Holder::kOptimizer), 8 * adapters);
  // Norms do not keep their normalized input, and frozen layers not theirs.
  EXPECT_LT(phase_of(model, task, "loss").of(Holder::kActivations),
            phase_of(model, {.sequence = 1024}, "loss").of(Holder::kActivations));
}

TEST(ModelMemory, OfNf4HasHalfAByteAndScalesForLinearLayersOfBlocks) {
  const Architecture model = read_model("llama-7b");
  Task task = {.use = Use::kInfer, .precision = Precision::kBf16, .sequence = 1};
  task.quantization = Quantization::kNf4;
  const uint64_t linear = 32 * (4 * 4096ULL * 4096 + 3 * 4096ULL * 11008);
  EXPECT_EQ(phase_of(model, task, "decode").of(Holder::kWeights),
            linear / 2 + linear / 16 + 2 * (kLlama7b - linear));
}

TEST(ModelMemory, OfShardsDividesWhatTheStageSays) {
  const Architecture model = read_model("llama-7b");
  const Task task = {.sequence = 1024};
  Share share = whole(model);
  share.cards = 8;
  const auto step = [&](Sharding sharding) {
    share.sharding = sharding;
    Phase phase = phase_of(model, task, "optimizer step", share);
    phase.of(Holder::kCommunication) = 0;
    return phase.total_bytes() - kWorkspace;
  };
  EXPECT_EQ(step(Sharding::kNone), 16 * kLlama7b);
  EXPECT_EQ(step(Sharding::kOptimizer), 4 * kLlama7b + 12 * kLlama7b / 8);
  EXPECT_EQ(step(Sharding::kGradients), 2 * kLlama7b + 14 * kLlama7b / 8);
  EXPECT_EQ(step(Sharding::kWeights), 16 * kLlama7b / 8);
}

TEST(ModelMemory, OfPartsAddsUpToThatOfTheModel) {
  for (const char* name : {"llama-7b", "gpt2"}) {  // gpt2's head is tied
    const Architecture model = read_model(name);
    const Task task = {.sequence = 512};
    const Memory memory(model, task);
    const auto weights = [&](const Share& share) {
      return memory.estimate(share).peak().of(Holder::kWeights);
    };
    const size_t half = model.blocks.size() / 2;
    const uint64_t parts =
        weights({.first = 0, .last = half, .has_embedding = true, .has_head = false}) +
        weights({.first = half, .last = model.blocks.size(), .has_embedding = false});
    const uint64_t copied = model.is_head_tied ? 2 * model.vocabulary * model.hidden : 0;
    EXPECT_EQ(parts, weights(whole(model)) + copied) << name;
  }
}

TEST(ModelMemory, GrowsWithTheBatch) {
  const Architecture model = read_model("mixtral-8x7b");
  for (const Use use : {Use::kTrain, Use::kLora, Use::kInfer}) {
    uint64_t before = 0;
    for (const uint64_t batch : {1, 2, 7, 64}) {
      const Task task = {
          .use = use, .precision = Precision::kBf16, .batch = batch, .sequence = 2048};
      const uint64_t peak = Memory(model, task).peak_bytes(whole(model));
      EXPECT_GE(peak, before);
      before = peak;
    }
    EXPECT_GT(before, Memory(model, {.use = use, .precision = Precision::kBf16, .sequence = 2048})
                          .peak_bytes(whole(model)));
  }
}

TEST(ModelMemory, PeakIsTheLargestPhase) {
  const Architecture model = read_model("bert-base");
  const Task task = {.precision = Precision::kFp32, .batch = 64, .sequence = 512};
  const Memory memory(model, task);
  const Estimate estimate = memory.estimate(whole(model));
  EXPECT_EQ(memory.peak_bytes(whole(model)), estimate.peak_bytes());
  for (const Phase& each : estimate.phases) EXPECT_LE(each.total_bytes(), estimate.peak_bytes());
}

TEST(ModelMemory, RefusesTasksThatTheModelCannotDo) {
  const Architecture model = read_model("gpt2");
  const auto refusal = [&](const Task& task) { return check(model, task).error().message; };
  EXPECT_EQ(refusal({.sequence = 1025}),
            "sequences of 1025 tokens are longer than the model's 1024 positions, which are "
            "learned: use --sequence 1024");
  EXPECT_NE(refusal({.batch = kMaxTokens, .sequence = 2}).find("are more than 134,217,728 tokens"),
            std::string::npos);
  EXPECT_NE(refusal({.quantization = Quantization::kNf4}).find("quantized weights cannot"),
            std::string::npos);
}

}  // namespace
}  // namespace vram::plan
