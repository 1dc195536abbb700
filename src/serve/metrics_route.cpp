#include "serve/metrics_route.hpp"

#include "serve/document_cache.hpp"

#include <array>
#include <utility>

namespace vram::serve {
namespace {

constexpr uint64_t kNsPerSecond = 1'000'000'000;

// A page says how late the look under way is, so while a driver hangs there is a new one each
// second.
uint64_t edition(const watch::Sampled& sampled, uint64_t overdue_ns) {
  const uint64_t late_s = overdue_ns / kNsPerSecond;
  return ((sampled.number + 1) << 24) + (late_s & 0xff'ffff);
}

struct Pages {
  std::array<DocumentCache, 2> caches;  // by format
};

}  // namespace

Route metrics_route(const SampleFeed& feed, std::shared_ptr<Tally> tally,
                    show::MetricsOptions options) {
  const auto pages = std::make_shared<Pages>();
  const auto answer = [feed, pages, tally = std::move(tally), options](const Request& request,
                                                                       std::string_view) {
    static const watch::Sampled kNone{};
    const auto latest = feed.latest();
    const watch::Sampled& sampled = latest ? *latest : kNone;
    show::MetricsOptions wanted = options;
    wanted.format = show::negotiate(request.accept);
    const uint64_t overdue_ns = feed.overdue_ns();
    tally->count_scrape();
    DocumentCache& cache = pages->caches.at(static_cast<size_t>(wanted.format));
    Response response{
        .status = 200,
        .content_type = std::string(show::content_type(wanted.format)),
        .body = cache.get(
            edition(sampled, overdue_ns),
            [&] { return show::metrics_text(sampled, tally->figures(overdue_ns), wanted); }),
        .headers = {}};
    if (latest) add_age(response, health_of(latest.get(), feed));
    return response;
  };
  return {"/metrics", {}, "for Prometheus and OpenMetrics", answer};
}

}  // namespace vram::serve
