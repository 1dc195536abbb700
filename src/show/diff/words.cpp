// What the formats of a comparison have in common.
#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/text.hpp"
#include "show/diff/diff.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace vram::show {

using explain::ChangeKind;
using explain::DeviceChange;
using explain::SiteChange;

std::string_view identifier(ChangeKind kind) {
  switch (kind) {
    case ChangeKind::kNew:
      return tr_later("new");
    case ChangeKind::kGrown:
      return tr_later("grown");
    case ChangeKind::kShrunk:
      return tr_later("shrunk");
    case ChangeKind::kGone:
      return tr_later("gone");
    case ChangeKind::kSame:
      return "same";
  }
  return "";
}

std::string_view identifier(explain::Regression regression) {
  switch (regression) {
    case explain::Regression::kNone:
      return "none";
    case explain::Regression::kPeak:
      return "peak";
    case explain::Regression::kOom:
      return "out_of_memory";
  }
  return "";
}

std::string_view phrase(explain::Regression regression) {
  switch (regression) {
    case explain::Regression::kNone:
      return "";
    case explain::Regression::kPeak:
      return "regression";
    case explain::Regression::kOom:
      return tr("out of memory");
  }
  return "";
}

std::string relative_growth(uint64_t a_bytes, uint64_t b_bytes) {
  if (a_bytes == b_bytes) return "0 %";
  if (a_bytes == 0) return "new";
  if (b_bytes == 0) return "gone";
  const double a = static_cast<double>(a_bytes);
  const double percent = 100 * (static_cast<double>(b_bytes) - a) / a;
  // A change that rounds to nothing is still one.
  if (percent > -0.05 && percent < 0.05) return percent > 0 ? "+<0.1 %" : "-<0.1 %";
  return fmt::format("{:+.1f} %", percent);
}

std::string limit_text(const explain::Limit& limit) {
  std::string text;
  if (limit.share) text = fmt::format("{:g} %", *limit.share * 100);
  if (limit.share && limit.bytes) text += tr(" or ");
  if (limit.bytes) text += format_bytes(*limit.bytes);
  return text;
}

std::string sentence(const DeviceChange& change) {
  const std::string device = explain::device_text(change.latest());
  const uint64_t a = change.a_bytes();
  const uint64_t b = change.b_bytes();
  if (!change.b) return trf("{}: only A has it, with a peak of {}", device, format_bytes(a));
  std::string text = trf("{}: the peak is new: {}", device, format_bytes(b));
  if (change.a) {
    const char* verb = a == b ? tr("stays at") : a < b ? tr("grew from") : tr("shrank from");
    text = trf("{}: the peak {} {}", device, verb, format_bytes(a));
    if (a != b) text += trf(" to {} ({})", format_bytes(b), relative_growth(a, b));
  }
  if (change.regression == explain::Regression::kPeak)
    text += trf(", more than the limit of {}", format_bytes(change.limit_bytes.value_or(0)));
  if (change.regression == explain::Regression::kOom) text += tr("; only B ran out of memory");
  return text;
}

const explain::Frame* place_in_repository(const explain::PeakSite& site) {
  const auto found = std::ranges::find_if(site.calls, [](const explain::Frame& call) {
    return call.line > 0 && !call.file.empty() && call.file.find_first_of("/<\\:") != 0 &&
           !call.file.starts_with("../");
  });
  return found == site.calls.end() ? nullptr : &*found;
}

std::string sentence(const Hotspot& hotspot) {
  const SiteChange& site = *hotspot.site;
  const std::string before = site.a ? format_bytes(site.a_bytes()) + tr(", now ") : tr("new, ");
  std::string text = trf("{} at the peak of {} ({}{}): {}",
                         format_bytes_signed(explain::growth(site.a_bytes(), site.b_bytes())),
                         explain::device_text(hotspot.device->latest()), before,
                         format_bytes(site.b_bytes()), printable(site.latest().name));
  if (hotspot.devices > 1) text += trf("; on {} devices", hotspot.devices);
  return text;
}

std::vector<Hotspot> hotspots(const explain::Diff& diff) {
  constexpr int64_t kMinPart = 100;
  std::map<std::string, Hotspot> found;
  const auto growth_of = [](const SiteChange& site) {
    return explain::growth(site.a_bytes(), site.b_bytes());
  };
  for (const DeviceChange& device : diff.devices) {
    if (diff.has_regression() && !device.is_regression()) continue;
    const int64_t grown = explain::growth(device.a_bytes(), device.b_bytes());
    for (const SiteChange& site : device.sites) {
      const int64_t bytes = growth_of(site);
      if (bytes <= 0 || bytes < grown / kMinPart) continue;
      const auto [at, is_first] = found.try_emplace(site.latest().name, Hotspot{&site, &device, 1});
      if (is_first) continue;
      if (at->second.device != &device) ++at->second.devices;
      if (growth_of(*at->second.site) < bytes) at->second = {&site, &device, at->second.devices};
    }
  }
  std::vector<Hotspot> spots;
  for (const auto& [name, spot] : found) spots.push_back(spot);
  std::ranges::stable_sort(spots, std::ranges::greater(),
                           [&](const Hotspot& spot) { return growth_of(*spot.site); });
  spots.resize(std::min(spots.size(), kMaxHotspots));
  return spots;
}

}  // namespace vram::show
