#include "trace/import/torch/texts.hpp"

namespace vram::trace::torch {

uint32_t Texts::number(std::string_view text) {
  if (const std::optional<uint32_t> keyword = find_keyword(text)) return *keyword;
  const size_t known = strings_.size();
  const StringId id = strings_.intern(text);
  constexpr uint64_t kTableBytes = 24;  // offset and index
  if (strings_.size() != known) memory_bytes_ += text.size() + kTableBytes;
  return id + kKeywordCount;
}

StringId Texts::string_id(uint32_t number) {
  if (number >= kKeywordCount) return number - kKeywordCount;
  if (keyword_ids_[number] == 0) keyword_ids_[number] = strings_.intern(keyword_text(number));
  return keyword_ids_[number];
}

std::string_view Texts::view(uint32_t number) const {
  return number < kKeywordCount ? keyword_text(number) : strings_[number - kKeywordCount];
}

}  // namespace vram::trace::torch
