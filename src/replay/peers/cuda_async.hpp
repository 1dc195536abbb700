// CudaAsync: a model of the driver's stream-ordered allocator (cudaMallocAsync) with the maximum
// release threshold, as PyTorch's backend sets it: memory taken from the device stays in the pool.
//
// As observed on an H200 with CUDA 13: an arena of address space grows at its end and is backed in
// chunks of 32 MiB. Requests are rounded to 512 bytes and packed regardless of chunks; the best fit
// among the free mapped ranges is used. If none fits, the first sufficient run of free ranges,
// mapped or not, or the end of the arena is used; its unmapped parts are backed with chunks that
// are completely free elsewhere, then with new ones.
//
// A range freed by another stream is used, and a chunk is moved, only if that was longer ago than
// the lag; if nothing else is left, at the price of a wait. Single-threaded; allocates for free
// ranges.
#pragma once

#include "replay/allocator.hpp"
#include "replay/peers/free_set.hpp"
#include "replay/registry.hpp"
#include "replay/segment_source.hpp"

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace vram::replay {

class CudaAsync final : public Allocator {
 public:
  explicit CudaAsync(const PeerContext& context);

  [[nodiscard]] uint64_t malloc(const Request& request) override;
  void free(uint32_t block, int64_t time_ns) override;
  void free_later(uint32_t block, int64_t time_ns) override;
  void complete(uint32_t block, int64_t time_ns) override;
  // cudaMemPoolTrimTo(0): chunks that hold nothing go back.
  void empty_cache() override;

  [[nodiscard]] const Usage& usage() const override { return usage_; }
  [[nodiscard]] const Counters& counters() const override { return counters_; }
  [[nodiscard]] uint64_t largest_free_bytes(const Request& request) const override;

 private:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::min() / 2;
  static constexpr uint32_t kNeverUsed = 0xffffffff;  // in place of a stream's number

  using PartId = uint32_t;
  // Between the arena's end and its beginning: of no bytes, and never free.
  static constexpr PartId kEdge = 0;
  static constexpr PartId kNoPart = 0xffffffff;
  // A part of the arena: a block, or a free range, all mapped or all unmapped. A line of the cache.
  struct alignas(64) Part {
    uint64_t offset = 0;  // in the arena
    uint64_t bytes = 0;
    uint64_t requested_bytes = 0;  // of a block
    int64_t freed_ns = kNever;     // of a free range: the latest of its parts
    uint32_t stream = kNeverUsed;  // that used it last
    PartId prev = kEdge;           // its neighbours
    PartId next = kEdge;
    bool is_free = false;
    bool is_mapped = false;
    bool is_pending = false;
    [[nodiscard]] uint64_t end() const { return offset + bytes; }
  };
  // Adjacent free ranges: several, or an unmapped one. A single mapped range, which most free
  // memory is, is found by its size and is in no run.
  struct Run {
    uint64_t bytes = 0;
    PartId first = kNoPart;
  };
  using Runs = std::map<uint64_t, Run>;  // by offset
  struct Wanted {
    uint64_t size_bytes = 0;
    trace::StreamId stream = 0;
    int64_t time_ns = 0;
    bool may_wait = false;
  };
  // An offset in the arena, and the free range that holds it; invalid after any change.
  struct Place {
    PartId range = kNoPart;
    uint64_t offset = 0;
  };
  // An offset in a run of free ranges, and the part before the run, which does not move whatever
  // happens to the ranges.
  struct RunPlace {
    PartId before = kEdge;
    uint64_t offset = 0;
  };

  [[nodiscard]] bool is_done(const Part& range, const Wanted& wanted) const;
  [[nodiscard]] bool is_usable(const Part& range, const Wanted& wanted) const;
  [[nodiscard]] std::optional<Place> place_for(const Wanted& wanted);
  [[nodiscard]] PartId best_fit(const Wanted& wanted) const;
  [[nodiscard]] RunPlace first_run(const Wanted& wanted);
  [[nodiscard]] std::optional<uint64_t> place_in_run(PartId first, const Wanted& wanted) const;
  [[nodiscard]] RunPlace grow(const Wanted& wanted);
  [[nodiscard]] PartId range_at(const RunPlace& place) const;
  [[nodiscard]] bool back(const RunPlace& place, const Wanted& wanted);
  [[nodiscard]] bool back_chunk(const RunPlace& chunk, uint64_t low, uint64_t high,
                                const Wanted& wanted);
  [[nodiscard]] std::optional<Place> spare_chunk(uint64_t low, uint64_t high,
                                                 const Wanted& wanted) const;
  void count_waits(const Place& place, const Wanted& wanted);
  void set_mapped(const Place& chunk, bool is_mapped);

  [[nodiscard]] PartId carve(const Place& place, uint64_t bytes);
  void put(PartId id);
  void take_out(PartId id);
  void put_rest(PartId id, uint64_t bytes);
  [[nodiscard]] bool joins(const Part& a, const Part& b) const;
  void absorb(PartId id, PartId neighbour);
  [[nodiscard]] PartId split(PartId id, uint64_t bytes);
  void swallow(PartId id, PartId neighbour);
  [[nodiscard]] PartId add_part(PartId after);

  [[nodiscard]] bool is_in_run(const Part& range) const;
  void add_to_runs(PartId id);
  void take_from_runs(PartId id);
  void add_run(PartId first, uint64_t end);
  [[nodiscard]] Runs::iterator run_of(PartId id);
  void drop_run(Runs::iterator run);

  SegmentSource& segments_;
  int64_t lag_ns_;
  uint64_t base_ = 0;  // the arena's address
  int64_t now_ns_ = 0;
  std::vector<Part> parts_ = std::vector<Part>(1);
  std::vector<PartId> unused_;
  FreeSet mapped_;  // the free ranges that are
  Runs runs_;
  std::set<std::pair<uint64_t, uint64_t>> runs_by_size_;  // (bytes, offset)
  std::vector<PartId> part_of_block_;                     // kNoPart: not in use
  Usage usage_;
  Counters counters_;
};

[[nodiscard]] std::unique_ptr<Allocator> make_cuda_async(Settings settings,
                                                         const PeerContext& context);

}  // namespace vram::replay
