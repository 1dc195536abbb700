// RmmPool: a model of RAPIDS RMM's pool_memory_resource over cudaMalloc. Sizes are multiples of 256
// B; each stream has a list of free blocks that merge with their neighbours in the same list; the
// smallest block that suffices is taken and always split.
//
//     own list ──▶ another stream's list, which keeps the rest
//              ──▶ the other lists become part of the own one, one by one ──▶ grow ──▶ OOM
//
// Without a maximum the pool grows by its own size, with one by half of what is left, each time by
// half as much where the device refuses, and never by less than the request. Only a pool with a
// maximum gives segments back: whole free ones, lowest first, until the request fits below the
// maximum. Another stream's list is used after waiting for the event of that stream's last free;
// after the lag that event has happened and no stream waits.
//
// Source: RMM's cpp/src/mr/detail (2026). Differences: lists are tried in the order of their
// streams' first use, in RMM in the order of their events' addresses; the model starts with an
// empty pool, RMM's Python with half of the device. Single-threaded.
#pragma once

#include "replay/peers/caching_base.hpp"
#include "replay/registry.hpp"

#include <vector>

namespace vram::replay {

struct RmmPoolSettings {
  uint64_t initial_pool_bytes = 0;
  std::optional<uint64_t> maximum_pool_bytes;
};

class RmmPool final : public CachingBase {
 public:
  RmmPool(const RmmPoolSettings& settings, const PeerContext& context);

  [[nodiscard]] uint64_t malloc(const Request& request) override;
  void free(uint32_t block, int64_t time_ns) override;
  void complete(uint32_t block, int64_t time_ns) override;
  [[nodiscard]] uint64_t largest_free_bytes(const Request& request) const override;

 private:
  // What a lane is in addition to its free blocks.
  struct List {
    bool exists = false;  // between its stream's last call and its merging into another list
    std::optional<int64_t> freed_at_ns;  // when the stream's event was recorded last
  };

  [[nodiscard]] uint32_t list_for(trace::StreamId stream);
  void note_free(uint32_t block, int64_t time_ns);
  void wait_for(uint32_t list, int64_t time_ns);

  [[nodiscard]] NodeId take(uint32_t list, uint64_t size_bytes);
  [[nodiscard]] NodeId borrow(uint32_t own, uint64_t size_bytes, int64_t time_ns);
  [[nodiscard]] NodeId merge_lists(uint32_t own, uint64_t size_bytes, int64_t time_ns);
  void move_blocks(uint32_t from, uint32_t to);
  [[nodiscard]] NodeId grow(uint32_t own, uint64_t size_bytes);
  // What the pool would grow by; less than the request where that does not fit below the maximum.
  [[nodiscard]] uint64_t bytes_to_grow(uint64_t size_bytes) const;
  [[nodiscard]] uint64_t bytes_below_maximum() const;
  void reclaim(uint32_t own, uint64_t size_bytes);

  RmmPoolSettings settings_;
  int64_t lag_ns_;
  bool could_be_made_ = true;  // false: the device has no room for the initial pool
  std::vector<List> lists_;    // by lane
};

[[nodiscard]] std::span<const PeerKey> rmm_pool_keys();
// Errors: kBadInput with the value, what is accepted, and all valid keys.
[[nodiscard]] Result<RmmPoolSettings> parse_rmm_pool_settings(Settings settings);
[[nodiscard]] std::unique_ptr<Allocator> make_rmm_pool(Settings settings,
                                                       const PeerContext& context);

}  // namespace vram::replay
