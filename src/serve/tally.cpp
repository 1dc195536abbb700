#include "serve/tally.hpp"

#include <charconv>
#include <fcntl.h>
#include <optional>
#include <string_view>
#include <unistd.h>

namespace vram::serve {
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
