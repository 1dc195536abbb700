// Progress: how far one stream's work is done, for callers that ask about many stamps at once: of
// two stamps, the later is done no sooner, so most answers follow from earlier ones and cost no
// call to the driver. A value for one survey; it does not notice what is done meanwhile.
#pragma once

#include "pool/device.hpp"

#include <cstdint>
#include <limits>

namespace vram::pool {

class Progress {
 public:
  Progress(Device& device, StreamHandle stream) : device_(device), stream_(stream) {}

  [[nodiscard]] bool is_done(Stamp stamp) {
    if (stamp <= done_) return true;
    if (stamp >= pending_) return false;
    const bool is_it = device_.is_done(stream_, stamp);
    if (is_it) done_ = stamp;
    if (!is_it) pending_ = stamp;
    return is_it;
  }

 private:
  Device& device_;
  StreamHandle stream_;
  Stamp done_ = 0;
  Stamp pending_ = std::numeric_limits<Stamp>::max();
};

}  // namespace vram::pool
