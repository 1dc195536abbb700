// Device: what the pool needs of one device (device_on.hpp makes it of any gpu::Memory). Two
// halves: memory (as memory.hpp says) and order: when the work that was queued in a stream is done.
//
// Order by stamps: a stamp is a number that grows with every use and costs no driver call. An event
// answers for all stamps before it; it is made by mark(), or by who asks whether a stamp is done.
// Streams are named by their handles, and by aliases once they are gone. One thread at a time.
#pragma once

#include "gpu/memory.hpp"

#include <cstdint>
#include <limits>

namespace vram::pool {

using gpu::Address;
using gpu::Status;
using gpu::StreamHandle;
using Stamp = uint64_t;
// Of all work that has been stamped so far.
inline constexpr Stamp kLastStamp = std::numeric_limits<Stamp>::max();

class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  [[nodiscard]] virtual uint64_t granularity_bytes() const = 0;
  [[nodiscard]] virtual Status memory_info(gpu::MemoryInfo* info) = 0;
  [[nodiscard]] virtual Status reserve(uint64_t bytes, Address* address) = 0;
  [[nodiscard]] virtual Status unreserve(Address address, uint64_t bytes) = 0;
  [[nodiscard]] virtual Status create(uint64_t bytes, gpu::Handle* handle) = 0;
  [[nodiscard]] virtual Status release(gpu::Handle handle) = 0;
  [[nodiscard]] virtual Status map(Address address, uint64_t bytes, gpu::Handle handle) = 0;
  [[nodiscard]] virtual Status set_access(Address address, uint64_t bytes) = 0;
  [[nodiscard]] virtual Status unmap(Address address, uint64_t bytes) = 0;

  // A segment: addresses and memory in one call, for devices that can't map.
  [[nodiscard]] virtual Status alloc_segment(uint64_t bytes, Address* address) = 0;
  [[nodiscard]] virtual Status free_segment(Address address) = 0;

  // Stands for all work queued in the stream so far. Called at every free: no driver call.
  [[nodiscard]] virtual Stamp stamp(StreamHandle stream) = 0;
  // What is queued in the stream so far shall be told from what comes: worth an event. Where
  // recording is not allowed, the event is recorded once it is. One that can't be had is done
  // without.
  virtual void mark(StreamHandle stream) = 0;
  // Whether that work is done. May ask the driver; false where it can't be known.
  [[nodiscard]] virtual bool is_done(StreamHandle stream, Stamp stamp) = 0;
  // Later work of `waiting` starts after the stamped work; the host does not wait. Where an event
  // stands right behind that work, nothing that was queued later is waited for. kNotReady: a stream
  // that is gone, and no event stands behind its work; or recording was ever not allowed. Then
  // graphs may be launched, and NVIDIA's driver (580.159) loses a wait that one thread queues while
  // another one launches a graph in the same stream (docs/pool.md).
  [[nodiscard]] virtual Status stream_wait(StreamHandle waiting, StreamHandle stream,
                                           Stamp stamp) = 0;
  // The host waits until the stamped work is done, and for nothing of other streams; nor for what
  // was queued later, where an event stands right behind that work. Where one stands behind it, no
  // capture of a graph is disturbed. kNotReady: some of it can't be waited for, as while the stream
  // is captured.
  [[nodiscard]] virtual Status wait(StreamHandle stream, Stamp stamp) = 0;
  // The host waits for all of the device: breaks whatever graph is being captured.
  [[nodiscard]] virtual Status synchronize() = 0;
  // Where it is not allowed, nothing is recorded but by close(), and only events that stand already
  // say what is done. While a stream is captured, only the thread that captures it may name it to
  // the driver; which thread calls here, and which streams are captured, is not known.
  virtual void allow_recording(bool is_allowed) = 0;
  // The stream is about to go, with all queued that ever will be. The driver is not passed its
  // handle again, which may name a new stream. Its stamps are asked for by the alias that is
  // returned; what its events don't answer, wait() does, which then waits for the device.
  [[nodiscard]] virtual StreamHandle close(StreamHandle stream) = 0;
};

}  // namespace vram::pool
