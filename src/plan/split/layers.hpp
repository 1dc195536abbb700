// Which layers run on which card: what assign() finds for a model.
#pragma once

#include "plan/split/split.hpp"

#include <vector>

namespace vram::plan {

struct Layout {
  std::vector<CardShare> cards;  // in the order of the layers
  bool has_speeds = false;
};

// `split` is kDeviceMap or kPipeline. The first part is the embedding, the last one the norm and
// the head. Of a tied head, a device map has the head on the card of the embedding; a pipeline has
// a copy of the matrix. kTooLarge: they do not fit.
[[nodiscard]] Result<Layout> lay_out(const Architecture& model, const Task& task, Split split,
                                     const std::vector<Card>& cards);

}  // namespace vram::plan
