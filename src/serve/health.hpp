// Health: whether the last sample is recent. If a sample hangs in a driver, the server still serves
// the last one; the health states its age and the reason. Pure functions.
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
  std::function<std::shared_ptr<const watch::Sampled>()> latest;  // nullptr before the first sample
  std::function<uint64_t()> overdue_ns;                           // as watch::Sampler's
  std::function<uint64_t()> now_ns;                               // monotonic
  std::chrono::nanoseconds period{};
};

enum class Freshness : uint8_t { kStarting, kFresh, kStale };

struct Health {
  Freshness freshness = Freshness::kStarting;
  std::optional<uint64_t> age_ns;  // since the start of the last finished sample
  std::string why;                 // why it is not fresh
};

[[nodiscard]] Health health_of(const watch::Sampled* sampled, const SampleFeed& feed);

// vram.health/1
[[nodiscard]] std::string health_json(const Health& health, const watch::Sampled* sampled,
                                      const SampleFeed& feed);

}  // namespace vram::serve
