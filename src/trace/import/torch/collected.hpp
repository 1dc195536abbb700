// Collected: a snapshot as its sink gathers it, record by record in the file's order, before it is
// put together (assemble.hpp). Events go straight into the trace they will stay in; lists are
// ranges of them.
#pragma once

#include "base/pod_vector.hpp"
#include "base/result.hpp"
#include "trace/import/pickle/value.hpp"
#include "trace/import/torch/keywords.hpp"
#include "trace/tables.hpp"
#include "trace/trace.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vram::trace::torch {

// Converts numbers of a file to the range in which they are used; anything but a number is 0.

class Numbers {
 public:
  // Those that do not fit a Value are kept here.
  [[nodiscard]] uint64_t keep(uint64_t bits) {
    kept_.push_back(bits);
    return kept_.size() - 1;
  }
  [[nodiscard]] uint64_t memory_bytes() const { return kept_.size() * sizeof(uint64_t); }

  // Of an integer of 64 bits or a float: its bits.
  [[nodiscard]] uint64_t bits(pickle::Value value) const {
    return value.kind() == pickle::Kind::kInt ? static_cast<uint64_t>(value.integer())
                                              : kept_[value.payload()];
  }
  [[nodiscard]] static bool is_integer(pickle::Value value) {
    return value.kind() == pickle::Kind::kInt || value.kind() == pickle::Kind::kWideInt ||
           value.kind() == pickle::Kind::kUnsigned;
  }
  // A 64-bit address that was written as a signed number is itself again.
  [[nodiscard]] uint64_t address(pickle::Value value) const {
    return is_integer(value) ? bits(value) : 0;
  }
  // Negative: 0.
  [[nodiscard]] uint64_t amount(pickle::Value value) const {
    const uint64_t number = address(value);
    const bool negative =
        value.kind() != pickle::Kind::kUnsigned && static_cast<int64_t>(number) < 0;
    return negative ? 0 : number;
  }
  // `nanoseconds`: beyond the microseconds.
  [[nodiscard]] int64_t time_ns(pickle::Value microseconds, pickle::Value nanoseconds) const {
    constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
    const auto time_us = static_cast<int64_t>(amount(microseconds));
    if (time_us < 0 || time_us > kMax / 1000) return 0;
    const auto rest = static_cast<int64_t>(std::min<uint64_t>(amount(nanoseconds), 999));
    return time_us * 1000 + std::min(rest, kMax - time_us * 1000);
  }

 private:
  PodVector<uint64_t> kept_;
};

// Anomalies: contents of a file that this version does not know or cannot use, counted by kind and
// reported once. PyTorch adds keys with every release; none of them may stop a reader.
class Anomalies {
 public:
  // "12 × unknown key 'x' in an entry": `what` and `where` are literals, `name` comes from the
  // file.
  void count(const char* what, uint32_t name_number, std::string_view name, const char* where);
  void count(const char* sentence, uint64_t times = 1);
  [[nodiscard]] std::vector<Note> notes() const;

 private:
  static constexpr size_t kMaxDistinct = 64;
  struct Named {
    const char* what;
    const char* where;
    uint32_t name_number;
    std::string name;
    uint64_t count;
  };
  std::vector<Named> named_;  // few: searched from the last hit
  size_t last_ = 0;
  uint64_t more_ = 0;
  std::map<std::string_view, uint64_t> sentences_;
};

// Numbers of a snapshot's texts: keywords (keywords.hpp) first, then the ids of the trace's string
// table. A keyword enters that table only if it is used as a text, such as a function called
// "size".

class Texts {
 public:
  explicit Texts(StringTable& strings) : strings_(strings) {}

  [[nodiscard]] uint32_t number(std::string_view text);
  [[nodiscard]] StringId string_id(uint32_t number);
  // Valid until the next call of number() or string_id().
  [[nodiscard]] std::string_view view(uint32_t number) const;
  [[nodiscard]] uint64_t memory_bytes() const { return memory_bytes_; }

 private:
  StringTable& strings_;
  std::array<StringId, kKeywordCount> keyword_ids_ = {};  // 0: not in the table yet
  uint64_t memory_bytes_ = 0;
};

// The tag of a pickle Value of kind kRecord, and the meaning of its payload.
enum Tag : uint8_t {
  kSkipped,      // unused or unknown
  kEmpty,        // an empty list or tuple
  kFrame,        // FrameId
  kStack,        // StackId: a list of frames or of texts
  kEntry,        // index into trace.events
  kEntryList,    // index into entry_lists
  kTraces,       // index into traces: a list of lists of entries
  kBlock,        // index into blocks
  kBlockList,    // index into block_lists
  kSegment,      // index into segments
  kSegmentList,  // index into segment_lists
  kTenant,       // index into tenants: of a history entry, or of a history by its latest
  kAnnotation,   // index into trace.annotations
  kPair,         // two small integers (pair_of)
  kScalars,      // index into scalar_lists
  kDict,         // index into dicts: of an unknown kind
  kRoot,         // the whole document
};

struct Range {
  uint64_t first = 0;
  uint64_t count = 0;
  uint64_t left_out = 0;   // items that became no record
  bool truncated = false;  // the file ends inside it
  bool taken = false;      // a list belongs to one place
};

struct Traces {
  static constexpr uint32_t kNoEntries = 0xffffffff;
  std::vector<uint32_t> lists;  // index into entry_lists
  bool truncated = false;
};

struct RawSegment {
  Segment segment;
  uint64_t device = 0;
};

// Up to 2.0 blocks had a history instead of a stack and a requested size.
struct Tenant {
  uint64_t requested_bytes = 0;
  StackId stack = 0;
};

using Items = std::vector<std::pair<pickle::Value, pickle::Value>>;

// What vram states about a snapshot that it wrote (keywords.hpp).
struct VramPart {
  std::string format;
  std::optional<uint64_t> truncated_at_byte;
  std::vector<Setting> about;
  std::vector<Note> notes;
  std::set<std::string> overflowed;  // devices
  std::set<std::string> replayed_ends;
  bool has_hosts_as_gpus = false;
};

struct Collected {
  Collected() = default;
  Collected(const Collected&) = delete;  // texts refers to trace
  Collected& operator=(const Collected&) = delete;

  Trace trace;
  Texts texts{trace.tables.strings};
  Numbers numbers;
  Anomalies anomalies;
  PodVector<Block> blocks;
  PodVector<RawSegment> segments;
  PodVector<Tenant> tenants;
  PodVector<Range> entry_lists;
  PodVector<Range> block_lists;
  PodVector<Range> segment_lists;
  std::vector<Traces> traces;
  std::vector<std::vector<pickle::Value>> scalar_lists;
  std::vector<Items> dicts;
  // Annotations that were entries of a trace: their index, and the list whose device is theirs.
  std::vector<std::pair<uint64_t, uint32_t>> annotation_lists;
  bool is_of_vram = false;      // vram wrote the file
  bool has_categories = false;  // a file made from a profile: its last trace is the CPU's
  uint64_t root_keys = 0;       // bit per Key
  pickle::Value root[kKeyCount];
  std::optional<Error> error;  // the first reason why this cannot be a recording

  void refuse(std::string why) {
    if (!error) error = Error{Code::kBadInput, std::move(why)};
  }
  // 0: no text.
  [[nodiscard]] StringId string_of(const pickle::Value& value) {
    return value.kind() == pickle::Kind::kText
               ? texts.string_id(static_cast<uint32_t>(value.payload()))
               : 0;
  }
  // Counts values that are kept as they are, such as settings. False: there are too many.
  [[nodiscard]] bool may_keep(uint64_t values) {
    kept_values += values;
    return kept_values <= kMaxKeptValues;
  }
  static constexpr uint64_t kMaxKeptValues = uint64_t{1} << 18;
  uint64_t kept_values = 0;
};

[[nodiscard]] inline bool is(const pickle::Value& value, Tag tag) { return value.is_record(tag); }
[[nodiscard]] inline pickle::Value record(Tag tag, uint64_t payload = 0) {
  return {pickle::Kind::kRecord, payload, tag};
}

// Two integers below 2^27 in one payload: pool names, one pair an event.
inline constexpr unsigned kPairBits = 27;
[[nodiscard]] inline PoolName pair_of(const pickle::Value& pair) {
  return {pair.payload() >> kPairBits, pair.payload() & ((uint64_t{1} << kPairBits) - 1)};
}

// Dict: a dictionary of a snapshot while it is filled and when it is complete: its values by Key,
// and the items with unknown keys. Dicts are reused, so a field is valid only if the bit of its key
// is set.
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
