// Descriptor: a file descriptor that is closed with its holder. Any thread, one at a time.
#pragma once

#include <sys/file.h>
#include <unistd.h>
#include <utility>

namespace vram {

class Descriptor {
 public:
  // -1: none, as of a call that failed.
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() {
    if (number_ >= 0) (void)::close(number_);
  }

  [[nodiscard]] int number() const { return number_; }
  // Gives up ownership: the caller closes it.
  [[nodiscard]] int release() { return std::exchange(number_, -1); }
  [[nodiscard]] bool is_open() const { return number_ >= 0; }

 private:
  int number_;
};

// A Descriptor whose lock, if it has one (flock), ends with its holder. Closing is not enough: a
// process that was just forked, or is about to execute a program, has a copy of the descriptor,
// which would keep the file locked.
class LockedDescriptor : public Descriptor {
 public:
  using Descriptor::Descriptor;
  LockedDescriptor(LockedDescriptor&&) noexcept = default;
  LockedDescriptor& operator=(LockedDescriptor&&) noexcept = default;
  ~LockedDescriptor() {
    if (is_open()) (void)::flock(number(), LOCK_UN);
  }
};

}  // namespace vram
