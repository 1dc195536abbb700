// A document of the last sample, made at its first use; all later requests get the same bytes until
// the next edition (the sample number or greater; never 0). For the server's thread only.
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
