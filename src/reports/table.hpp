// Table: rows that are made when they are read, as batches in Arrow's layout. A table may be read
// once, by one thread at a time; the batches are independent of it.
#pragma once

#include "base/text.hpp"
#include "trace/tables.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>
#include <vram/arrow.h>

namespace vram::reports {

// Batch: some rows of a table in Arrow's memory layout, added column by column. Arrays never change
// once they exist, are shared, and may be read by any thread.
static_assert(std::endian::native == std::endian::little, "Bits numbers the rows of a byte so");

// The values of one column.
struct Array {
  uint64_t length = 0;
  uint64_t null_count = 0;
  // As Arrow orders them: which rows are valid (null: all), then the values, or the offsets and the
  // characters of texts.
  std::vector<std::shared_ptr<const void>> buffers;
  std::shared_ptr<const Array> dictionary;  // the values are indexes into it
};

struct Column {
  std::string name;
  const char* format = "";  // Arrow's name of the type of the values
  bool is_nullable = false;
  std::shared_ptr<const Array> array;
};

template <typename Container>
[[nodiscard]] std::shared_ptr<const void> share_buffer(Container values) {
  const auto kept = std::make_shared<const Container>(std::move(values));
  return {kept, kept->data()};
}

// One bit for each row, the first row in the lowest bit of the first byte.
class Bits {
 public:
  Bits(uint64_t rows, bool value) : bytes_((rows + 7) / 8, value ? 0xff : 0) {}
  void set(uint64_t row, bool value) {
    const auto bit = static_cast<uint8_t>(1U << row % 8);
    bytes_[row / 8] = static_cast<uint8_t>(value ? bytes_[row / 8] | bit : bytes_[row / 8] & ~bit);
  }
  [[nodiscard]] std::shared_ptr<const void> share() && { return share_buffer(std::move(bytes_)); }

 private:
  std::vector<uint8_t> bytes_;
};

// The values of a column while its rows are added in their order.
template <typename T>
class Values {
 public:
  static_assert(std::is_arithmetic_v<T>);
  static constexpr const char* kFormat = std::is_same_v<T, int32_t>    ? "i"
                                         : std::is_same_v<T, uint32_t> ? "I"
                                         : std::is_same_v<T, int64_t>  ? "l"
                                         : std::is_same_v<T, uint64_t> ? "L"
                                                                       : "g";
  explicit Values(uint64_t rows) { values_.reserve(rows); }
  void add(T value) { values_.push_back(value); }
  void share(Array& array) && { array.buffers.push_back(share_buffer(std::move(values_))); }

 private:
  std::vector<T> values_;
};

template <>
class Values<bool> {
 public:
  static constexpr const char* kFormat = "b";
  explicit Values(uint64_t rows) : bits_(rows, false) {}
  void add(bool value) { bits_.set(next_++, value); }
  void share(Array& array) && { array.buffers.push_back(std::move(bits_).share()); }

 private:
  Bits bits_;
  uint64_t next_ = 0;
};

// Texts of any bytes: those that are no UTF-8 are replaced.
template <>
class Values<std::string_view> {
 public:
  static constexpr const char* kFormat = "U";  // with 64-bit offsets
  explicit Values(uint64_t rows) { offsets_.reserve(rows + 1); }
  void add(std::string_view text) {
    characters_ += valid_utf8(text);
    offsets_.push_back(static_cast<int64_t>(characters_.size()));
  }
  void share(Array& array) && {
    array.buffers.push_back(share_buffer(std::move(offsets_)));
    array.buffers.push_back(share_buffer(std::move(characters_)));
  }

 private:
  std::vector<int64_t> offsets_ = {0};
  std::string characters_;
};

template <>
class Values<std::string> : public Values<std::string_view> {
  using Values<std::string_view>::Values;
};

// What rows refer to by its index: different texts.
using Dictionary = std::shared_ptr<const Array>;

// Numbers texts: equal ones are one entry.
class DictionaryBuilder {
 public:
  // Nothing for an empty text: a row without a text is null.
  [[nodiscard]] std::optional<int32_t> index(std::string_view text);
  [[nodiscard]] Dictionary finish() const;

 private:
  trace::StringTable texts_;
};

class Batch {
 public:
  explicit Batch(uint64_t rows) : rows_(rows) {}

  [[nodiscard]] uint64_t rows() const { return rows_; }
  [[nodiscard]] std::span<const Column> columns() const { return columns_; }

  // `get(row)` is the value of a row: a number, a bool or text; or an std::optional of these, which
  // is null if it has no value.
  template <typename Get>
  void add(std::string name, Get&& get) {
    append(std::move(name), nullptr, std::forward<Get>(get));
  }
  // `get(row)` is an index into the dictionary, as int32_t or std::optional<int32_t>.
  template <typename Get>
  void add(std::string name, Dictionary dictionary, Get&& get) {
    append(std::move(name), std::move(dictionary), std::forward<Get>(get));
  }

 private:
  template <typename T>
  struct Unwrapped {
    using Type = T;
    static constexpr bool kIsOptional = false;
  };
  template <typename T>
  struct Unwrapped<std::optional<T>> {
    using Type = T;
    static constexpr bool kIsOptional = true;
  };

  template <typename Get>
  void append(std::string name, Dictionary dictionary, Get&& get);

  uint64_t rows_;
  std::vector<Column> columns_;
};

template <typename Get>
void Batch::append(std::string name, Dictionary dictionary, Get&& get) {
  using Got = Unwrapped<std::remove_cvref_t<std::invoke_result_t<Get&, uint64_t>>>;
  using Value = typename Got::Type;
  Values<Value> values(rows_);
  Bits valid(Got::kIsOptional ? rows_ : 0, true);
  Array array{.length = rows_, .null_count = 0, .buffers = {}, .dictionary = std::move(dictionary)};
  for (uint64_t row = 0; row < rows_; ++row) {
    if constexpr (Got::kIsOptional) {
      const std::optional<Value> value = get(row);
      if (!value) {
        valid.set(row, false);
        ++array.null_count;
      }
      values.add(value.value_or(Value{}));
    } else {
      values.add(get(row));
    }
  }
  array.buffers.push_back(array.null_count == 0 ? nullptr : std::move(valid).share());
  std::move(values).share(array);
  columns_.push_back({std::move(name), Values<Value>::kFormat, Got::kIsOptional,
                      std::make_shared<const Array>(std::move(array))});
}

inline std::optional<int32_t> DictionaryBuilder::index(std::string_view text) {
  if (text.empty()) return std::nullopt;
  // The table's text 0 is the empty one, which dictionaries leave out.
  return static_cast<int32_t>(texts_.intern(valid_utf8(text))) - 1;
}

inline Dictionary DictionaryBuilder::finish() const {
  const uint64_t count = texts_.size() - 1;
  Values<std::string_view> values(count);
  for (trace::StringId id = 1; id <= count; ++id) values.add(texts_[id]);
  Array array{.length = count, .null_count = 0, .buffers = {nullptr}, .dictionary = nullptr};
  std::move(values).share(array);
  return std::make_shared<const Array>(std::move(array));
}

// Rows of a table that are made by one function: mostly those of one device.
struct Part {
  uint64_t rows = 0;
  // The rows [first, first + count). Batches of all parts have the same columns, also without rows.
  std::function<Batch(uint64_t first, uint64_t count)> make;
};

struct Table {
  std::vector<Part> parts;  // at least one
};

// Rows of a batch, at most: enough that the cost of a batch does not count, and few enough that
// readers of a stream need little memory.
inline constexpr uint64_t kMaxBatchRows = uint64_t{1} << 18;

// Fills `stream`, which keeps what the table refers to until it is released.
void export_stream(Table table, ArrowArrayStream* stream);

}  // namespace vram::reports
