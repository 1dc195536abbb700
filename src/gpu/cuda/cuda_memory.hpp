// CudaMemory: one CUDA device as a gpu::Memory (memory.hpp). Keeps the device's primary context
// from open to destruction.
//
//     allocator ──▶ CudaMemory ──▶ CurrentContext, RelaxedCapture ──▶ DriverApi
//                       └──▶ EventStock (events made once)
//
// Any thread may call any function at any time, with any context current or none: each runs with
// the primary context and restores what was. Of two calls about one address, handle or event, one
// must happen before the other. No lock is held across a driver call; only events allocate, when
// more are in use than ever before.
//
// While a CUDA graph is captured: memory calls and queries go on as ever and don't disturb the
// capture. record() and stream_wait() on a stream that is captured answer kNotReady and add nothing
// to it. synchronize() is not for these times: the driver would give up the capture, in whatever
// mode and in whichever thread it is. It answers kNotReady where the driver can be asked, which is
// for captures of blocking streams; of others the caller must know. wait() harms no capture.
//
// After an answer that says that the device is lost every call answers kFault without asking again.
#pragma once

#include "base/result.hpp"
#include "gpu/cuda/driver.hpp"
#include "gpu/cuda/driver_types.hpp"
#include "gpu/memory.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace vram::gpu::cuda {

// EventStock: a pool of the driver's events: recording an existing event takes a third of the time
// of creating one. Part of CudaMemory.
//
// A handle contains a generation, so that a stale handle is detected and never refers to the next
// user's event. May be called from any thread; its lock is held for a few instructions, never
// across a driver call. Allocates only when more events are in use than ever before.
class EventStock {
 public:
  // Returns an unused event to the caller; 0 if there is none: add() one.
  [[nodiscard]] EventHandle take();
  // Takes in an event just made; it is the caller's. One of another context serves once.
  [[nodiscard]] EventHandle add(CUevent event, bool serves_once = false);
  // Whether the event of a handle in use must be taken out instead of given back.
  [[nodiscard]] bool serves_once(EventHandle handle) const;
  // The event of a handle in use, else null.
  [[nodiscard]] CUevent find(EventHandle handle) const;
  // Returns false if the handle is not in use.
  [[nodiscard]] bool give_back(EventHandle handle);
  // Removes and returns the event of a handle in use, else null.
  [[nodiscard]] CUevent take_out(EventHandle handle);
  // All events that it has, whether in use or not; the stock forgets them.
  [[nodiscard]] std::vector<CUevent> drain();

 private:
  struct Slot {
    CUevent event = nullptr;
    uint32_t generation = 1;
    bool in_use = false;
    bool serves_once = false;
  };
  [[nodiscard]] static EventHandle handle_of(uint32_t index, const Slot& slot) {
    return uint64_t{slot.generation} << 32 | index;
  }
  [[nodiscard]] const Slot* slot_of(EventHandle handle) const;
  // With the lock held, of a handle in use: its slot.
  uint32_t end_use(EventHandle handle);

  mutable std::mutex slots_mutex_;
  std::vector<Slot> slots_;
  // With room for all slots, so that giving back and taking out never allocate.
  std::vector<uint32_t> idle_;
  std::vector<uint32_t> empty_;
};

class CudaMemory final : public Memory {
 public:
  // driver must outlive it. kNotFound: no device of that number. kUnsupported: the device can't be
  // used now; the message says why.
  [[nodiscard]] static Result<std::unique_ptr<CudaMemory>> open(const DriverApi& driver,
                                                                uint32_t ordinal);
  // Gives back events and the context; memory that was not freed goes with the process.
  ~CudaMemory() override;

  [[nodiscard]] uint32_t ordinal() const { return ordinal_; }
  // Without it there are segments alone: reserve, create and what follows are kNotSupported.
  [[nodiscard]] bool supports_virtual_memory() const { return is_virtual_; }
  // Whether that device can read and write memory of this one; it itself always can.
  [[nodiscard]] bool supports_peer(uint32_t device) const;
  // From now on set_access() lets that device in, too; what is mapped already takes another
  // set_access(). kNotSupported: it can't reach this device's memory.
  [[nodiscard]] Status allow_peer(uint32_t device);

  // Calls for memory so far (create, map, set_access, unmap, release, alloc_segment, free_segment),
  // with those that failed, and the time spent in them.
  [[nodiscard]] uint64_t calls() const { return calls_.load(std::memory_order_relaxed); }
  [[nodiscard]] uint64_t time_ns() const { return time_ns_.load(std::memory_order_relaxed); }

  // What the driver last answered that was neither success nor "not yet"; kSuccess: nothing so far.
  [[nodiscard]] CUresult last_failure() const {
    return last_failure_.load(std::memory_order_relaxed);
  }

  // Memory: see memory.hpp. device_count() is the driver's; calls about a device other than
  // ordinal() are kInvalidValue.
  [[nodiscard]] uint32_t device_count() const override { return device_count_; }
  [[nodiscard]] uint64_t granularity_bytes() const override { return granularity_bytes_; }
  [[nodiscard]] Status memory_info(uint32_t device, MemoryInfo* info) override;
  [[nodiscard]] Status alloc_segment(uint32_t device, uint64_t bytes, Address* address) override;
  [[nodiscard]] Status free_segment(uint32_t device, Address address) override;
  [[nodiscard]] Status reserve(uint64_t bytes, Address* address) override;
  [[nodiscard]] Status unreserve(Address address, uint64_t bytes) override;
  [[nodiscard]] Status create(uint32_t device, uint64_t bytes, Handle* handle) override;
  [[nodiscard]] Status release(Handle handle) override;
  [[nodiscard]] Status map(Address address, uint64_t bytes, Handle handle) override;
  [[nodiscard]] Status set_access(Address address, uint64_t bytes, uint32_t device) override;
  [[nodiscard]] Status unmap(Address address, uint64_t bytes) override;
  [[nodiscard]] Status record(uint32_t device, StreamHandle stream, EventHandle* event) override;
  [[nodiscard]] Status query(EventHandle event) override;
  [[nodiscard]] Status wait(EventHandle event) override;
  [[nodiscard]] Status stream_wait(uint32_t device, StreamHandle stream,
                                   EventHandle event) override;
  [[nodiscard]] Status destroy(EventHandle event) override;
  [[nodiscard]] Status synchronize(uint32_t device) override;

 private:
  // The peers are bits of a word, and no machine has that many devices.
  static constexpr uint32_t kMaxDevices = 64;

  CudaMemory(const DriverApi& driver, uint32_t ordinal, CUdevice device)
      : driver_(driver), ordinal_(ordinal), device_(device) {}
  [[nodiscard]] CUresult start();
  [[nodiscard]] bool has(CUattribute attribute) const;
  [[nodiscard]] CUmemAllocationProp allocation() const;

  // Runs a call to the driver as a thread must, and says what its answer means.
  template <typename Call>
  [[nodiscard]] Status run(Call call);
  // The same, counted and timed as a call for memory.
  template <typename Call>
  [[nodiscard]] Status run_for_memory(Call call);
  template <typename Call>
  [[nodiscard]] Status run_virtual(Call call);
  [[nodiscard]] Status judge(CUresult result);

  [[nodiscard]] CUresult refuse_captured(CUstream stream) const;
  [[nodiscard]] CUresult take_event(EventHandle* event);
  [[nodiscard]] CUresult record_elsewhere(CUstream stream, EventHandle* event);
  CUresult discard(EventHandle event);
  [[nodiscard]] Status poll_event(EventHandle event, CUresult (*question)(CUevent));
  [[nodiscard]] CUresult open_to_devices(Address address, uint64_t bytes) const;

  const DriverApi& driver_;
  uint32_t ordinal_;
  CUdevice device_;
  CUcontext context_ = nullptr;
  uint32_t device_count_ = 0;
  uint64_t granularity_bytes_ = 0;
  bool is_virtual_ = false;
  bool is_rdma_capable_ = false;
  EventStock events_;
  std::atomic<uint64_t> peers_{0};
  std::atomic<uint64_t> calls_{0};
  std::atomic<uint64_t> time_ns_{0};
  std::atomic<CUresult> last_failure_{kSuccess};
  std::atomic<bool> is_lost_{false};
};

}  // namespace vram::gpu::cuda
