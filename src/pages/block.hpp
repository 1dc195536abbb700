// Block: a named part of a page's data. Its content is JSON, or columns of varints, which the page
// decodes (web/src/data/columns.ts). Blocks are compressed one by one, so that a page decompresses
// what it draws first and leaves the rest for later. Plain values; pure functions.
#pragma once

#include "base/json.hpp"
#include "base/pod_vector.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vram::pages {

struct Block {
  std::string name;   // "report", "device0.lifetimes"
  std::string bytes;  // before compression
};

using Column = PodVector<uint8_t>;  // of varints (base/varint.hpp)

// Columns one after the other, each after its length in bytes as a varint.
[[nodiscard]] Block columns_block(std::string name, const std::vector<const Column*>& columns);
[[nodiscard]] Block json_block(std::string name, const Json& json);

// In zlib's format, which DecompressionStream("deflate") of browsers reads.
[[nodiscard]] std::string deflated(std::string_view bytes);

}  // namespace vram::pages
