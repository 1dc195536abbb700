// Cupy: a model of CuPy's default memory pool (cupy.cuda.MemoryPool). Each stream has its own cache
// of blocks; sizes are multiples of 512 B; the smallest block that suffices is taken and always
// split to size; a segment is as large as the request that it is taken for. When the device is
// full, every unsplit free segment of every stream goes back before one more attempt; at the pool's
// own limit nothing does.
//
// Source: CuPy's cupy/cuda/memory.pyx. Differences: of blocks of one size CuPy takes any (a Python
// set decides), the model the lowest; CuPy runs Python's garbage collector before a last attempt,
// which a recorded program has no garbage for. Single-threaded.
#pragma once

#include "replay/peers/caching_base.hpp"
#include "replay/registry.hpp"

namespace vram::replay {

struct CupySettings {
  std::optional<uint64_t> limit_bytes;  // CUPY_GPU_MEMORY_LIMIT, MemoryPool.set_limit
};

class Cupy final : public CachingBase {
 public:
  Cupy(const CupySettings& settings, const PeerContext& context);

  [[nodiscard]] uint64_t malloc(const Request& request) override;
  // MemoryPool.free_all_blocks().
  void empty_cache() override;
  [[nodiscard]] uint64_t largest_free_bytes(const Request& request) const override;

 private:
  [[nodiscard]] NodeId grow(uint64_t size_bytes, uint32_t lane);

  uint64_t pool_limit_bytes_;
};

[[nodiscard]] std::span<const PeerKey> cupy_keys();
// Errors: kBadInput with the value, what is accepted, and all valid keys.
[[nodiscard]] Result<CupySettings> parse_cupy_settings(Settings settings);
[[nodiscard]] std::unique_ptr<Allocator> make_cupy(Settings settings, const PeerContext& context);

}  // namespace vram::replay
