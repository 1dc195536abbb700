// Backing: real bytes in host memory for the simulated GPU's memory, so that a test can write
// through one address and read through another. Opt-in: without it contents do not exist. One piece
// for each handle and each segment; new bytes are poison, so that reading what was never written
// shows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace vram::gpu {

// All ones: not a number in every floating-point format.
inline constexpr std::byte kPoison{0xff};

class Backing {
 public:
  Backing() = default;  // no bytes
  [[nodiscard]] static Backing poisoned(uint64_t bytes);
  void poison(uint64_t offset, uint64_t bytes);
  void poison() { poison(0, size_bytes_); }

  [[nodiscard]] bool exists() const { return bytes_ != nullptr; }
  // Const as a pointer is: the bytes are not.
  [[nodiscard]] std::byte* at(uint64_t offset) const { return bytes_.get() + offset; }

 private:
  std::unique_ptr<std::byte[]> bytes_;
  uint64_t size_bytes_ = 0;
};

}  // namespace vram::gpu
