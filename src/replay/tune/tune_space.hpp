// TuneSpace: the settings that tune() tries, for one program. Pure values; no replays here.
#pragma once

#include "replay/program.hpp"
#include "replay/replay.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vram::replay {

class TuneSpace {
 public:
  // With a limit, garbage collection can act.
  TuneSpace(const Program& program, bool has_limit);

  // Each value of each key by itself and, where both can act, with expandable segments.
  [[nodiscard]] std::vector<AllocatorSpec> grid() const;
  // Variants with one key changed, added or removed; max_split_size_mb also halfway to the adjacent
  // values.
  [[nodiscard]] std::vector<AllocatorSpec> neighbours(const AllocatorSpec& spec) const;

 private:
  struct Key {
    std::string_view name;
    std::vector<std::string> values;
  };
  void add_changed(const AllocatorSpec& spec, std::string_view key, const std::string& value,
                   std::vector<AllocatorSpec>& specs) const;
  void add_halfway(const AllocatorSpec& spec, std::vector<AllocatorSpec>& specs) const;

  std::vector<Key> keys_;
  std::vector<uint64_t> split_mebibytes_;
  bool has_limit_;
};

// Settings in the order of the registry's keys, so that equal ones are written equally.
[[nodiscard]] AllocatorSpec normalised(AllocatorSpec spec);
// The value of a key; empty if it is not set.
[[nodiscard]] std::string_view value_of(const AllocatorSpec& spec, std::string_view key);
[[nodiscard]] bool is_expandable(const AllocatorSpec& spec);

// Values of max_split_size_mb with which this program may behave differently: powers of two up to
// beyond the largest request, and both sides of the sizes with most requested bytes.
[[nodiscard]] std::vector<uint64_t> split_sizes_mb(const Program& program);

}  // namespace vram::replay
