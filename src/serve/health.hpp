// Whether the server's picture of the machine is fresh. A look that hangs in a driver leaves the
// last picture standing: it is still served, and this says how old it is and why. Pure functions.
#pragma once

#include "watch/sampler.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace vram::serve {

// How the server comes by its picture. Called from any thread; nothing here waits.
struct SampleFeed {
  std::function<std::shared_ptr<const watch::Sampled>()> latest;  // nothing before the first look
  std::function<uint64_t()> overdue_ns;                           // as watch::Sampler's
  std::function<uint64_t()> now_ns;                               // monotonic
  std::chrono::nanoseconds period{};
};

enum class Freshness : uint8_t { kStarting, kFresh, kStale };

struct Health {
  Freshness freshness = Freshness::kStarting;
  std::optional<uint64_t> age_ns;  // since the last look that ended began
  std::string why;                 // it is not fresh; for people
};

[[nodiscard]] Health health_of(const watch::Sampled* sampled, const SampleFeed& feed);

// vram.health/1
[[nodiscard]] std::string health_json(const Health& health, const watch::Sampled* sampled,
                                      const SampleFeed& feed);

}  // namespace vram::serve
