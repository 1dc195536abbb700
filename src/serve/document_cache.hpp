// One document of the last look: made when it is first asked for, and the same bytes for all who
// ask until the next edition (the look number, or more than it; never 0). The server's thread
// alone.
#pragma once

#include "serve/body.hpp"

#include <cstdint>
#include <memory>
#include <utility>

namespace vram::serve {

class DocumentCache {
 public:
  template <typename Make>
  [[nodiscard]] std::shared_ptr<const Body> get(uint64_t edition, Make make) {
    if (edition != edition_) {
      body_ = std::make_shared<Body>(make());
      edition_ = edition;
    }
    return body_;
  }

 private:
  uint64_t edition_ = 0;
  std::shared_ptr<const Body> body_;
};

}  // namespace vram::serve
