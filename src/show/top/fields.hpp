// The fields of a process in vram top: columns, sort keys, and what can be hidden. One table for
// all of them. Pure functions.
#pragma once

#include "base/result.hpp"
#include "show/draw/line.hpp"
#include "watch/snapshot.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vram::show::top {

enum class Field : uint8_t {
  kPid,
  kUser,
  kGpu,
  kMig,
  kType,
  kMemory,
  kHostMemory,
  kBusy,
  kAllocated,
  kReserved,
  kCached,
  kPeak,
  kBeyond,
  kSplit,
  kStepTime,
  kPlace,
  kScope,
  kCommand,
};

struct FieldInfo {
  Field field;
  std::string_view name;   // as options and menus call it
  std::string_view title;  // of the column
  std::string_view about;
  int columns;     // of a cell
  bool is_figure;  // right, the largest first
  int rank;        // fields of a high rank are left out first
  bool is_always;  // also if no process has a value
  Style style;
  std::string (*text)(const watch::Process&, const watch::Use&);
};

// In the order of the columns.
[[nodiscard]] std::span<const FieldInfo> all_fields();
[[nodiscard]] const FieldInfo& info_of(Field field);
// By its name.
[[nodiscard]] std::optional<Field> field_named(std::string_view name);

// The value of a numeric field; nothing if unknown.
[[nodiscard]] std::optional<uint64_t> figure_of(Field field, const watch::Process& process,
                                                const watch::Use& use);
// Allocated, cached, and memory outside the allocator, as a bar of the device's memory.
[[nodiscard]] Line split_bar(const watch::Use& use, std::optional<uint64_t> whole_bytes,
                             int columns);

// Filter: selects the processes that vram top shows: "user:ann gpu:0,1 mem>1G !tensorboard". All
// words must match; "!" negates a word. A word without a key is searched in command, user, place
// and scope. Unknown values match no comparison. Plain values.

// Whether the text is in the process's command, user, place or scope, whatever the case of letters.
[[nodiscard]] bool mentions(const watch::Process& process, std::string_view text);

class Filter {
 public:
  // kBadInput: an unknown key or an invalid number; the message names the valid ones.
  [[nodiscard]] static Result<Filter> parse(std::string_view words);

  [[nodiscard]] bool matches(const watch::Process& process, const watch::Use& use) const;

 private:
  enum class Comparison : uint8_t { kIs, kAbove, kAtLeast, kBelow, kAtMost };
  struct Condition {
    bool is_negated = false;
    std::string key;  // empty: free text
    Comparison comparison = Comparison::kIs;
    std::vector<std::string> texts;  // one of them
    uint64_t number = 0;             // of keys that are figures
  };
  [[nodiscard]] static Result<Condition> parse_word(std::string_view word);
  [[nodiscard]] static bool holds(const Condition& condition, const watch::Process& process,
                                  const watch::Use& use);
  [[nodiscard]] static bool holds(Comparison comparison, std::optional<uint64_t> figure,
                                  uint64_t number);

  std::vector<Condition> conditions_;
};

}  // namespace vram::show::top
