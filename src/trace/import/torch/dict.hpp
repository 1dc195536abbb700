// Dict: a dictionary of a snapshot while it is filled and when it is complete: its values by Key,
// and the items with unknown keys. Dicts are reused, so a field is valid only if the bit of its key
// is set.
#pragma once

#include "trace/import/pickle/value.hpp"
#include "trace/import/torch/collected.hpp"

#include <array>
#include <cstdint>
#include <span>

namespace vram::trace::torch {

struct Dict {
  uint64_t keys = 0;  // bit per Key
  std::array<pickle::Value, kKeyCount> fields;
  Items others;
  [[nodiscard]] bool has(Key key) const { return (keys >> key & 1) != 0; }
  // kNone where the key is missing.
  [[nodiscard]] pickle::Value get(Key key) const {
    return has(key) ? fields[key] : pickle::Value{};
  }

  void clear() {
    keys = 0;
    if (!others.empty()) others.clear();
  }
  // key, value, key, value …
  void set(std::span<const pickle::Value> items);
};

[[nodiscard]] constexpr uint64_t bit(Key key) { return uint64_t{1} << key; }

// Counts the unknown keys of the dictionary; `where` is its place in the snapshot.
void note_unknown_keys(Collected& all, const Dict& dict, const char* where);

}  // namespace vram::trace::torch
