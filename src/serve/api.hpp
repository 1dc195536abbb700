// API endpoints for the current state: health, status, devices, processes. Each response is made
// from the last sample; none waits for a driver.
//
//     Sampler ─▶ SampleFeed ─▶ routes ─▶ Router
//
// Responses are made on the server's thread.
#pragma once

#include "serve/alert_engine.hpp"
#include "serve/health.hpp"
#include "serve/router.hpp"

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

namespace vram::serve {

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
    const std::shared_ptr<const AlertEngine>& alert_engine);

// The document that describes the API.
[[nodiscard]] Route openapi_route();

}  // namespace vram::serve
