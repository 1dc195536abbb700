#include "serve/metrics_route.hpp"

#include "base/time.hpp"
#include "serve/body.hpp"

#include <array>
#include <charconv>
#include <fcntl.h>
#include <optional>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace vram::serve {
namespace {

// A page says how late the sample under way is, so while a driver hangs there is a new one each
// second.
uint64_t edition(const watch::Sampled& sampled, uint64_t overdue_ns) {
  const uint64_t late_s = overdue_ns / kSecondNs;
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

namespace {

// The second number of /proc/self/statm, in pages.
std::optional<uint64_t> resident_bytes() {
  char text[128];
  const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  const ssize_t count = read(file, text, sizeof text);
  (void)close(file);
  const std::string_view line(text, count > 0 ? static_cast<size_t>(count) : 0);
  const size_t space = line.find(' ');
  uint64_t pages = 0;
  if (space == std::string_view::npos ||
      std::from_chars(line.data() + space + 1, line.data() + line.size(), pages).ec != std::errc())
    return std::nullopt;
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

void Tally::count_sample(const watch::Sampled& sampled) {
  const std::lock_guard guard(mutex_);
  show::count_failures(sampled.snapshot, figures_);
}

void Tally::count_scrape() {
  const std::lock_guard guard(mutex_);
  *figures_.scrapes += 1;
}

show::ExporterFigures Tally::figures(uint64_t overdue_ns) const {
  show::ExporterFigures figures;
  {
    const std::lock_guard guard(mutex_);
    figures = figures_;
  }
  figures.overdue_ns = overdue_ns;
  figures.resident_bytes = resident_bytes();
  return figures;
}

}  // namespace vram::serve
