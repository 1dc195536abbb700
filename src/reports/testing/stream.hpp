// Owners of Arrow's structs for tests: they release them, as consumers must.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>
#include <vram/arrow.h>

namespace vram::reports::testing {

template <typename Exported>
class Owned {
 public:
  Owned() = default;
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    if (exported_.release != nullptr) exported_.release(&exported_);
  }
  [[nodiscard]] Exported* operator->() { return &exported_; }
  [[nodiscard]] Exported* get() { return &exported_; }

 private:
  Exported exported_ = {};
};

using Stream = Owned<ArrowArrayStream>;
using Schema = Owned<ArrowSchema>;
using Rows = Owned<ArrowArray>;

[[nodiscard]] inline bool is_valid(const ArrowArray& array, int64_t row) {
  const auto* bits = static_cast<const uint8_t*>(array.buffers[0]);
  return bits == nullptr || (bits[row / 8] >> row % 8 & 1) != 0;
}

template <typename T>
[[nodiscard]] T number(const ArrowArray& array, int64_t row) {
  T value;
  std::memcpy(&value, static_cast<const char*>(array.buffers[1]) + row * int64_t{sizeof(T)},
              sizeof(T));
  return value;
}

[[nodiscard]] inline std::string text(const ArrowArray& array, int64_t row) {
  const auto begin = number<int64_t>(array, row);
  const auto end = number<int64_t>(array, row + 1);
  return {static_cast<const char*>(array.buffers[2]) + begin, static_cast<size_t>(end - begin)};
}

// All rows of a column as numbers or texts; nothing where a row is null.
template <typename T>
[[nodiscard]] std::vector<std::optional<T>> column(ArrowArrayStream* stream,
                                                   const std::string& name) {
  Schema schema;
  EXPECT_EQ(stream->get_schema(stream, schema.get()), 0);
  int64_t index = 0;
  while (index < schema->n_children && schema->children[index]->name != name) ++index;
  EXPECT_LT(index, schema->n_children) << name;
  std::vector<std::optional<T>> values;
  while (true) {
    Rows rows;
    EXPECT_EQ(stream->get_next(stream, rows.get()), 0);
    if (rows->release == nullptr || index == schema->n_children) return values;
    const ArrowArray& array = *rows->children[index];
    EXPECT_EQ(array.length, rows->length);
    for (int64_t row = 0; row < array.length; ++row) {
      if (!is_valid(array, row)) {
        values.emplace_back();
      } else if constexpr (!std::is_same_v<T, std::string>) {
        values.push_back(number<T>(array, row));
      } else if (array.dictionary != nullptr) {
        values.push_back(text(*array.dictionary, number<int32_t>(array, row)));
      } else {
        values.push_back(text(array, row));
      }
    }
  }
}

}  // namespace vram::reports::testing
