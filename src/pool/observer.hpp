// Observer: is notified of what the pool does with its memory, and of the blocks in it. Called with
// the pool's lock held, so it must not call the pool; it is notified of changes when they are done,
// and of a block that is finished before its memory can be used for anything else.
#pragma once

#include "pool/stamp.hpp"

#include <cstdint>

namespace vram::pool {

enum class Found : uint8_t {
  kLive,
  kShared,  // other streams use it, too
  kHeld     // freed, and they still do; finished() will follow
};

class Observer {
 public:
  virtual ~Observer() = default;
  // Memory of the device, at its home.
  virtual void mapped(Address address, uint64_t bytes) = 0;
  virtual void unmapped(Address address, uint64_t bytes) = 0;
  // A freed block that other streams used: they are done.
  virtual void finished(Address block) = 0;
  // What is there already. A block that is shown elsewhere than at its home follows its parts.
  virtual void found_mapped(Address address, uint64_t bytes) = 0;
  virtual void part(Address block, Address home, uint64_t bytes) = 0;
  virtual void found_block(Address address, uint64_t requested_bytes, StreamHandle stream,
                           Found state) = 0;
};

}  // namespace vram::pool
