// Stands for libvram.so: pools over one range of addresses each, which they hand out in order.
#include "stand_ins.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <map>
#include <unistd.h>
#include <utility>
#include <vram/flight.h>
#include <vram/record.h>

namespace {

constexpr size_t kRange = size_t{1} << 32;
constexpr uintptr_t kBase = uintptr_t{1} << 40;
constexpr int kDevices = 4;

struct Block {
  size_t bytes;
  vram_stream stream;
};

}  // namespace

struct vram_pool {
  int device = 0;
  uintptr_t next = 0;
  size_t used = 0;
  size_t peak = 0;
  uint64_t limit = 0;
  uint64_t ooms = 0;
  int captures = 0;  // begun and not ended: meanwhile it does not wait for the device
  std::map<void*, Block> live;
};

namespace {

std::array<vram_pool, kDevices> pools;
vram_reclaim_fn hook = nullptr;
void* hook_user = nullptr;
pid_t opener = 0;  // the process that opened the first pool: a fork of it has none
const auto kPerThreadStream = reinterpret_cast<vram_stream>(uintptr_t{2});
thread_local const char* last_error = "no such device";

vram_status refuse_stream() {
  last_error = "found the per-thread default stream";
  return VRAM_NOT_SUPPORTED;
}

void note(const std::string& call) {
  const std::lock_guard<std::mutex> lock(stand_in::vram().mutex);
  stand_in::vram().calls.push_back(call);
}

// With the mutex held; false: the pool must not. cuCtxSynchronize breaks every capture that is
// going on.
bool wait_for_device(const vram_pool& pool) {
  if (pool.captures > 0) return false;
  const bool breaks = stand_in::cuda().captured_stream != 0;
  stand_in::vram().calls.push_back(breaks ? "broke a capture" : "synchronize");
  return true;
}

bool fits(const vram_pool& pool, size_t bytes) {
  return pool.used + bytes <= stand_in::vram().capacity_bytes;
}

std::string text(const void* address) {
  return std::to_string(reinterpret_cast<uintptr_t>(address));
}

}  // namespace

namespace stand_in {

Vram& vram() {
  static Vram only;
  return only;
}

size_t live_blocks(int device) {
  const std::lock_guard<std::mutex> lock(vram().mutex);
  return pools[device].live.size();
}

size_t live_bytes(int device) {
  const std::lock_guard<std::mutex> lock(vram().mutex);
  return pools[device].used;
}

bool was_called(const std::string& call) { return times_called(call) > 0; }

size_t times_called(const std::string& call) {
  const std::lock_guard<std::mutex> lock(vram().mutex);
  return static_cast<size_t>(std::count(vram().calls.begin(), vram().calls.end(), call));
}

}  // namespace stand_in

extern "C" {

const char* vram_status_text(vram_status) { return "status text"; }
const char* vram_last_error(void) { return last_error; }

vram_status vram_pool_open(int device, const vram_pool_options* options, vram_pool** pool) {
  if (device == stand_in::vram().missing_device) return VRAM_NO_DRIVER;
  opener = getpid();
  *pool = &pools[device];
  (*pool)->device = device;
  (*pool)->next = kBase + kRange * device;
  (*pool)->limit = options->limit_bytes;
  return VRAM_OK;
}

vram_status vram_alloc(vram_pool* pool, size_t bytes, vram_stream stream, void** block) {
  if (stream == kPerThreadStream) return refuse_stream();
  if (const auto before = std::exchange(stand_in::vram().before_alloc, nullptr)) before();
  bool is_full = false;
  {
    const std::lock_guard<std::mutex> lock(stand_in::vram().mutex);
    is_full = !fits(*pool, bytes);
  }
  if (is_full && hook != nullptr) (void)hook(hook_user, pool->device, bytes);
  const std::lock_guard<std::mutex> lock(stand_in::vram().mutex);
  const bool is_refused = stand_in::vram().is_short && !wait_for_device(*pool);
  if (is_refused || !fits(*pool, bytes)) {
    ++pool->ooms;
    return VRAM_OUT_OF_MEMORY;
  }
  *block = reinterpret_cast<void*>(pool->next);
  pool->next += 512;
  pool->used += bytes;
  pool->peak = std::max(pool->peak, pool->used);
  pool->live[*block] = {bytes, stream};
  stand_in::vram().calls.push_back("alloc " + std::to_string(bytes) + " in " + text(stream));
  return VRAM_OK;
}

vram_status vram_free(vram_pool* pool, void* block) {
  const std::lock_guard<std::mutex> lock(stand_in::vram().mutex);
  const auto found = pool->live.find(block);
  if (found == pool->live.end()) return VRAM_INVALID_VALUE;
  pool->used -= found->second.bytes;
  pool->live.erase(found);
  return VRAM_OK;
}

vram_status vram_record_stream(vram_pool*, void* block, vram_stream stream) {
  if (stream == kPerThreadStream) return refuse_stream();
  note("record " + text(block) + " in " + text(stream));
  return VRAM_OK;
}

vram_status vram_find_block(vram_pool* pool, const void* address, vram_block_info* info) {
  const std::lock_guard<std::mutex> lock(stand_in::vram().mutex);
  for (const auto& [start, block] : pool->live) {
    const auto* const begin = static_cast<const char*>(start);
    if (address < begin || address >= begin + block.bytes) continue;
    *info = {start, block.bytes, block.bytes, block.stream};
    return VRAM_OK;
  }
  return VRAM_INVALID_VALUE;
}

int vram_owns(const void* address) {
  if (getpid() != opener) return 0;
  const auto value = reinterpret_cast<uintptr_t>(address);
  return value >= kBase && value < kBase + kRange * kDevices ? 1 : 0;
}

size_t vram_trim(vram_pool* pool, size_t) {
  note("trim " + std::to_string(pool->device));
  {
    const std::lock_guard<std::mutex> lock(stand_in::vram().mutex);
    (void)wait_for_device(*pool);
  }
  if (stand_in::vram().frees_on_trim) stand_in::cuda().native_failures = 0;
  return 0;
}

vram_status vram_limit(vram_pool* pool, uint64_t bytes) {
  pool->limit = bytes;
  note("limit " + std::to_string(bytes));
  return VRAM_OK;
}

vram_status vram_begin_capture(vram_pool* pool) {
  const std::lock_guard<std::mutex> lock(stand_in::vram().mutex);
  ++pool->captures;
  stand_in::vram().calls.push_back("begin capture");
  return VRAM_OK;
}

vram_status vram_end_capture(vram_pool* pool) {
  const std::lock_guard<std::mutex> lock(stand_in::vram().mutex);
  --pool->captures;
  stand_in::vram().calls.push_back("end capture");
  return VRAM_OK;
}

vram_status vram_enable_peer(vram_pool* pool, int device) {
  note("peer " + std::to_string(pool->device) + " for " + std::to_string(device));
  return VRAM_OK;
}

vram_status vram_add_reclaim_hook(vram_reclaim_fn added, void* user) {
  hook = added;
  hook_user = user;
  return VRAM_OK;
}

size_t vram_explain_oom(vram_pool*, char* text, size_t capacity) {
  return static_cast<size_t>(std::snprintf(text, capacity, "the reasons, in bytes"));
}

vram_status vram_get_stats(vram_pool* pool, vram_stats* stats) {
  const std::lock_guard<std::mutex> lock(stand_in::vram().mutex);
  const vram_stat bytes{pool->used, pool->peak, 70, 60};
  stats->allocation = {pool->live.size(), 9, 8, 7};
  stats->allocated_bytes = stats->active_bytes = stats->requested_bytes = bytes;
  stats->reserved_bytes = {2 << 20, 2 << 20, 2 << 20, 0};
  stats->num_ooms = pool->ooms;
  stats->limit_bytes = pool->limit;
  return VRAM_OK;
}

vram_status vram_reset_peaks(vram_pool*) { return note("reset peaks"), VRAM_OK; }
vram_status vram_reset_sums(vram_pool*) { return note("reset sums"), VRAM_OK; }

// The recorder: events and settings as text.
int vram_is_recording(void) { return stand_in::vram().is_recording ? 1 : 0; }
void vram_flight_settle(void) {}
uint32_t vram_try_capture_stack(void) {
  note("capture");
  return ++stand_in::vram().stacks;
}
void vram_record_event(const vram_event* event) {
  const std::lock_guard<std::mutex> lock(stand_in::vram().mutex);
  if (!stand_in::vram().is_recording) return;
  stand_in::vram().events.push_back(*event);
}
void vram_record_claim(void) { note("claim"); }
void vram_record_setting(const char* key, const char* value) {
  note(std::string("setting ") + key + " = " + value);
}

// A live block of 1000 bytes with 24 free behind it, a gap, a free part.
size_t vram_visit(vram_pool*, void (*visit)(void* user, const vram_part* part), void* user) {
  const vram_part parts[] = {
      {4096, 1024, 1000, nullptr, 1}, {5120, 512, 0, nullptr, 0}, {8192, 512, 0, nullptr, 0}};
  for (const vram_part& part : parts) visit(user, &part);
  return 3;
}

}  // extern "C"
