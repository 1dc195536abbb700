#include "capi/registry.hpp"

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "capi/device_samples.hpp"
#include "record/threads.hpp"
#include "trace/event.hpp"

#include <memory>
#include <pthread.h>
#include <string>

namespace vram::capi {
namespace {

constexpr uint64_t kHandleUnitBytes = 2 * kMiB;

Result<pool::Options> read_options(const vram_pool_options& options) {
  pool::Options into;
  if (options.handle_bytes % kHandleUnitBytes != 0 || options.handle_bytes > kGiB) {
    return fail(Code::kBadInput,
                "expected handle_bytes to be a multiple of 2 MiB up to 1 GiB, found {}",
                options.handle_bytes);
  }
  if (options.handle_bytes != 0) into.handle_bytes = options.handle_bytes;
  return into;
}

Result<pool::Backing> choose_backing(const gpu::cuda::CudaMemory& memory, vram_backing wanted) {
  switch (wanted) {
    case VRAM_BACKING_SEGMENTS:
      return pool::Backing::kSegments;
    case VRAM_BACKING_VIRTUAL:
      if (memory.supports_virtual_memory()) return pool::Backing::kVirtual;
      return fail(Code::kUnsupported,
                  "device {} has no virtual memory management: open its pool with "
                  "VRAM_BACKING_SEGMENTS or VRAM_BACKING_AUTO",
                  memory.ordinal());
    case VRAM_BACKING_AUTO:
      break;
  }
  return memory.supports_virtual_memory() ? pool::Backing::kVirtual : pool::Backing::kSegments;
}

// Records how much memory the device has, from which a report computes what was left.
void record_memory(const OpenPool& pool) {
  gpu::MemoryInfo info;
  const auto device = static_cast<uint32_t>(pool.device);
  if (!record::Recorder::is_on()) return;
  if (pool.memory->memory_info(device, &info) != gpu::Status::kOk) return;
  DeviceSamples::get().device_is_used(pool.device);
  record::Recorder::about("device." + std::to_string(device) + ".memory_bytes",
                          std::to_string(info.total_bytes));
}

}  // namespace

Registry& Registry::get() {
  static Registry& registry = *new Registry;
  return registry;
}

Result<vram_pool*> Registry::open(int device, const vram_pool_options& options) {
  const std::lock_guard guard(lock_);
  if (device < 0 || device >= kMaxDevices) {
    return fail(Code::kNotFound, "expected a device from 0 to {}, found {}", kMaxDevices - 1,
                device);
  }
  vram_pool* pool = pools_[static_cast<size_t>(device)].load(std::memory_order_relaxed);
  if (pool == nullptr) return reopen(device, options);
  ++pool->opens;
  return pool;
}

Result<vram_pool*> Registry::reopen(int device, const vram_pool_options& options) {
  VRAM_TRY_ASSIGN(auto settings, read_options(options));
  record::Recorder::claim();  // before the first call to the driver
  if (!driver_) {
    VRAM_TRY_ASSIGN(auto driver, gpu::cuda::DriverApi::load(gpu::cuda::driver_path()));
    driver_ = driver;
    (void)pthread_atfork(nullptr, nullptr, [] { get().is_forked_.store(true); });
  }
  VRAM_TRY_ASSIGN(auto memory,
                  gpu::cuda::CudaMemory::open(*driver_, static_cast<uint32_t>(device)));
  VRAM_TRY_ASSIGN(const auto backing, choose_backing(*memory, options.backing));
  settings.backing = backing;
  auto pool = std::make_unique<OpenPool>(device, std::move(memory), settings);
  if (!pool->pool.is_ready()) {
    return fail(Code::kUnsupported,
                "device {} grants no address space for a pool: see with `ulimit -v` whether it is "
                "limited",
                device);
  }
  if (options.limit_bytes != 0) pool->pool.limit(options.limit_bytes);
  pool->pool.on_oom(
      [](void* owner, uint64_t bytes) {
        return get().run_hooks(static_cast<OpenPool*>(owner)->device, bytes);
      },
      pool.get());
  record_memory(*pool);
  vram_pool& handle = handles_.emplace_back();
  handle.open.store(pool.release(), std::memory_order_release);
  pools_[static_cast<size_t>(device)].store(&handle, std::memory_order_release);
  if (pool_end_.load() <= device) pool_end_.store(device + 1);
  return &handle;
}

bool Registry::close(vram_pool* handle) {
  const std::lock_guard guard(lock_);
  OpenPool* const pool = opened(handle);
  if (pool == nullptr) return false;
  if (--handle->opens > 0) return true;
  pools_[static_cast<size_t>(pool->device)].store(nullptr, std::memory_order_release);
  handle->open.store(nullptr, std::memory_order_release);
  delete pool;
  return true;
}

bool Registry::owns(uint64_t address) {
  const auto end = static_cast<size_t>(pool_end_.load(std::memory_order_relaxed));
  for (size_t device = 0; device < end; ++device) {
    OpenPool* const pool = opened(pools_[device].load(std::memory_order_acquire));
    if (pool != nullptr && pool->pool.owns(address)) return true;
  }
  return false;
}

void Registry::report_all() {
  const std::lock_guard guard(lock_);
  if (is_forked()) return;
  for (const auto& handle : pools_) {
    if (OpenPool* const pool = opened(handle.load(std::memory_order_acquire)); pool != nullptr) {
      record_memory(*pool);
      pool->tap.report_all();
    }
  }
}

bool Registry::add_hook(vram_reclaim_fn hook, void* user) {
  const std::lock_guard guard(lock_);
  for (Hook& slot : hooks_) {
    if (slot.function != nullptr) continue;
    slot = {hook, user};
    return true;
  }
  return false;
}

bool Registry::remove_hook(vram_reclaim_fn hook, void* user) {
  const std::lock_guard guard(lock_);
  for (size_t i = 0; i < hooks_.size(); ++i) {
    if (hooks_[i].function != hook || hooks_[i].user != user) continue;
    for (; i + 1 < hooks_.size(); ++i) hooks_[i] = hooks_[i + 1];
    hooks_.back() = {};
    return true;
  }
  return false;
}

bool Registry::run_hooks(int device, uint64_t bytes) {
  std::array<Hook, kMaxHooks> hooks{};
  {
    const std::lock_guard guard(lock_);
    hooks = hooks_;
  }
  bool may_help = false;
  for (const Hook& hook : hooks) {
    if (hook.function == nullptr) break;
    may_help = hook.function(hook.user, device, bytes) != 0 || may_help;
  }
  return may_help;
}

using record::Op;
using record::Recorder;

void PoolTap::write_event(Op op, uint64_t address, uint64_t bytes, uint64_t stream,
                          record::StackId stack) const {
  Recorder::emit({.address = address,
                  .size_bytes = bytes,
                  .stream = stream,
                  .stack = stack,
                  .scope = record::ScopeStack::current(),
                  .device = device_,
                  .op = op});
}

void PoolTap::record_allocated(uint64_t address, uint64_t bytes, uint64_t stream,
                               record::StackId stack) {
  if (address == 0)
    return write_event(Op::kOom, pool_.last_oom().device_free_bytes, bytes, stream, stack);
  pool_.report_parts(address, *this);
  write_event(Op::kAlloc, address, bytes, stream, stack);
}

void PoolTap::record_freeing(uint64_t address) { write_event(Op::kFree, address); }

void PoolTap::record_used_by(uint64_t address, uint64_t stream) {
  write_event(Op::kUse, address, 0, stream);
}

void PoolTap::record_memory(Op op, uint64_t address, uint64_t bytes, uint64_t block) const {
  static const record::TextId kOurs = record::stores().texts.intern(trace::kVramPool);
  Recorder::emit({.address = address,
                  .size_bytes = bytes,
                  .stream = block,
                  .scope = record::ScopeStack::current(),
                  .text = kOurs,
                  .device = device_,
                  .op = op});
}

void PoolTap::mapped(uint64_t address, uint64_t bytes) {
  record_memory(Op::kSegmentMap, address, bytes);
}
void PoolTap::unmapped(uint64_t address, uint64_t bytes) {
  record_memory(Op::kSegmentUnmap, address, bytes);
}
void PoolTap::finished(uint64_t block) { write_event(Op::kFreeCompleted, block); }

void PoolTap::found_mapped(uint64_t address, uint64_t bytes) {
  record_memory(Op::kSegmentFound, address, bytes);
}

// The record has the block that it belongs to in place of the stream.
void PoolTap::part(uint64_t block, uint64_t home, uint64_t bytes) {
  record_memory(Op::kPart, home, bytes, block);
}

void PoolTap::found_block(uint64_t address, uint64_t requested_bytes, uint64_t stream,
                          pool::Found state) {
  write_event(Op::kFound, address, requested_bytes, stream);
  // By which other stream does not matter.
  if (state == pool::Found::kShared) write_event(Op::kUse, address, 0, stream + 1);
  if (state == pool::Found::kHeld) write_event(Op::kFreeRequested, address);
}

}  // namespace vram::capi
