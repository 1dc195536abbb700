// ReplayReport: what `vram replay` found out, as plain values. cli/ makes it, replay_text and
// replay_json draw it.
#pragma once

#include "explain/report.hpp"
#include "replay/result.hpp"
#include "replay/tune/tune.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vram::show {

// The origin of the replays' limit on reserved memory.
enum class CapacitySource : uint8_t {
  kUnlimited,  // there was none
  kAsked,      // the user named it
  kRecorded,   // the recorded program was refused memory beyond it
};

// What was replayed, and on what: the head of every report about replays.
struct ReplaySubject {
  std::string path;
  std::string format;
  uint64_t file_bytes = 0;
  std::optional<uint64_t> truncated_at_byte;
  uint32_t device = 0;
  bool has_time = true;  // else every time is the number of an event
  bool ring_overflowed = false;
  // It was refused memory, by a device that others filled too, and no capacity was named.
  bool recorded_limit_unknown = false;
  uint64_t events = 0;
  uint64_t requests = 0;      // allocations replayed
  replay::Fidelity fidelity;  // of replays of this recording
  int64_t duration_ns = 0;
  CapacitySource capacity_source = CapacitySource::kUnlimited;
  std::optional<uint64_t> capacity_bytes;
  std::string card = {};  // the card whose memory it is, if one was given
  int64_t lag_ns = 0;
};

struct Replayed {
  replay::ReplayResult result;
  bool is_recorded = false;          // the settings are those that the recording was made with
  std::optional<uint64_t> oom_step;  // the recorded step in which it ran out of memory
};

struct ReplayReport : ReplaySubject {
  bool searched_min_capacity = false;
  std::vector<Replayed> results;  // in the requested order, at least one
  // The recorded settings at the same capacity, with which all others are compared.
  Replayed recorded;
};

// How `a` ranks against `b` for this program: completing, and wherever the driver puts its
// segments, then little reserved memory, then little time in the driver.
[[nodiscard]] bool is_better(const replay::ReplayResult& a, const replay::ReplayResult& b);

// TuneReport: what `vram tune` found out, as plain values. cli/ makes it, draw_tune and tune_json
// draw it.
struct TuneReport : ReplaySubject {
  replay::TuneResult result;
  // The requested peak, where what was alive exceeds the capacity: who held it.
  std::optional<explain::State> at_peak;
  bool has_stacks = false;
};

inline constexpr size_t kTuneHolders = 3;  // named if no setting helps

}  // namespace vram::show
