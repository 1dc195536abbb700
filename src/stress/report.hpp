// StressReport: what a memory test of one GPU found, as values: what views draw and
// comparisons read.
//
//     run_stress() ──▶ StressReport ──▶ show/stress_*; compare()
//
// Sizes are bytes, times nanoseconds. Unknown is not zero.
#pragma once

#include "base/result.hpp"
#include "watch/snapshot.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vram::stress {

inline constexpr size_t kWordBits = 64;

// A word that came back other than it was written.
struct BadWord {
  uint64_t address = 0;       // as the device sees it
  uint64_t handle = 0;        // the piece of physical memory; 0: the pool's
  uint64_t offset_bytes = 0;  // in that piece
  std::string pattern{};
  uint64_t expected = 0;
  uint64_t found = 0;

  [[nodiscard]] uint64_t bits() const { return expected ^ found; }  // those that differ
};

// All bad words, of which the first are kept whole.
struct BadWords {
  uint64_t count = 0;
  std::vector<BadWord> first;
  std::array<uint64_t, kWordBits> by_bit{};  // how often each bit was wrong
};

// A call to the driver that failed and may not.
struct CallFailure {
  std::string call;    // "cuMemcpyDtoHAsync"
  std::string answer;  // "CUDA_ERROR_ILLEGAL_ADDRESS (700)"
  std::string phase;
};

// One pattern, written over all that was held, and read back.
struct Pass {
  std::string pattern{};
  uint64_t written_bytes = 0;
  uint64_t compared_bytes = 0;
  uint64_t bad_words = 0;
  int64_t duration_ns = 0;
  bool is_sampled = false;   // a part was to be read back, not all
  bool is_complete = false;  // came to its end
};

struct FillReport {
  uint64_t free_bytes = 0;      // before anything was taken
  uint64_t obtained_bytes = 0;  // of them
  uint64_t handles = 0;
  uint64_t released_bytes = 0;  // midway, because others needed it
  uint64_t written_bytes = 0;
  uint64_t compared_bytes = 0;
  uint64_t covered_bytes = 0;  // compared at least once
  std::vector<Pass> passes;
};

struct StormReport {
  uint64_t allocations = 0;
  uint64_t ooms = 0;
  uint64_t checked_blocks = 0;  // both ends read back when they were freed
  uint64_t validations = 0;
  std::optional<std::string> invalid;  // what the pool's own account found wrong
  uint64_t peak_requested_bytes = 0;
  uint64_t peak_reserved_bytes = 0;
};

enum class Unit : uint8_t { kNanoseconds, kBytesPerSecond, kPartsPerMillion };

// A figure measured several times.
struct Figure {
  std::string name{};  // "cuMemCreate", "host to device, pinned"
  // of each copy or call; the largest of its class for the pool's; 0: none
  uint64_t size_bytes = 0;
  Unit unit = Unit::kNanoseconds;
  uint64_t count = 0;
  uint64_t low = 0;
  uint64_t quarter = 0;  // a quarter of the samples is not above it
  uint64_t median = 0;
  uint64_t three_quarters = 0;
  uint64_t p99 = 0;
  uint64_t high = 0;
  // Samples by powers of two: the first holds those below 2^(first_power + 1).
  uint32_t first_power = 0;
  std::vector<uint64_t> histogram{};
};

// The highest and the lowest that was seen while it ran.
struct Extremes {
  uint64_t sample_count = 0;
  std::optional<uint32_t> celsius;
  std::optional<uint32_t> memory_celsius;
  std::optional<uint32_t> milliwatts;
  std::optional<uint32_t> lowest_core_mhz;
  std::vector<std::string> throttle_reasons;  // all that were ever given
};

struct Health {
  std::optional<watch::Device> before{};
  std::optional<watch::Device> after{};
  Extremes extremes{};
};

// What the driver's own counters say happened meanwhile.
struct Incident {
  std::string text;
  bool is_error = false;  // else worth knowing
};
[[nodiscard]] std::vector<Incident> incidents(const Health& health);

// Another process that has memory on the device.
struct OtherUser {
  uint32_t pid = 0;
  std::optional<std::string> user;
  std::optional<std::string> command;
  std::optional<uint64_t> used_bytes;
};

struct StressedDevice {
  std::optional<uint32_t> index;  // in vram status
  std::optional<std::string> name;
  std::optional<std::string> uuid;
  std::optional<std::string> pci_id;
  std::optional<std::string> driver;
  uint64_t total_bytes = 0;
  bool is_simulated = false;
};

enum class Verdict : uint8_t {
  kPassed,
  kErrors,
  kCutShort,
  kUntested,  // there was no memory, or no time, to compare anything
};

struct StressReport {
  int64_t time_ns = 0;  // since 1970, UTC
  std::string host;
  StressedDevice device;
  std::vector<OtherUser> others;
  int64_t requested_ns = 0;
  int64_t duration_ns = 0;
  uint64_t seed = 0;
  uint64_t leave_bytes = 0;
  bool was_cut_short = false;
  FillReport fill;
  StormReport storm;
  std::vector<Figure> figures;
  BadWords bad;
  std::vector<CallFailure> failures;
  Health health;

  // Errors weigh most. What has compared nothing has passed nothing.
  [[nodiscard]] Verdict verdict() const;
};

// compare(): two reports of one device: what became slower or worse, by how much, and whether that
// is more than the samples of both scatter by themselves. A pure function.

enum class Trend : uint8_t { kSame, kBetter, kWorse, kFailing };

struct Change {
  std::string name;
  uint64_t size_bytes = 0;
  Unit unit = Unit::kNanoseconds;
  uint64_t before = 0;  // medians
  uint64_t after = 0;
  double worse = 0;  // by which part of what it was: longer, or slower; below 0: better
  double noise = 0;  // what the halves in the middle of both reports' samples span, together
  Trend trend = Trend::kSame;
};

struct Comparison {
  int64_t before_time_ns = 0;
  double limit = 0;
  std::vector<Change> changes{};            // the worst first
  std::vector<std::string> not_measured{};  // in the report of now, though they were before
  [[nodiscard]] bool is_failing() const;
};

// Changes within the noise are none; those that are worse by more than the limit are failing.
// kBadInput: the reports are not of the same device.
[[nodiscard]] Result<Comparison> compare(const StressReport& before, const StressReport& after,
                                         double limit);

}  // namespace vram::stress
