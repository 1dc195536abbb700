// Paddle: a model of PaddlePaddle's default GPU allocator (FLAGS_allocator_strategy=auto_growth).
// Each stream has its own cache of blocks; sizes are multiples of 256 B; the smallest block that
// suffices is taken, and the request gets its upper end. A chunk is as large as the request that it
// is taken for, or as the chunk size that is set.
//
//     blocks of the stream ──▶ a new chunk
//                          ──▶ give back the stream's idle chunks, a new chunk
//                          ──▶ give back the idle chunks of all streams, a new chunk ──▶ OOM
//
// Source: Paddle's paddle/phi/core/memory/allocation/auto_growth_best_fit_allocator.cc and
// stream_safe_cuda_allocator.cc (2025). Differences: idle chunks go back by address or size, in
// Paddle in the order in which they were taken; Paddle waits up to 10 s for frees by other threads
// before it gives up; the model has no pool of its own for small requests
// (FLAGS_small_pool_size_in_mb) and none for CUDA graphs. Single-threaded.
#pragma once

#include "replay/peers/caching_base.hpp"
#include "replay/registry.hpp"

namespace vram::replay {

// Each is the FLAGS_ of Paddle with the same name.
struct PaddleSettings {
  uint64_t auto_growth_chunk_size_in_mb = 0;
  uint64_t gpu_memory_limit_mb = 0;  // 0: none
  bool free_idle_chunk = false;
  bool free_when_no_cache_hit = false;
};

class Paddle final : public CachingBase {
 public:
  Paddle(const PaddleSettings& settings, const PeerContext& context);

  [[nodiscard]] uint64_t malloc(const Request& request) override;
  void free(uint32_t block, int64_t time_ns) override;
  void complete(uint32_t block, int64_t time_ns) override;
  // paddle.device.cuda.empty_cache().
  void empty_cache() override;
  [[nodiscard]] uint64_t largest_free_bytes(const Request& request) const override;

 private:
  [[nodiscard]] NodeId grow(uint64_t size_bytes, uint32_t lane);
  [[nodiscard]] NodeId take_chunk(uint64_t bytes, uint32_t lane);
  [[nodiscard]] NodeId upper_end(NodeId node, uint64_t size_bytes);
  void give_back_idle(uint32_t lane);
  // Frees with `free_block`, and with free_idle_chunk gives back what became idle.
  template <typename FreeBlock>
  void free_with(uint32_t block, FreeBlock free_block);

  PaddleSettings settings_;
};

[[nodiscard]] std::span<const PeerKey> paddle_keys();
// Errors: kBadInput with the value, what is accepted, and all valid keys.
[[nodiscard]] Result<PaddleSettings> parse_paddle_settings(Settings settings);
[[nodiscard]] std::unique_ptr<Allocator> make_paddle(Settings settings, const PeerContext& context);

}  // namespace vram::replay
