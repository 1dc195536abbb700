// Filter: selects the processes that vram top shows: "user:ann gpu:0,1 mem>1G !tensorboard". All
// words must match; "!" negates a word. A word without a key is searched in command, user, place
// and scope. Unknown values match no comparison. Plain values.
#pragma once

#include "base/result.hpp"
#include "watch/snapshot.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vram::show::top {

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
