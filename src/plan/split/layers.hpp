// Which layers run on which card: what assign() finds for a model.
#pragma once

#include "plan/model/architecture.hpp"
#include "plan/split/split.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vram::plan {

// How fast cards are, and how long the parts of a model take on them: enough to balance parts
// between cards, not to predict a step. The rates are those of dry runs
// (python/vram/dry/rates.json), which the program contains. Constant data and pure functions.
//
// What large kernels are assumed to reach.
struct CardSpeed {
  double flops_per_s = 1;
  double bytes_per_s = 1;
};
// Of a card by its name ("H100 80GB"); none if its rates are not known.
[[nodiscard]] std::optional<CardSpeed> speed_of(const std::string& card, Precision precision);

// What a part of a model does in a step of training, or for one generated token.
struct PartWork {
  double flops = 0;
  double bytes = 0;  // of memory that is read

  PartWork& operator+=(const PartWork& other);
  [[nodiscard]] uint64_t time_ns(const CardSpeed& speed) const;
};

struct Works {
  std::vector<PartWork> blocks;
  PartWork head;
};
[[nodiscard]] Works works_of(const Architecture& model, const Task& task);

// The text of rates.json.
[[nodiscard]] std::string_view rates_text();

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
