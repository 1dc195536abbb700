// BadGpu: the simulated GPU with memory that is broken on purpose. Places are offsets in a handle,
// named by its number: the first that was created is 1.
#pragma once

#include "gpu/sim/sim_gpu.hpp"
#include "stress/card.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <vector>

namespace vram::stress {

struct Place {
  uint64_t handle_number = 0;
  uint64_t offset_bytes = 0;
  uint32_t bit = 0;  // of the byte there
};

inline gpu::SimOptions sim_with_bytes(uint64_t bytes) {
  return {.devices = {{bytes, gpu::kUnlimited}}, .backing = true};
}

class BadGpu : public gpu::SimGpu {
 public:
  explicit BadGpu(uint64_t bytes) : SimGpu(sim_with_bytes(bytes)) {}

  // Reads as 1 whatever is written.
  void stick(Place place) { stuck_ = place; }
  // Changes by itself, once, after so many writes.
  void flip(Place place, uint64_t after_writes) { flipping_ = {place, after_writes}; }
  // In that handle, two addresses that differ in this power of two are one place.
  void stick_address_line(uint64_t handle_number, uint64_t line_bytes) {
    line_handle_ = handle_number;
    line_bytes_ = line_bytes;
  }
  [[nodiscard]] Address address_of(Place place) const {
    return homes_.at(place.handle_number).address + place.offset_bytes;
  }
  [[nodiscard]] gpu::Handle handle_of(uint64_t number) const { return homes_.at(number).handle; }

  [[nodiscard]] Status create(uint32_t device, uint64_t bytes, gpu::Handle* handle) override {
    const Status status = SimGpu::create(device, bytes, handle);
    if (status == Status::kOk) homes_[++created_] = {*handle, 0, bytes};
    return status;
  }
  // The first address that a handle gets is where its bytes are looked at.
  [[nodiscard]] Status map(Address address, uint64_t bytes, gpu::Handle handle) override {
    const Status status = SimGpu::map(address, bytes, handle);
    for (auto& [number, home] : homes_) {
      if (status == Status::kOk && home.handle == handle && home.address == 0)
        home.address = address;
    }
    return status;
  }
  [[nodiscard]] Status copy_in(uint32_t device, StreamHandle stream, Address to, const void* from,
                               uint64_t bytes) override {
    return written(to, bytes, SimGpu::copy_in(device, stream, to, from, bytes));
  }
  [[nodiscard]] Status copy(uint32_t device, StreamHandle stream, Address to, Address from,
                            uint64_t bytes) override {
    return written(to, bytes, SimGpu::copy(device, stream, to, from, bytes));
  }
  [[nodiscard]] Status fill(uint32_t device, StreamHandle stream, Address to, uint32_t word,
                            uint64_t bytes) override {
    return written(to, bytes, SimGpu::fill(device, stream, to, word, bytes));
  }

 private:
  struct Home {
    gpu::Handle handle = 0;
    Address address = 0;
    uint64_t bytes = 0;
  };

  Status written(Address to, uint64_t bytes, Status status) {
    ++writes_;
    if (line_bytes_ != 0) alias(to, bytes);
    if (stuck_) change(*stuck_, [](unsigned byte, unsigned bit) { return byte | bit; });
    if (flipping_ && flipping_->second == writes_)
      change(flipping_->first, [](unsigned byte, unsigned bit) { return byte ^ bit; });
    return status;
  }

  template <typename Change>
  void change(Place place, Change change) {
    const auto home = homes_.find(place.handle_number);
    if (home == homes_.end() || home->second.address == 0) return;
    const Address at = address_of(place);
    std::byte byte{};
    if (read(0, at, std::span(&byte, 1)) != Status::kOk) return;
    byte = static_cast<std::byte>(change(std::to_integer<unsigned>(byte), 1U << place.bit));
    (void)write(0, at, std::span(&byte, 1));
  }

  // Both places of each pair become what was written last.
  void alias(Address to, uint64_t bytes) {
    const auto home = homes_.find(line_handle_);
    if (home == homes_.end() || home->second.address == 0) return;
    const Address begin = std::max(to, home->second.address);
    const Address end = std::min(to + bytes, home->second.address + home->second.bytes);
    uint64_t word = 0;
    for (Address at = begin; at < end; at += sizeof(word)) {
      const Address other = ((at - home->second.address) ^ line_bytes_) + home->second.address;
      (void)read(0, at, std::as_writable_bytes(std::span(&word, 1)));
      (void)write(0, other, std::as_bytes(std::span(&word, 1)));
    }
  }

  std::map<uint64_t, Home> homes_;
  uint64_t created_ = 0;
  uint64_t writes_ = 0;
  std::optional<Place> stuck_;
  std::optional<std::pair<Place, uint64_t>> flipping_;
  uint64_t line_handle_ = 0;
  uint64_t line_bytes_ = 0;
};

// A clock that goes on by ten microseconds each time it is asked: a budget is a number of looks.
class StepClock {
 public:
  std::function<int64_t()> function() {
    return [this] { return now_ns_ += 10'000; };
  }

 private:
  std::atomic<int64_t> now_ns_{0};
};

inline std::string status_text(gpu::Call, Status status) {
  return std::string(gpu::to_string(status));
}

inline Card card_on(gpu::SimGpu& gpu) { return {gpu, gpu, 0, 1, status_text}; }

}  // namespace vram::stress
