// examine(): finds problems of a machine from its facts. A pure function; its checks are in
// checks/, one file for each subject.
#pragma once

#include "doctor/facts.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vram::doctor {

// Findings of the doctor: values, for show/ and for programs. Every id is in finding_ids() and in
// docs/doctor.md, and never changes its meaning.

// The worst first.
enum class Severity : uint8_t {
  kBad,      // something does not work, or will not
  kWarning,  // it works, but costs memory, time or reliability
  kNote,     // for information
  kGood,     // checked, without a problem
};

struct Repair {
  std::string how;                    // in words, without the last stop; may be all there is
  std::vector<std::string> commands;  // each complete, to be copied
};

struct Finding {
  std::string id = {};  // "driver.version_mismatch": subject, and what of it
  Severity severity = Severity::kNote;
  std::string what = {};                   // one line
  std::string why = {};                    // why it matters, with numbers
  Repair repair = {};                      // empty if there is nothing to repair
  std::vector<std::string> evidence = {};  // what was read, and where
};

using Findings = std::vector<Finding>;

struct Report {
  int64_t time_ns = 0;  // since 1970, UTC; 0: unknown
  std::string host;
  uint32_t usable_gpus =
      0;              // that programs can use, as far as can be determined without using them
  Findings findings;  // by subject, the worst first
};

// Of all findings there can be, by subject.
[[nodiscard]] std::span<const std::string_view> finding_ids();
// The part of an id before the dot.
[[nodiscard]] std::string_view subject_of(std::string_view id);

[[nodiscard]] Report examine(const MachineFacts& facts);

}  // namespace vram::doctor
