// The settings of GMLake, as its environment variables are called and with their defaults. From a
// spec to gmlake. Pure.
#pragma once

#include "base/bytes.hpp"
#include "replay/registry.hpp"

#include <cstdint>
#include <span>

namespace vram::replay {

struct GmLakeSettings {
  uint64_t frag_limit_bytes = 512 * kMiB;  // smaller requests are not stitched for
  double reuse_limit = 10;                 // a stitched block may be that many times the request
  uint64_t defrag_level = 0;  // stitch: 0 before growing, 1 after it, 2 after giving back
  uint64_t auto_gc_bytes = 1000 * kGiB;
};

[[nodiscard]] std::span<const PeerKey> gmlake_keys();
// Errors: kBadInput with the value, what is accepted, and all valid keys.
[[nodiscard]] Result<GmLakeSettings> parse_gmlake_settings(Settings settings);

}  // namespace vram::replay
