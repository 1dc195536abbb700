// API endpoints for the current state: health, status, devices, processes. Each response is made
// from the last sample; none waits for a driver.
//
//     Sampler ─▶ SampleFeed ─▶ routes ─▶ Router
//
// Responses are made on the server's thread.
#pragma once

#include "alerts/alert_engine.hpp"
#include "base/result.hpp"
#include "serve/http.hpp"
#include "serve/router.hpp"
#include "watch/sampler.hpp"
#include "watch/snapshot.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vram::serve {

// Health: whether the last sample is recent. If a sample hangs in a driver, the server still serves
// the last one; the health states its age and the reason. Pure functions.

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

// Makes a response from the last sample. Before the first sample, the response is 503.
using Answer = std::function<Response(const watch::Sampled& sampled, const Request& request,
                                      std::string_view rest)>;
// With the age of the data as a header.
[[nodiscard]] Route route_of_sample(Route route, SampleFeed feed, Answer answer);

inline constexpr std::string_view kAgeHeader = "X-Vram-Age-Seconds";
void add_age(Response& response, const Health& health);

[[nodiscard]] std::vector<Route> live_routes(const SampleFeed& feed);

// What is wrong, and the rules that say so.
[[nodiscard]] std::vector<Route> alert_routes(
    const std::shared_ptr<const alerts::AlertEngine>& alert_engine);

// The document that describes the API.
[[nodiscard]] Route openapi_route();

// Filters and sorts processes for /api/v1/processes. Pure functions.

// Finds a device by its uuid, PCI id or number; null if there is none.
[[nodiscard]] const watch::Device* find_device(const watch::Snapshot& snapshot,
                                               std::string_view key);

enum class SortBy : uint8_t { kMemory, kPid, kUser, kBusy };

struct ProcessQuery {
  std::optional<uint32_t> device;  // its index
  std::optional<std::string> user;
  SortBy sort = SortBy::kMemory;
};

// kBadInput: a device or an order that there is not.
[[nodiscard]] Result<ProcessQuery> parse_process_query(const Query& query,
                                                       const watch::Snapshot& snapshot);

// Sorted by value, descending, unknown ones last; then by pid, so that rows keep their places.
[[nodiscard]] std::vector<const watch::Process*> select(const watch::Snapshot& snapshot,
                                                        const ProcessQuery& query);

}  // namespace vram::serve
