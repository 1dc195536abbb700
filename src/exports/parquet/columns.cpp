#include "exports/parquet/columns.hpp"

#include "base/result.hpp"
#include "exports/parquet/thrift.hpp"

#include <bit>
#include <string_view>
#include <vector>

namespace vram::exports {
namespace {

using reports::Array;
using reports::Column;

constexpr unsigned kByteBits = 8;

bool bit_at(const void* bits, uint64_t row) {
  return (static_cast<const uint8_t*>(bits)[row / kByteBits] >> (row % kByteBits) & 1U) != 0;
}

bool is_valid(const Array& array, uint64_t row) {
  return array.buffers[0] == nullptr || bit_at(array.buffers[0].get(), row);
}

std::string_view text_at(const Array& array, uint64_t row) {
  const auto* const offsets = static_cast<const int64_t*>(array.buffers[1].get());
  const auto* const characters = static_cast<const char*>(array.buffers[2].get());
  return {characters + offsets[row], static_cast<size_t>(offsets[row + 1] - offsets[row])};
}

void append_fixed(std::string& out, uint64_t number, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) out += static_cast<char>(number >> (i * kByteBits));
}

void append_text(std::string& out, std::string_view text) {
  append_fixed(out, text.size(), sizeof(uint32_t));
  out += text;
}

// One run of numbers of `width` bits, packed from the lowest bit on, as the hybrid encoding of
// levels and indexes has them in groups of 8.
void append_packed(std::string& out, const std::vector<uint32_t>& numbers, unsigned width) {
  const size_t groups = (numbers.size() + kByteBits - 1) / kByteBits;
  ThriftStruct::append_unsigned(out, groups << 1U | 1U);
  uint64_t bits = 0;
  unsigned held = 0;
  for (size_t i = 0; i < groups * kByteBits; ++i) {
    bits |= uint64_t{i < numbers.size() ? numbers[i] : 0U} << held;
    for (held += width; held >= kByteBits; held -= kByteBits) {
      out += static_cast<char>(bits);
      bits >>= kByteBits;
    }
  }
}

// Which rows have a value: 1 bit each, after the length of the run.
void append_levels(std::string& out, const Array& array) {
  std::vector<uint32_t> levels(array.length);
  for (uint64_t row = 0; row < array.length; ++row) levels[row] = is_valid(array, row) ? 1 : 0;
  std::string run;
  append_packed(run, levels, 1);
  append_fixed(out, run.size(), sizeof(uint32_t));
  out += run;
}

void append_numbers(std::string& out, const Array& array, size_t bytes) {
  const auto* const values = static_cast<const char*>(array.buffers[1].get());
  for (uint64_t row = 0; row < array.length; ++row) {
    if (is_valid(array, row)) out.append(values + row * bytes, bytes);
  }
}

void append_texts(std::string& out, const Array& array) {
  for (uint64_t row = 0; row < array.length; ++row) {
    if (is_valid(array, row)) append_text(out, text_at(array, row));
  }
}

// Bits, packed as those of levels are, but without a head.
void append_bools(std::string& out, const Array& array) {
  unsigned held = 0;
  uint8_t bits = 0;
  for (uint64_t row = 0; row < array.length; ++row) {
    if (!is_valid(array, row)) continue;
    if (bit_at(array.buffers[1].get(), row)) bits = static_cast<uint8_t>(bits | 1U << held);
    if (++held != kByteBits) continue;
    out += static_cast<char>(bits);
    held = bits = 0;
  }
  if (held != 0) out += static_cast<char>(bits);
}

// Row groups share no dictionary, so each has only the entries that it uses, in the order of use.
void add_dictionary_pages(const Array& array, ColumnPages& pages) {
  constexpr uint32_t kUnused = UINT32_MAX;
  const Array& entries = *array.dictionary;
  const auto* const indexes = static_cast<const int32_t*>(array.buffers[1].get());
  std::vector<uint32_t> new_index(entries.length, kUnused);
  std::vector<uint32_t> used;
  uint32_t count = 0;
  for (uint64_t row = 0; row < array.length; ++row) {
    if (!is_valid(array, row)) continue;
    uint32_t& index = new_index[static_cast<size_t>(indexes[row])];
    if (index == kUnused) {
      index = count++;
      append_text(pages.dictionary.bytes, text_at(entries, static_cast<uint64_t>(indexes[row])));
    }
    used.push_back(index);
  }
  pages.has_dictionary = true;
  pages.dictionary.values = static_cast<int32_t>(count);
  const unsigned width = count <= 1 ? 1 : static_cast<unsigned>(std::bit_width(count - 1));
  pages.data.bytes += static_cast<char>(width);
  append_packed(pages.data.bytes, used, width);
}

}  // namespace

ParquetType parquet_type(const Column& column) {
  if (column.array->dictionary != nullptr) return ParquetType::kBytes;
  switch (column.format[0]) {
    case 'b':
      return ParquetType::kBoolean;
    case 'i':
    case 'I':
      return ParquetType::kInt32;
    case 'l':
    case 'L':
      return ParquetType::kInt64;
    case 'g':
      return ParquetType::kDouble;
    default:
      VRAM_CHECK(column.format[0] == 'U');
      return ParquetType::kBytes;
  }
}

ColumnPages make_pages(const Column& column) {
  const Array& array = *column.array;
  ColumnPages pages;
  pages.data.values = static_cast<int32_t>(array.length);
  if (column.is_nullable) append_levels(pages.data.bytes, array);
  if (array.dictionary != nullptr) {
    add_dictionary_pages(array, pages);
    return pages;
  }
  switch (parquet_type(column)) {
    case ParquetType::kBoolean:
      append_bools(pages.data.bytes, array);
      break;
    case ParquetType::kBytes:
      append_texts(pages.data.bytes, array);
      break;
    case ParquetType::kInt32:
      append_numbers(pages.data.bytes, array, sizeof(int32_t));
      break;
    case ParquetType::kInt64:
    case ParquetType::kDouble:
      append_numbers(pages.data.bytes, array, sizeof(int64_t));
      break;
  }
  return pages;
}

}  // namespace vram::exports
