// The functions of vram.h that look: statistics, parts, what must hold, why a request failed.
#include "capi/registry.hpp"
#include "pool/oom_text.hpp"
#include "record/recorder.hpp"

#include <algorithm>
#include <array>
#include <climits>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>
#include <vram/vram.h>

namespace {

using vram::capi::opened;
using vram::capi::OpenPool;
using vram::capi::Registry;
using vram::record::Recorder;

vram_stat as_c(const vram::pool::Stat& stat) {
  return {stat.current, stat.peak, stat.allocated, stat.freed};
}

}  // namespace

extern "C" {

vram_status vram_get_stats(vram_pool* handle, vram_stats* stats) {
  if (Registry::get().is_forked()) return VRAM_FORKED;
  OpenPool* const pool = opened(handle);
  if (pool == nullptr || stats == nullptr) return VRAM_INVALID_VALUE;
  if (stats->struct_bytes != sizeof(vram_stats)) return VRAM_INVALID_VALUE;
  const vram::pool::Stats now = pool->pool.stats();
  const uint64_t limit = pool->pool.limit_bytes();
  *stats = {.struct_bytes = sizeof(vram_stats),
            .allocation = as_c(now.allocation),
            .allocated_bytes = as_c(now.allocated_bytes),
            .active_bytes = as_c(now.active_bytes),
            .requested_bytes = as_c(now.requested_bytes),
            .reserved_bytes = as_c(now.reserved_bytes),
            .num_alloc_retries = now.num_alloc_retries,
            .num_ooms = now.num_ooms,
            .num_device_alloc = now.num_device_alloc,
            .num_device_free = now.num_device_free,
            .limit_bytes = limit == std::numeric_limits<uint64_t>::max() ? 0 : limit,
            .stitches = now.stitches,
            .stitch_reuses = now.stitch_reuses,
            .stream_waits = now.stream_waits,
            .slow_requests = now.slow_requests,
            .driver_calls = pool->memory->calls(),
            .driver_ns = pool->memory->time_ns()};
  return VRAM_OK;
}

vram_status vram_reset_peaks(vram_pool* handle) {
  if (Registry::get().is_forked()) return VRAM_FORKED;
  OpenPool* const pool = opened(handle);
  if (pool == nullptr) return VRAM_INVALID_VALUE;
  pool->pool.reset_peaks();
  return VRAM_OK;
}

vram_status vram_reset_sums(vram_pool* handle) {
  if (Registry::get().is_forked()) return VRAM_FORKED;
  OpenPool* const pool = opened(handle);
  if (pool == nullptr) return VRAM_INVALID_VALUE;
  pool->pool.reset_sums();
  return VRAM_OK;
}

size_t vram_visit(vram_pool* handle, void (*visit)(void* user, const vram_part* part), void* user) {
  OpenPool* const pool = opened(handle);
  if (Registry::get().is_forked() || pool == nullptr || visit == nullptr) return 0;
  std::vector<vram_part> parts;
  pool->pool.visit([&](const vram::pool::BlockInfo& info) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): streams are pointers to CUDA, numbers to us
    auto* stream = reinterpret_cast<vram_stream>(info.stream);
    parts.push_back(
        {info.address, info.size_bytes, info.requested_bytes, stream, info.is_live, info.is_held});
  });
  std::ranges::sort(parts, {}, &vram_part::address);
  for (const vram_part& part : parts) visit(user, &part);
  return parts.size();
}

size_t vram_explain_oom(vram_pool* handle, char* text, size_t capacity) {
  OpenPool* const pool = opened(handle);
  if (Registry::get().is_forked() || pool == nullptr) return 0;
  const vram::pool::OomFacts facts = pool->pool.last_oom();
  if (facts.requested_bytes == 0) return 0;
  std::array<char, PATH_MAX> recording{};
  if (Recorder::is_on()) (void)Recorder::copy_path(recording);
  const vram::pool::OomScene scene{.device = static_cast<uint32_t>(pool->device),
                                   .allocated_bytes = pool->pool.stats().allocated_bytes.current,
                                   .recording = recording.data()};
  return write_oom_text(facts, scene, {text, text == nullptr ? 0 : capacity});
}

int vram_validate(vram_pool* handle, char* text, size_t capacity) {
  OpenPool* const pool = opened(handle);
  if (Registry::get().is_forked() || pool == nullptr) return 0;
  std::string why;
  const bool is_valid = pool->pool.validate(&why);
  if (text != nullptr && capacity > 0) (void)std::snprintf(text, capacity, "%s", why.c_str());
  return is_valid ? 1 : 0;
}

}  // extern "C"
