// One document of the last look: made when it is first asked for, and the same bytes for all who
// ask until the next look. The server's thread alone.
#pragma once

#include "serve/body.hpp"

#include <cstdint>
#include <memory>
#include <utility>

namespace vram::serve {

class LookCache {
 public:
  template <typename Make>
  [[nodiscard]] std::shared_ptr<const Body> get(uint64_t look, Make make) {
    if (look != look_) {
      body_ = std::make_shared<Body>(make());
      look_ = look;
    }
    return body_;
  }

 private:
  uint64_t look_ = 0;  // looks count from 1
  std::shared_ptr<const Body> body_;
};

}  // namespace vram::serve
