// What the API says of the machine now: health, status, devices, processes. Each answer is made of
// the last look; none waits for a driver.
//
//     Sampler ─▶ Sights ─▶ routes ─▶ Router
//
// The answers are made on the server's thread alone.
#pragma once

#include "serve/health.hpp"
#include "serve/router.hpp"

#include <functional>
#include <string_view>
#include <vector>

namespace vram::serve {

// Of the last look. Before the first one it answers 503 and makes nothing.
using Answer = std::function<Response(const watch::Sampled& sampled, const Request& request,
                                      std::string_view rest)>;
// With the age of the data as a header.
[[nodiscard]] Route route_of_sample(Route route, SampleFeed feed, Answer answer);

inline constexpr std::string_view kAgeHeader = "X-Vram-Age-Seconds";
void add_age(Response& response, const Health& health);

[[nodiscard]] std::vector<Route> live_routes(const SampleFeed& feed);

// The document that describes the API.
[[nodiscard]] Route openapi_route();

}  // namespace vram::serve
