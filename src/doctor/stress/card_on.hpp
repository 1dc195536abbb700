// CardOn: a Card made of any gpu::Memory and the gpu::Copies of the same device (card.hpp). What
// gives something back is tried once more where it fails: whatever kept the driver from it may be
// over.
#pragma once

#include "doctor/stress/card.hpp"
#include "gpu/copies.hpp"
#include "pool/device_on.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace vram::doctor {

// What the driver answered to such a call that failed last, in its own words.
using Answer = std::function<std::string(gpu::Call, Status)>;

template <gpu::Memory M, gpu::Copies C>
class CardOn final : public pool::DeviceOn<M, Card> {
 public:
  using Base = pool::DeviceOn<M, Card>;
  using Call = gpu::Call;

  // memory and copies must outlive it; lanes: how many threads may call them at a time.
  CardOn(M& memory, C& copies, uint32_t ordinal, uint32_t lanes, Answer answer)
      : Base(memory, ordinal),
        memory_(memory),
        copies_(copies),
        ordinal_(ordinal),
        lanes_(lanes),
        answer_(std::move(answer)) {}

  [[nodiscard]] uint32_t lanes() const override { return lanes_; }

  [[nodiscard]] Status memory_info(gpu::MemoryInfo* info) override {
    return note(Call::kMemoryInfo, Base::memory_info(info));
  }
  [[nodiscard]] Status reserve(uint64_t bytes, Address* address) override {
    return note(Call::kReserve, Base::reserve(bytes, address));
  }
  [[nodiscard]] Status unreserve(Address address, uint64_t bytes) override {
    return back(Call::kUnreserve, [&] { return Base::unreserve(address, bytes); });
  }
  [[nodiscard]] Status create(uint64_t bytes, gpu::Handle* handle) override {
    return note(Call::kCreate, Base::create(bytes, handle));
  }
  [[nodiscard]] Status release(gpu::Handle handle) override {
    return back(Call::kRelease, [&] { return Base::release(handle); });
  }
  [[nodiscard]] Status map(Address address, uint64_t bytes, gpu::Handle handle) override {
    return note(Call::kMap, Base::map(address, bytes, handle));
  }
  [[nodiscard]] Status set_access(Address address, uint64_t bytes) override {
    return note(Call::kSetAccess, Base::set_access(address, bytes));
  }
  [[nodiscard]] Status unmap(Address address, uint64_t bytes) override {
    return back(Call::kUnmap, [&] { return Base::unmap(address, bytes); });
  }
  [[nodiscard]] Status alloc_segment(uint64_t bytes, Address* address) override {
    return note(Call::kAllocSegment, Base::alloc_segment(bytes, address));
  }
  [[nodiscard]] Status free_segment(Address address) override {
    return back(Call::kFreeSegment, [&] { return Base::free_segment(address); });
  }
  [[nodiscard]] Status synchronize() override {
    return note(Call::kSynchronize, Base::synchronize());
  }

  [[nodiscard]] Status pin(uint64_t bytes, void** host) override {
    return note(Call::kPin, copies_.pin(bytes, host));
  }
  void unpin(void* host) override {
    (void)back(Call::kUnpin, [&] { return copies_.unpin(host); });
  }
  [[nodiscard]] Status create_stream(StreamHandle* stream) override {
    return note(Call::kCreateStream, copies_.create_stream(ordinal_, stream));
  }
  void destroy_stream(StreamHandle stream) override {
    (void)back(Call::kDestroyStream, [&] { return copies_.destroy_stream(stream); });
  }
  [[nodiscard]] Status copy_in(StreamHandle stream, Address to, const void* from,
                               uint64_t bytes) override {
    return note(Call::kCopyIn, copies_.copy_in(ordinal_, stream, to, from, bytes));
  }
  [[nodiscard]] Status copy_out(StreamHandle stream, void* to, Address from,
                                uint64_t bytes) override {
    return note(Call::kCopyOut, copies_.copy_out(ordinal_, stream, to, from, bytes));
  }
  [[nodiscard]] Status copy(StreamHandle stream, Address to, Address from,
                            uint64_t bytes) override {
    return note(Call::kCopy, copies_.copy(ordinal_, stream, to, from, bytes));
  }
  [[nodiscard]] Status fill(StreamHandle stream, Address to, uint32_t word,
                            uint64_t bytes) override {
    return note(Call::kFill, copies_.fill(ordinal_, stream, to, word, bytes));
  }
  // Without an event to wait for: waits for the whole device.
  [[nodiscard]] Status finish(StreamHandle stream) override {
    gpu::EventHandle event = 0;
    if (note(Call::kRecord, memory_.record(ordinal_, stream, &event)) != Status::kOk)
      return note(Call::kSynchronize, memory_.synchronize(ordinal_));
    const Status waited = note(Call::kWait, memory_.wait(event));
    (void)back(Call::kDestroy, [&] { return memory_.destroy(event); });
    return waited;
  }

 private:
  Status note(Call call, Status status) { return this->noted(call, status, answer_); }
  template <typename Function>
  Status back(Call call, Function function) {
    const Status status = note(call, function());
    return status == Status::kOk || status == Status::kFault ? status : function();
  }

  M& memory_;
  C& copies_;
  uint32_t ordinal_;
  uint32_t lanes_;
  Answer answer_;
};

}  // namespace vram::doctor
