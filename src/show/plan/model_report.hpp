// The memory of a model on cards, as `vram plan --model` found it: as plain values, for people, and
// for programs. Pure functions.
#pragma once

#include "plan/model/architecture.hpp"
#include "plan/split/split.hpp"
#include "show/draw/page.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace vram::show {

struct ModelReport {
  std::string path = {};
  plan::Architecture model = {};
  plan::Task task = {};                // with the batch of the plan
  std::vector<plan::Card> cards = {};  // empty: none was named
  plan::SplitPlan split = {};          // its first card, if none was named

  // The card with the largest part of its memory in use.
  [[nodiscard]] const plan::CardShare& fullest() const {
    return *std::ranges::max_element(split.cards, {}, [&](const plan::CardShare& each) {
      const uint64_t budget_bytes = cards.empty() ? 1 : cards[each.card].budget_bytes;
      return static_cast<double>(each.estimate.peak_bytes()) / static_cast<double>(budget_bytes);
    });
  }
};

// vram.model_plan/1, documented in docs/json.md: one JSON document with a newline at its end.
[[nodiscard]] std::string model_json(const ModelReport& report);

[[nodiscard]] std::string draw_model(const ModelReport& report, const TextOptions& options);

}  // namespace vram::show
