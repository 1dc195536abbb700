// WrappedMemory and WrappedCopies: pass every call of a Memory or Copies that reaches the driver
// through one function, for code that locks, logs or repeats calls.
//
// The function receives the name of the call and the call itself, which it may run once, several
// times or never. Its result is the result of the call. It must allow as many threads as the caller
// uses.
#pragma once

#include "gpu/copies.hpp"
#include "gpu/memory.hpp"

#include <cstdint>
#include <utility>

namespace vram::gpu {

// Around: Status around(Call call, run), where run() makes the call.
template <typename Around>
class WrappedMemory final : public Memory {
 public:
  // memory must outlive it.
  WrappedMemory(Memory& memory, Around around) : memory_(memory), around_(std::move(around)) {}

  [[nodiscard]] uint32_t device_count() const override { return memory_.device_count(); }
  [[nodiscard]] uint64_t granularity_bytes() const override { return memory_.granularity_bytes(); }
  [[nodiscard]] Status memory_info(uint32_t device, MemoryInfo* info) override {
    return around_(Call::kMemoryInfo, [&] { return memory_.memory_info(device, info); });
  }
  [[nodiscard]] Status alloc_segment(uint32_t device, uint64_t bytes, Address* address) override {
    return around_(Call::kAllocSegment,
                   [&] { return memory_.alloc_segment(device, bytes, address); });
  }
  [[nodiscard]] Status free_segment(uint32_t device, Address address) override {
    return around_(Call::kFreeSegment, [&] { return memory_.free_segment(device, address); });
  }
  [[nodiscard]] Status reserve(uint64_t bytes, Address* address) override {
    return around_(Call::kReserve, [&] { return memory_.reserve(bytes, address); });
  }
  [[nodiscard]] Status unreserve(Address address, uint64_t bytes) override {
    return around_(Call::kUnreserve, [&] { return memory_.unreserve(address, bytes); });
  }
  [[nodiscard]] Status create(uint32_t device, uint64_t bytes, Handle* handle) override {
    return around_(Call::kCreate, [&] { return memory_.create(device, bytes, handle); });
  }
  [[nodiscard]] Status release(Handle handle) override {
    return around_(Call::kRelease, [&] { return memory_.release(handle); });
  }
  [[nodiscard]] Status map(Address address, uint64_t bytes, Handle handle) override {
    return around_(Call::kMap, [&] { return memory_.map(address, bytes, handle); });
  }
  [[nodiscard]] Status set_access(Address address, uint64_t bytes, uint32_t device) override {
    return around_(Call::kSetAccess, [&] { return memory_.set_access(address, bytes, device); });
  }
  [[nodiscard]] Status unmap(Address address, uint64_t bytes) override {
    return around_(Call::kUnmap, [&] { return memory_.unmap(address, bytes); });
  }
  [[nodiscard]] Status record(uint32_t device, StreamHandle stream, EventHandle* event) override {
    return around_(Call::kRecord, [&] { return memory_.record(device, stream, event); });
  }
  [[nodiscard]] Status query(EventHandle event) override {
    return around_(Call::kQuery, [&] { return memory_.query(event); });
  }
  [[nodiscard]] Status wait(EventHandle event) override {
    return around_(Call::kWait, [&] { return memory_.wait(event); });
  }
  [[nodiscard]] Status stream_wait(uint32_t device, StreamHandle stream,
                                   EventHandle event) override {
    return around_(Call::kStreamWait, [&] { return memory_.stream_wait(device, stream, event); });
  }
  [[nodiscard]] Status destroy(EventHandle event) override {
    return around_(Call::kDestroy, [&] { return memory_.destroy(event); });
  }
  [[nodiscard]] Status synchronize(uint32_t device) override {
    return around_(Call::kSynchronize, [&] { return memory_.synchronize(device); });
  }

 private:
  Memory& memory_;
  Around around_;
};

template <typename Around>
class WrappedCopies final : public Copies {
 public:
  // copies must outlive it.
  WrappedCopies(Copies& copies, Around around) : copies_(copies), around_(std::move(around)) {}

  [[nodiscard]] Status pin(uint64_t bytes, void** host) override {
    return around_(Call::kPin, [&] { return copies_.pin(bytes, host); });
  }
  [[nodiscard]] Status unpin(void* host) override {
    return around_(Call::kUnpin, [&] { return copies_.unpin(host); });
  }
  [[nodiscard]] Status create_stream(uint32_t device, StreamHandle* stream) override {
    return around_(Call::kCreateStream, [&] { return copies_.create_stream(device, stream); });
  }
  [[nodiscard]] Status destroy_stream(StreamHandle stream) override {
    return around_(Call::kDestroyStream, [&] { return copies_.destroy_stream(stream); });
  }
  [[nodiscard]] Status copy_in(uint32_t device, StreamHandle stream, Address to, const void* from,
                               uint64_t bytes) override {
    return around_(Call::kCopyIn, [&] { return copies_.copy_in(device, stream, to, from, bytes); });
  }
  [[nodiscard]] Status copy_out(uint32_t device, StreamHandle stream, void* to, Address from,
                                uint64_t bytes) override {
    return around_(Call::kCopyOut,
                   [&] { return copies_.copy_out(device, stream, to, from, bytes); });
  }
  [[nodiscard]] Status copy(uint32_t device, StreamHandle stream, Address to, Address from,
                            uint64_t bytes) override {
    return around_(Call::kCopy, [&] { return copies_.copy(device, stream, to, from, bytes); });
  }
  [[nodiscard]] Status fill(uint32_t device, StreamHandle stream, Address to, uint32_t word,
                            uint64_t bytes) override {
    return around_(Call::kFill, [&] { return copies_.fill(device, stream, to, word, bytes); });
  }

 private:
  Copies& copies_;
  Around around_;
};

}  // namespace vram::gpu
