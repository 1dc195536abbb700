// CudaAsync: a model of the driver's stream-ordered allocator (cudaMallocAsync) with the release
// threshold at its maximum, as PyTorch's backend of that name sets it: what was taken from the
// device stays in the pool.
//
// As observed on an H200 with CUDA 13: one arena of address space that grows at its end, backed in
// chunks of 32 MiB; requests are rounded to 512 bytes and packed without regard to chunks; the best
// fit among the free mapped ranges is taken. Where none fits, the first run of free ranges that is
// long enough, mapped or not, or the arena's end, and what is unmapped there is backed by chunks
// that lie fully in other free ranges before new ones are created.
//
// A range that another stream freed is taken, and a chunk is moved, only when that lies further
// back than the lag; when nothing else is left, at the price of a wait. Single-threaded; allocates
// for free ranges.
#pragma once

#include "replay/allocator.hpp"
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
  // A free part of the arena, all mapped or all unmapped.
  struct Range {
    uint64_t bytes = 0;
    int64_t freed_ns = kNever;              // the latest of its parts
    std::optional<trace::StreamId> stream;  // that used it last; none: never used
    bool is_mapped = false;
  };
  [[nodiscard]] static Range unmapped(uint64_t bytes);
  using Ranges = std::map<uint64_t, Range>;   // by offset in the arena
  using Runs = std::map<uint64_t, uint64_t>;  // bytes of free ranges without a gap, by offset
  struct Block {
    uint64_t offset = 0;
    uint64_t size_bytes = 0;
    uint64_t requested_bytes = 0;
    trace::StreamId stream = 0;
    bool is_live = false;
    bool is_pending = false;
  };
  struct Wanted {
    uint64_t size_bytes = 0;
    trace::StreamId stream = 0;
    int64_t time_ns = 0;
    bool may_wait = false;
  };

  [[nodiscard]] bool is_done(const Range& range, const Wanted& wanted) const;
  [[nodiscard]] bool is_usable(const Range& range, const Wanted& wanted) const;
  [[nodiscard]] std::optional<uint64_t> place_for(const Wanted& wanted);
  [[nodiscard]] std::optional<uint64_t> best_fit(const Wanted& wanted) const;
  [[nodiscard]] uint64_t first_run(const Wanted& wanted);
  [[nodiscard]] std::optional<uint64_t> place_in_run(uint64_t run, const Wanted& wanted) const;
  [[nodiscard]] bool back(uint64_t offset, const Wanted& wanted);
  [[nodiscard]] bool back_chunk(uint64_t chunk, uint64_t low, uint64_t high, const Wanted& wanted);
  [[nodiscard]] std::optional<uint64_t> spare_chunk(uint64_t low, uint64_t high,
                                                    const Wanted& wanted) const;
  [[nodiscard]] bool joins(const Range& a, const Range& b) const;
  void count_waits(uint64_t offset, const Wanted& wanted);
  void set_mapped(uint64_t chunk, bool is_mapped);
  Range carve(uint64_t offset, uint64_t bytes);
  void put(uint64_t offset, Range range);
  Ranges::iterator drop(Ranges::iterator range);
  void add_to_runs(uint64_t offset, uint64_t bytes);
  void take_from_runs(uint64_t offset, uint64_t bytes);
  Runs::iterator drop_run(Runs::iterator run);

  SegmentSource& segments_;
  int64_t lag_ns_;
  uint64_t base_ = 0;  // the arena's address
  uint64_t end_ = 0;   // offset of what was never used
  int64_t now_ns_ = 0;
  Ranges free_;
  std::set<std::pair<uint64_t, uint64_t>> mapped_by_size_;  // (bytes, offset)
  Runs runs_;
  std::set<std::pair<uint64_t, uint64_t>> runs_by_size_;  // (bytes, offset)
  std::vector<Block> blocks_;
  Usage usage_;
  Counters counters_;
};

[[nodiscard]] std::unique_ptr<Allocator> make_cuda_async(Settings settings,
                                                         const PeerContext& context);

}  // namespace vram::replay
