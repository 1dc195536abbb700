// Placement: makes a block of free memory: where it was in the last step (Recall), at the
// best fit, or of pieces that a stitch shows as one range. Uses only memory that the stream may use
// at once, and calls neither the device nor the driver. The hot path; one thread at a time.
#pragma once

#include "pool/arena.hpp"
#include "pool/blocks.hpp"
#include "pool/node.hpp"
#include "pool/stitch_plan.hpp"
#include "pool/stitches.hpp"

#include <cstdint>
#include <vector>

namespace vram::pool {

// Recall: where the program's requests went the last time it made them. Training programs repeat
// themselves step by step; a block that goes where its predecessor of the last step was meets no
// other, because none was there then. So a program of fixed shapes settles: what was stitched or
// grown once serves every later step, and the driver is not called again.
//
// Steps are not announced: the last requests, by size and stream, are looked up in a history, and
// while the program continues as it did after their last occurrence, its answers are the expected
// ones. (The match model of data compressors, here over requests.) Fixed memory, a few loads a
// request; one thread at a time.
class Recall {
 public:
  struct Answer {
    Address address = 0;  // 0: none is expected
    StitchId stitch = kNoStitch;
  };

  Recall() : history_(kHistory), last_seen_(kHistory) {}
  // The next request, and what is expected to answer it. note() follows.
  [[nodiscard]] Answer expect(uint64_t size_bytes, StreamIndex stream);
  // What answered it.
  void note(Answer answer) { history_[count_++ % kHistory].answer = answer; }

 private:
  static constexpr uint64_t kHistory = uint64_t{1} << 16;  // requests, a power of two
  static constexpr uint32_t kContext = 8;                  // requests that are looked up
  // Layers repeat within a step, too, at places that are taken; only a long run is a step.
  static constexpr uint64_t kSure = 64;
  // One context of so many is remembered, a power of two: looking up costs a miss in the cache.
  static constexpr uint64_t kMarkers = 2;
  struct Entry {
    uint64_t key = 0;  // of size and stream
    Answer answer;
  };
  [[nodiscard]] bool is_match(uint64_t at, uint64_t key) const {
    return at < count_ && count_ - at < kHistory && history_[at % kHistory].key == key;
  }
  void roll(uint64_t key);
  void find_again();
  [[nodiscard]] bool is_marker() const { return (context_ >> 40 & (kMarkers - 1)) == 0; }
  [[nodiscard]] uint32_t& last_seen() { return last_seen_[context_ >> 48 & (kHistory - 1)]; }

  std::vector<Entry> history_;
  // By a hash of the context: 1 + the number of its last request, of which the low bits suffice.
  std::vector<uint32_t> last_seen_;
  uint64_t context_ = 0;  // a hash of the last keys
  uint64_t count_ = 0;
  uint64_t match_ = UINT64_MAX;  // number of the request that this one repeats
  uint64_t run_ = 0;             // requests that have repeated so in a row
};

class Placement {
 public:
  // All arguments must outlive this.
  Placement(Arena& arena, Stitches& stitches, Blocks& blocks, Stats& stats)
      : arena_(arena), stitches_(stitches), blocks_(blocks), stats_(stats) {}

  // Where the request went the last time, if that is free.
  [[nodiscard]] Allocation place_again(Recall::Answer answer, const Wanted& wanted);
  // The best fit among the memory of its kind.
  [[nodiscard]] Allocation search(const Wanted& wanted);
  // The best fit among the memory of large blocks, then among that of small ones.
  [[nodiscard]] Allocation search_other_lanes(const Wanted& wanted);
  // The beginning of that free node, which is large enough.
  [[nodiscard]] Allocation serve(NodeId free_node, const Wanted& wanted);
  // Through the plan's stitch, which is mapped and idle. The stream may use all of its pieces.
  [[nodiscard]] Allocation show(const StitchPlan& plan, const Wanted& wanted);

 private:
  [[nodiscard]] Allocation show_again(StitchId id, Address address, const Wanted& wanted);

  Arena& arena_;
  Stitches& stitches_;
  Blocks& blocks_;
  Stats& stats_;
};

}  // namespace vram::pool
