// Numbers of a snapshot's texts: keywords (keywords.hpp) first, then the ids of the trace's string
// table. A keyword enters that table only if it is used as a text, such as a function called
// "size".
#pragma once

#include "trace/import/torch/keywords.hpp"
#include "trace/tables.hpp"

#include <array>
#include <cstdint>
#include <string_view>

namespace vram::trace::torch {

class Texts {
 public:
  explicit Texts(StringTable& strings) : strings_(strings) {}

  [[nodiscard]] uint32_t number(std::string_view text);
  [[nodiscard]] StringId string_id(uint32_t number);
  // Valid until the next call of number() or string_id().
  [[nodiscard]] std::string_view view(uint32_t number) const;
  [[nodiscard]] uint64_t memory_bytes() const { return memory_bytes_; }

 private:
  StringTable& strings_;
  std::array<StringId, kKeywordCount> keyword_ids_ = {};  // 0: not in the table yet
  uint64_t memory_bytes_ = 0;
};

}  // namespace vram::trace::torch
