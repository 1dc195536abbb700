#include "reports/batch.hpp"

namespace vram::reports {

std::optional<int32_t> DictionaryBuilder::index(std::string_view text) {
  if (text.empty()) return std::nullopt;
  // The table's text 0 is the empty one, which dictionaries leave out.
  return static_cast<int32_t>(texts_.intern(valid_utf8(text))) - 1;
}

Dictionary DictionaryBuilder::finish() const {
  const uint64_t count = texts_.size() - 1;
  Values<std::string_view> values(count);
  for (trace::StringId id = 1; id <= count; ++id) values.add(texts_[id]);
  Array array{.length = count, .null_count = 0, .buffers = {nullptr}, .dictionary = nullptr};
  std::move(values).share(array);
  return std::make_shared<const Array>(std::move(array));
}

}  // namespace vram::reports
