#include "plan/split/speed.hpp"

#include "base/json.hpp"
#include "plan/model/parts.hpp"
#include "plan/model/weights.hpp"

#include <algorithm>
#include <span>

namespace vram::plan {
namespace {

constexpr double kTera = 1e12;
constexpr double kGiga = 1e9;
constexpr double kNsPerSecond = 1e9;

double number(uint64_t value) { return static_cast<double>(value); }

// Multiplications and additions for one token: two for each number of the matrices it meets.
double matrix_flops(std::span<const Weight> weights, const Block* block) {
  double flops = 0;
  for (const Weight& each : weights) {
    if (each.kind != WeightKind::kLinear) continue;
    const bool is_expert = block != nullptr && block->experts && each.copies > 1;
    const double copies = is_expert ? number(block->experts->active) : number(each.copies);
    flops += 2 * number(each.outputs) * number(each.inputs) * copies;
  }
  return flops;
}

// Of queries with keys and of weights with values; a causal token meets half of the others.
double attention_flops(const Attention& attention, const Task& task, bool is_causal) {
  const double seen = number(std::min(task.sequence, attention.window.value_or(task.sequence)));
  return 4 * number(attention.query_width()) * seen * (is_causal ? 0.5 : 1);
}

// A backward computes the gradients of results, and those of weights that change.
double passes(const Task& task) {
  const double backward = task.use == Use::kTrain ? 2 : 1;
  return 1 + backward + (task.checkpoints ? 1 : 0);
}

}  // namespace

std::optional<CardSpeed> speed_of(const std::string& card, Precision precision) {
  static const Json kRates = Json::parse(rates_text());
  const auto found = kRates["gpus"].find(card);
  if (found == kRates["gpus"].end()) return std::nullopt;
  const char* type = precision == Precision::kFp32 ? "fp32" : "bf16";
  const auto fallback = found->contains(type) ? type : "fp32";
  const Json& assumed = kRates["assumed"];
  return CardSpeed{
      .flops_per_s = found->at(fallback).get<double>() * kTera * assumed["compute"].get<double>(),
      .bytes_per_s = found->at("memory").get<double>() * kGiga * assumed["memory"].get<double>()};
}

PartWork& PartWork::operator+=(const PartWork& other) {
  flops += other.flops;
  bytes += other.bytes;
  return *this;
}

uint64_t PartWork::time_ns(const CardSpeed& speed) const {
  return static_cast<uint64_t>(kNsPerSecond *
                               (flops / speed.flops_per_s + bytes / speed.bytes_per_s));
}

Works works_of(const Architecture& model, const Task& task) {
  Works works;
  if (task.use == Use::kInfer) {
    const Parts parts = parts_of(model, task, 1);
    for (size_t i = 0; i < model.blocks.size(); ++i)
      works.blocks.push_back({.bytes = number(parts.blocks[i].weights + parts.cache[i])});
    works.head.bytes = number(parts.head.weights + parts.tied.weights);
    return works;
  }
  const double tokens = number(task.tokens()) * passes(task);
  for (const Block& block : model.blocks)
    works.blocks.push_back(
        {.flops = tokens * (matrix_flops(weights_of(block), &block) +
                            attention_flops(block.attention, task, model.is_causal))});
  works.head.flops = tokens * 2 * number(model.vocabulary) * number(model.hidden);
  return works;
}

}  // namespace vram::plan
