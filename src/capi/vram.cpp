// The functions of vram.h about pools and blocks: arguments checked, answers turned into a status.
#include "capi/last_error.hpp"
#include "capi/registry.hpp"
#include "pool/oom.hpp"
#include "pool/sizes.hpp"
#include "record/recorder.hpp"

#include <algorithm>
#include <array>
#include <climits>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>
#include <vram/record.h>
#include <vram/vram.h>

namespace {

using vram::capi::last_error;
using vram::capi::opened;
using vram::capi::OpenPool;
using vram::capi::refuse;
using vram::capi::Registry;
using vram::gpu::Status;

uint64_t as_number(const void* address) { return reinterpret_cast<uint64_t>(address); }
// NOLINTNEXTLINE(performance-no-int-to-ptr): addresses of the device are numbers to us
void* as_pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

// CU_STREAM_PER_THREAD. Its events would be recorded in the stream of the thread that asks.
constexpr uint64_t kPerThreadStream = 2;

vram_status refuse_per_thread_stream() {
  return refuse(VRAM_NOT_SUPPORTED,
                "expected a stream of its own, found the per-thread default stream (handle 2), "
                "which is another stream in each thread: pass one made with cudaStreamCreate(), "
                "or NULL for the legacy default stream");
}

vram_status status_of(Status status) {
  switch (status) {
    case Status::kOk:
      return VRAM_OK;
    case Status::kOutOfMemory:
      return VRAM_OUT_OF_MEMORY;
    case Status::kInvalidValue:
      return VRAM_INVALID_VALUE;
    case Status::kNotSupported:
      return VRAM_NOT_SUPPORTED;
    case Status::kNotReady:  // of events and streams only, about which no function answers
    case Status::kFault:
      break;
  }
  return VRAM_DRIVER_FAILED;
}

vram_status status_of(vram::Code code) {
  switch (code) {
    case vram::Code::kBadInput:
    case vram::Code::kTooLarge:
      return VRAM_INVALID_VALUE;
    case vram::Code::kNotFound:
      return VRAM_NO_DRIVER;
    case vram::Code::kIo:
    case vram::Code::kUnsupported:
      break;
  }
  return VRAM_NOT_SUPPORTED;
}

}  // namespace

std::string& vram::capi::last_error() {
  thread_local std::string text;
  return text;
}

extern "C" {

const char* vram_version(void) { return VRAM_VERSION; }

const char* vram_status_text(vram_status status) {
  switch (status) {
    case VRAM_OK:
      return "no error";
    case VRAM_OUT_OF_MEMORY:
      return "out of memory";
    case VRAM_INVALID_VALUE:
      return "invalid argument";
    case VRAM_NOT_SUPPORTED:
      return "not supported by this device or driver";
    case VRAM_NO_DRIVER:
      return "no CUDA driver or no such device";
    case VRAM_DRIVER_FAILED:
      return "the device or its driver failed";
    case VRAM_FORKED:
      return "this process is a fork of the one that opened the pool";
    case VRAM_FILE_FAILED:
      return "a file could not be written";
  }
  return "unknown status";
}

const char* vram_last_error(void) { return last_error().c_str(); }

vram_status vram_pool_open(int device, const vram_pool_options* options, vram_pool** pool) {
  last_error().clear();
  if (Registry::get().is_forked()) return refuse(VRAM_FORKED, vram_status_text(VRAM_FORKED));
  if (pool == nullptr)
    return refuse(VRAM_INVALID_VALUE, "expected a place for the pool, found NULL");
  if (options != nullptr && options->struct_bytes != sizeof(vram_pool_options)) {
    return refuse(VRAM_INVALID_VALUE, "expected struct_bytes to be sizeof(vram_pool_options)");
  }
  (void)vram_record_start_as_told();
  const auto opened =
      Registry::get().open(device, options != nullptr ? *options : vram_pool_options{});
  if (!opened) return refuse(status_of(opened.error().code), opened.error().message.c_str());
  *pool = *opened;
  return VRAM_OK;
}

vram_status vram_pool_close(vram_pool* handle) {
  if (Registry::get().is_forked()) return VRAM_FORKED;
  return Registry::get().close(handle) ? VRAM_OK : VRAM_INVALID_VALUE;
}

vram_status vram_alloc(vram_pool* handle, size_t bytes, vram_stream stream, void** block) {
  if (block == nullptr) return VRAM_INVALID_VALUE;
  *block = nullptr;
  if (Registry::get().is_forked()) return VRAM_FORKED;
  OpenPool* const pool = opened(handle);
  if (pool == nullptr) return VRAM_INVALID_VALUE;
  if (as_number(stream) == kPerThreadStream) return refuse_per_thread_stream();
  const auto stack = vram::capi::PoolTap::stack_of_caller();
  const uint64_t address = pool->pool.allocate(bytes, as_number(stream));
  pool->tap.allocated(address, bytes, as_number(stream), stack);
  *block = as_pointer(address);
  if (*block != nullptr) return VRAM_OK;
  vram::record::Recorder::settle();
  return VRAM_OUT_OF_MEMORY;
}

vram_status vram_free(vram_pool* handle, void* block) {
  if (block == nullptr) return VRAM_OK;
  if (Registry::get().is_forked()) return VRAM_FORKED;
  OpenPool* const pool = opened(handle);
  if (pool == nullptr) return VRAM_INVALID_VALUE;
  pool->tap.freeing(as_number(block));
  return pool->pool.free(as_number(block)) ? VRAM_OK : VRAM_INVALID_VALUE;
}

vram_status vram_record_stream(vram_pool* handle, void* block, vram_stream stream) {
  if (Registry::get().is_forked()) return VRAM_FORKED;
  OpenPool* const pool = opened(handle);
  if (pool == nullptr) return VRAM_INVALID_VALUE;
  if (as_number(stream) == kPerThreadStream) return refuse_per_thread_stream();
  const bool is_known = pool->pool.record_stream(as_number(block), as_number(stream));
  if (is_known) pool->tap.used_by(as_number(block), as_number(stream));
  return is_known ? VRAM_OK : VRAM_INVALID_VALUE;
}

vram_status vram_forget_stream(vram_pool* handle, vram_stream stream) {
  if (Registry::get().is_forked()) return VRAM_FORKED;
  OpenPool* const pool = opened(handle);
  if (pool == nullptr) return VRAM_INVALID_VALUE;
  if (as_number(stream) == kPerThreadStream) return refuse_per_thread_stream();
  pool->pool.forget(as_number(stream));
  return VRAM_OK;
}

vram_status vram_find_block(vram_pool* handle, const void* address, vram_block_info* info) {
  if (Registry::get().is_forked()) return VRAM_FORKED;
  OpenPool* const pool = opened(handle);
  if (pool == nullptr || info == nullptr) return VRAM_INVALID_VALUE;
  const auto found = pool->pool.block_at(as_number(address));
  if (found.address == 0) return VRAM_INVALID_VALUE;
  *info = {as_pointer(found.address), found.size_bytes, found.requested_bytes,
           as_pointer(found.stream)};
  return VRAM_OK;
}

int vram_owns(const void* address) {
  return !Registry::get().is_forked() && Registry::get().owns(as_number(address)) ? 1 : 0;
}

size_t vram_trim(vram_pool* handle, size_t bytes) {
  OpenPool* const pool = opened(handle);
  return Registry::get().is_forked() || pool == nullptr ? 0 : pool->pool.trim(bytes);
}

vram_status vram_limit(vram_pool* handle, uint64_t bytes) {
  if (Registry::get().is_forked()) return VRAM_FORKED;
  OpenPool* const pool = opened(handle);
  if (pool == nullptr) return VRAM_INVALID_VALUE;
  pool->pool.limit(bytes == 0 ? UINT64_MAX : bytes);
  return VRAM_OK;
}

vram_status vram_enable_peer(vram_pool* handle, int device) {
  if (Registry::get().is_forked()) return VRAM_FORKED;
  OpenPool* const pool = opened(handle);
  if (pool == nullptr || device < 0) return VRAM_INVALID_VALUE;
  const Status status = pool->memory->allow_peer(static_cast<uint32_t>(device));
  return status_of(status == Status::kOk ? pool->pool.renew_access() : status);
}

vram_status vram_begin_capture(vram_pool* handle) {
  if (Registry::get().is_forked()) return VRAM_FORKED;
  OpenPool* const pool = opened(handle);
  if (pool == nullptr) return VRAM_INVALID_VALUE;
  pool->pool.begin_capture();
  return VRAM_OK;
}

vram_status vram_end_capture(vram_pool* handle) {
  if (Registry::get().is_forked()) return VRAM_FORKED;
  OpenPool* const pool = opened(handle);
  if (pool == nullptr) return VRAM_INVALID_VALUE;
  pool->pool.end_capture();
  return VRAM_OK;
}

vram_status vram_add_reclaim_hook(vram_reclaim_fn hook, void* user) {
  if (Registry::get().is_forked()) return VRAM_FORKED;
  if (hook == nullptr) return VRAM_INVALID_VALUE;
  return Registry::get().add_hook(hook, user) ? VRAM_OK : VRAM_OUT_OF_MEMORY;
}

vram_status vram_remove_reclaim_hook(vram_reclaim_fn hook, void* user) {
  if (Registry::get().is_forked()) return VRAM_FORKED;
  return Registry::get().remove_hook(hook, user) ? VRAM_OK : VRAM_INVALID_VALUE;
}

}  // extern "C"

// The functions of vram.h that only read: statistics, parts, what must hold, why a request failed.

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
