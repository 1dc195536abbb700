// Rule: what is worth telling somebody about a machine's GPUs, and from when on. A value: the
// built-in ones (built_in.hpp) and those of a file (rule_book.hpp) are judged by Judge.
//
// A rule's value is a double in its measure's unit: a share of 1, bytes, seconds, degrees, a count,
// or 1 for a yes. It holds at the threshold and beyond; once it has fired, it is clear only beyond
// `clear`, so that a value that trembles around the threshold does not come and go.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace vram::watch {

enum class Severity : uint8_t { kInfo, kWarning, kCritical };

// What a rule judges. measures.hpp has the facts of each.
enum class Measure : uint8_t {
  kMemoryUsed,
  kTimeToFull,
  kProcessTimeToFull,
  kUnattributed,
  kIdleMemory,
  kUnusedReserve,
  kDeadProcessMemory,
  kXid,
  kOtherXid,
  kHeldClocks,
  kTemperature,
  kMemoryTemperature,
  kEccUncorrected,
  kRowRemapFailed,
  kRowRemapPending,
  kPageRetirementFailed,
  kPageRetirementPending,
  kRecoveryAction,
  kTrouble,
  kMissing,
  kSourceFailing,
  kSampleTime,
  kSampleOverdue,
};

inline constexpr uint64_t kSecondNs = 1'000'000'000;
inline constexpr uint64_t kMinuteNs = 60 * kSecondNs;
inline constexpr uint64_t kHourNs = 60 * kMinuteNs;

struct Rule {
  std::string name;  // "memory-almost-full"
  Measure measure = Measure::kMemoryUsed;
  bool is_enabled = true;
  Severity severity = Severity::kWarning;
  double threshold = 1;
  double clear = 1;
  uint64_t for_ns = 0;                      // holds for so long before it fires
  uint64_t clear_for_ns = kMinuteNs;        // is clear for so long before it is over
  uint64_t unknown_for_ns = 5 * kMinuteNs;  // an unknown value is waited for so long
  uint64_t window_ns = 0;                   // of measures that look back
  uint64_t at_least_bytes = 0;              // fewer at stake do not matter
  uint64_t headroom_bytes = 0;              // with more than this free, all is well; 0: whatever is
  std::vector<uint64_t> xids;               // which
  std::vector<std::string> reasons;         // which of the driver's
  std::map<std::string, std::string> labels;  // of the user's own
  std::string summary;                        // what it is; {device} and its like are filled in
  std::string advice;                         // what to do

  bool operator==(const Rule&) const = default;
};

}  // namespace vram::watch
