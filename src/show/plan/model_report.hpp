// The memory of a model on cards, as `vram plan --model` found it. Plain values.
#pragma once

#include "plan/model/architecture.hpp"
#include "plan/model/task.hpp"
#include "plan/split/split.hpp"

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

  // The card that is used most.
  [[nodiscard]] const plan::CardShare& fullest() const {
    return *std::ranges::max_element(
        split.cards, {}, [](const plan::CardShare& each) { return each.estimate.peak_bytes(); });
  }
};

}  // namespace vram::show
