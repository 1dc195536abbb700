// TfBfc: a model of the BFC allocator ("best fit with coalescing") of TensorFlow and of XLA, which
// JAX uses. One heap for all streams: both run their work on one compute stream, so no reuse waits.
// Sizes are multiples of 256 B; the smallest chunk that suffices is taken, and split when it is
// twice the request or 128 MiB more than it.
//
//     find ──▶ add a region, find
//          ──▶ give back all regions that are wholly free, add a region, find ──▶ OOM
//
// With allow_growth regions start at 2 MiB and double; without, the first is all the memory there
// is. A region that the device refuses is asked for again, a tenth smaller each time, down to the
// request.
//
// Source: XLA's xla/tsl/framework/bfc_allocator.cc (2026). Differences: without allow_growth=False
// the model grows, TensorFlow and JAX take their share of the device at once; TensorFlow waits for
// frees by other threads for 10 s before it gives up. Single-threaded.
#pragma once

#include "replay/peers/caching_base.hpp"
#include "replay/registry.hpp"

namespace vram::replay {

struct TfBfcSettings {
  // TF_FORCE_GPU_ALLOW_GROWTH; in JAX XLA_PYTHON_CLIENT_PREALLOCATE=false.
  bool allow_growth = true;
  // TF_ENABLE_GPU_GARBAGE_COLLECTION; JAX has none.
  bool garbage_collection = true;
  // "per_process_gpu_memory_fraction"; in JAX XLA_PYTHON_CLIENT_MEM_FRACTION. Of the capacity.
  double memory_fraction = 1;
};

class TfBfc final : public CachingBase {
 public:
  TfBfc(const TfBfcSettings& settings, const PeerContext& context);

  [[nodiscard]] uint64_t malloc(const Request& request) override;
  [[nodiscard]] uint64_t largest_free_bytes(const Request& request) const override;

 private:
  // A new region, free; false where it could not hold the request.
  [[nodiscard]] bool extend(uint64_t size_bytes);
  // As a last resort after giving back what is free.
  [[nodiscard]] bool extend_somehow(uint64_t size_bytes);
  [[nodiscard]] NodeId take_region(uint64_t bytes, uint64_t min_bytes);
  // False where nothing was given back.
  [[nodiscard]] bool give_back_regions(uint64_t size_bytes);
  [[nodiscard]] uint64_t bytes_left() const { return heap_bytes_ - cache_.usage().reserved_bytes; }

  bool collects_garbage_;
  uint64_t heap_bytes_;    // all regions together
  uint64_t region_bytes_;  // the next one
};

[[nodiscard]] std::span<const PeerKey> tf_bfc_keys();
// Errors: kBadInput with the value, what is accepted, and all valid keys.
[[nodiscard]] Result<TfBfcSettings> parse_tf_bfc_settings(Settings settings);
// allow_growth=False: all the memory there is, whatever the program asks for.
[[nodiscard]] bool tf_bfc_needs_capacity(Settings settings);
[[nodiscard]] std::unique_ptr<Allocator> make_tf_bfc(Settings settings, const PeerContext& context);

}  // namespace vram::replay
