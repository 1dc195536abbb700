// SimGpu: simulated GPUs, which implement gpu::Memory (memory.hpp) by plain arithmetic. Allocators
// in tests and replays use them as they would use the driver: memory runs out at the capacity,
// every call moves a virtual clock by its measured cost, wrong calls are answered kInvalidValue and
// change nothing, and calls fail on request.
//
//     allocator ──▶ SimGpu ──▶ Faults · physical (who has how much) · ranges (what is where) ·
//     address_space
//                        └──▶ Costs ──▶ clock, CallStats · streams (when work ends)
//
// Sizes below the granularity: segments share pages of 2 MiB as the driver's do, everything else
// must be a multiple. One thread at a time; allocates for each segment, handle, mapping, never for
// their contents (but see backing).
#pragma once

#include "gpu/copies.hpp"
#include "gpu/memory.hpp"
#include "gpu/sim/address_space.hpp"
#include "gpu/sim/calls.hpp"
#include "gpu/sim/memory_map.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace vram::gpu {

// Streams: when the work of each stream of the simulated GPU ends, on the virtual clock. A stream
// is known from its first use; work in one stream runs in order, streams run side by side, and the
// default stream waits for no other. All times are the caller's clock. Not thread-safe; allocates
// at a stream's first use and for each live event.
class Streams {
 public:
  // Work that takes duration_ns, after what is queued in the stream already.
  void enqueue(uint32_t device, StreamHandle stream, int64_t now_ns, int64_t duration_ns);
  // Later work of the stream starts no earlier than that.
  void hold_until(uint32_t device, StreamHandle stream, int64_t time_ns);
  // When all that is queued now is done; now_ns or earlier is idle.
  [[nodiscard]] int64_t idle_at(uint32_t device) const;
  [[nodiscard]] int64_t idle_at(uint32_t device, StreamHandle stream) const;

  [[nodiscard]] EventHandle record(uint32_t device, StreamHandle stream, int64_t now_ns);
  // When the event happens; nothing where there is no such event.
  [[nodiscard]] std::optional<int64_t> happens_at(EventHandle event) const;
  [[nodiscard]] bool destroy(EventHandle event);

 private:
  std::map<std::pair<uint32_t, StreamHandle>, int64_t> ends_;
  std::unordered_map<EventHandle, int64_t> events_;
  EventHandle last_event_ = 0;
};

struct SimOptions {
  std::vector<SimDevice> devices{SimDevice{}};
  Costs costs = {};
  bool backing = false;  // real bytes behind everything, for read() and write()
  // Contents survive unmap while their handle lives, as on a GPU. With this they are poisoned when
  // the last mapping goes, for allocators that must not count on it.
  bool poison_on_unmap = false;
  uint32_t address_layout = 0;   // where segments are placed: AddressSpace
  bool places_anywhere = false;  // the other layouts: at any address, not only at possible ones
};

class SimGpu : public Memory, public Copies {
 public:
  explicit SimGpu(const SimOptions& options = {});

  // Memory: see memory.hpp.
  [[nodiscard]] uint32_t device_count() const override { return physical_.device_count(); }
  [[nodiscard]] uint64_t granularity_bytes() const override { return kGranularityBytes; }
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

  // Copies: see copies.hpp. They need backing, are done at once, and take none of the clock's time.
  [[nodiscard]] Status pin(uint64_t bytes, void** host) override;
  [[nodiscard]] Status unpin(void* host) override;
  [[nodiscard]] Status create_stream(uint32_t device, StreamHandle* stream) override;
  [[nodiscard]] Status destroy_stream(StreamHandle stream) override;
  [[nodiscard]] Status copy_in(uint32_t device, StreamHandle stream, Address to, const void* from,
                               uint64_t bytes) override;
  [[nodiscard]] Status copy_out(uint32_t device, StreamHandle stream, void* to, Address from,
                                uint64_t bytes) override;
  [[nodiscard]] Status copy(uint32_t device, StreamHandle stream, Address to, Address from,
                            uint64_t bytes) override;
  [[nodiscard]] Status fill(uint32_t device, StreamHandle stream, Address to, uint32_t word,
                            uint64_t bytes) override;
  // What was pinned or created and not given back.
  [[nodiscard]] size_t pinned_count() const { return pinned_.size(); }
  [[nodiscard]] size_t stream_count() const { return created_streams_.size(); }

  // The clock. advance: the host does something else. enqueue: the device gets work that takes that
  // long.
  [[nodiscard]] int64_t now_ns() const { return now_ns_; }
  void advance(int64_t duration_ns) { now_ns_ += duration_ns; }
  [[nodiscard]] Status enqueue(uint32_t device, StreamHandle stream, int64_t duration_ns);

  // A call that Memory does not have, made by a model of the driver's inside: counted,
  // and its cost moves the clock.
  void spend(Call call);

  // Addresses of segments: where the next of at least the granularity would go, and an order to put
  // it elsewhere. The order holds for the next alloc_segment alone, and only if that place is free;
  // 0 takes it back.
  [[nodiscard]] Address predict_segment(uint64_t bytes) const;
  void place_next_segment(Address address) { next_address_ = address; }

  // Other programs take memory, or give it back. Below what is used already, allocations fail until
  // enough is freed.
  void set_limit(uint32_t device, uint64_t bytes) { physical_.set_limit(device, bytes); }
  [[nodiscard]] uint64_t used_bytes(uint32_t device) const { return physical_.used_bytes(device); }
  [[nodiscard]] uint64_t peak_used_bytes(uint32_t device) const {
    return physical_.peak_used_bytes(device);
  }
  [[nodiscard]] const CallStats& stats() const { return stats_; }
  [[nodiscard]] const Costs& costs() const { return costs_; }
  [[nodiscard]] Faults& faults() { return faults_; }

  // Bytes as a kernel on the device sees them; may cross mappings that adjoin. kFault, and nothing
  // is copied, where any byte is unmapped or the device was given no access; kNotSupported without
  // backing.
  [[nodiscard]] Status read(uint32_t device, Address address, std::span<std::byte> out) const;
  [[nodiscard]] Status write(uint32_t device, Address address, std::span<const std::byte> bytes);

  // Walks over everything and checks what must always hold; why says what does not.
  [[nodiscard]] bool validate(std::string* why = nullptr) const;

 private:
  // Far above the numbers that tests choose for streams of their own.
  static constexpr StreamHandle kFirstStream = StreamHandle{1} << 32;

  // Every call opens with begin (counts it, asks for faults) and ends in done or refuse, which move
  // the clock.
  [[nodiscard]] Status begin(Call call);
  [[nodiscard]] Status done(Call call, int64_t cost_ns);
  [[nodiscard]] Status refuse(Call call, Status status);
  void wait_until(Call call, int64_t time_ns);
  [[nodiscard]] Status finish(Call call, Status status) {
    return status == Status::kOk ? done(call, 0) : refuse(call, status);
  }
  [[nodiscard]] bool is_device(uint32_t device) const { return device < device_count(); }

  [[nodiscard]] Address alloc_small(uint32_t device, uint64_t bytes);
  [[nodiscard]] Address alloc_pages(uint32_t device, uint64_t bytes, Address wanted, bool shared);

  // Bytes from an address on that the device may touch.
  struct Run {
    std::byte* bytes = nullptr;
    uint64_t count = 0;
  };
  [[nodiscard]] Run run_at(uint32_t device, Address address) const;
  template <typename Copy>
  [[nodiscard]] Status for_runs(uint32_t device, Address address, uint64_t bytes, Copy copy) const;

  Costs costs_;
  AddressSpace addresses_;
  Physical physical_;
  Segments segments_;
  Mappings mappings_;
  Streams streams_;
  Faults faults_;
  CallStats stats_;
  std::unordered_map<void*, std::unique_ptr<std::byte[]>> pinned_;
  std::set<StreamHandle> created_streams_;
  StreamHandle last_stream_ = kFirstStream;
  int64_t now_ns_ = 0;
  Address next_address_ = 0;
  bool backing_ = false;
  bool poison_on_unmap_ = false;
};

}  // namespace vram::gpu
