// The first pressure: all memory that is free but a margin, filled with patterns and read back.
//
//     Held ──▶ chunks ──▶ for each pattern: write all ──▶ read back a sample
//                    └──▶ again and again, while there is time: write all ──▶ read back all
//
// Patterns that repeat are written on the device itself (fills, or one chunk copied all over), the
// words' own addresses over the bus; comparing is the host's. One thread calls; lanes run inside.
#pragma once

#include "stress/budget.hpp"
#include "stress/card.hpp"
#include "stress/held.hpp"
#include "stress/report.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace vram::stress {

struct FillOptions {
  uint64_t leave_bytes = 0;
  uint64_t seed = 0;
};

// Running out of memory or of time is no error. All that was taken has been given back.
[[nodiscard]] FillReport run_fill(Card& card, const FillOptions& options, const Budget& budget,
                                  const Progress& progress, Ledger& ledger);

// Lanes: threads with a stream and a pinned buffer each, that go through chunks of memory together:
// copies of one lane keep the bus busy while another compares.
//
//     for_each(chunks, work) ──▶ lane 1..n: next chunk ──▶ work(lane, chunk) ──▶ …
//
// Made once for all passes. for_each() blocks its caller, which reports progress meanwhile.

class Lane {
 public:
  explicit Lane(Card& card) : card_(card), stream_(card), buffer_(card, kChunkBytes) {}

  [[nodiscard]] bool is_usable() const { return stream_ && buffer_; }
  [[nodiscard]] StreamHandle stream() const { return stream_.get(); }
  // The lane's own memory of the host, of a chunk.
  [[nodiscard]] std::span<uint64_t> buffer(uint64_t bytes) {
    return {buffer_.words(), bytes / sizeof(uint64_t)};
  }
  [[nodiscard]] Status finish() { return card_.finish(stream()); }

 private:
  Card& card_;
  OwnStream stream_;
  Pinned buffer_;
};

// Work on the nth of the chunks; anything but kOk ends the lane's part.
using ChunkWork = std::function<Status(Lane& lane, const Chunk& chunk, size_t index)>;

class Lanes {
 public:
  // As many as the card has, or as many as can be had.
  explicit Lanes(Card& card);

  [[nodiscard]] bool empty() const { return lanes_.empty(); }
  // The lane that the caller uses while no for_each() runs.
  [[nodiscard]] Lane& first() { return lanes_.front(); }
  // Every chunk once, in order, or from the last to the first. False: not all were gone through.
  bool for_each(std::span<const Chunk> chunks, bool is_backward, const Budget& budget,
                const Progress& progress, const ChunkWork& work);

 private:
  std::vector<Lane> lanes_;
};

}  // namespace vram::stress
