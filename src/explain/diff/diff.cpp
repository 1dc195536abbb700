#include "explain/diff/diff.hpp"

#include "base/bytes.hpp"
#include "base/language.hpp"
#include "explain/diff/match.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

namespace vram::explain {
namespace {

// Of a normal distribution, the standard deviation is this many median absolute deviations.
constexpr double kSigmaPerMad = 1.4826;
// Peaks within this many standard deviations of the other runs' are no change.
constexpr double kSigmas = 3;
// Of out-of-memory errors in so many more runs of B.
constexpr double kMaxOomProbability = 0.05;
// A site that a baseline does not list may have had any size below those that it lists. It is shown
// by itself if it has grown by half or more.
constexpr uint64_t kCertainlyGrown = 2;

std::optional<SiteBasis> common_basis(const DevicePeak& a, const DevicePeak& b) {
  for (const SiteBasis basis : {SiteBasis::kStack, SiteBasis::kName, SiteBasis::kPosition})
    if (!a.by(basis).empty() && !b.by(basis).empty()) return basis;
  return std::nullopt;
}

// Of a device that only one side has: the first that was recorded.
std::optional<SiteBasis> own_basis(const DevicePeak& peak) { return common_basis(peak, peak); }

int64_t magnitude(const SiteChange& change) {
  return std::abs(growth(change.a_bytes(), change.b_bytes()));
}

// The sites of a device as a baseline of `other` would list them.
std::vector<PeakSite> listed(const std::optional<SideDevice>& device, SiteBasis basis,
                             const std::optional<SideDevice>& other) {
  if (!device) return {};
  std::vector<PeakSite> sites = device->peak.by(basis);
  const uint64_t from = other ? other->peak.listed_from_bytes : 0;
  if (from == 0) return sites;
  PeakSite rest{.name = std::string(kOtherSites)};
  std::erase_if(sites, [&](const PeakSite& site) {
    if (site.bytes >= from && site.name != kOtherSites) return false;
    rest.bytes += site.bytes;
    rest.count += site.count;
    return true;
  });
  if (rest.count > 0) sites.push_back(std::move(rest));
  return sites;
}

// Whether a site without counterpart may be one of those that the other side sums up.
bool may_be_unlisted(const PeakSite& site, const std::optional<SideDevice>& other) {
  const uint64_t from = other ? other->peak.listed_from_bytes : 0;
  return site.name != kOtherSites && site.bytes / kCertainlyGrown < from;
}

void add_to(std::optional<PeakSite>& sum, const PeakSite& site) {
  if (!sum) sum = PeakSite{.name = std::string(kOtherSites)};
  sum->bytes += site.bytes;
  sum->count += site.count;
}

// Sums up what would be called new or gone only because the other side does not list it.
void fold_unlisted(DeviceChange& change) {
  SiteChange rest;
  std::erase_if(change.sites, [&](const SiteChange& site) {
    const bool is_rest = site.latest().name == kOtherSites;
    const bool is_new = !site.a && may_be_unlisted(*site.b, change.a);
    const bool is_gone = !site.b && may_be_unlisted(*site.a, change.b);
    if (!is_rest && !is_new && !is_gone) return false;
    if (site.a) add_to(rest.a, *site.a);
    if (site.b) add_to(rest.b, *site.b);
    return true;
  });
  if (rest.a || rest.b) change.sites.push_back(std::move(rest));
}

void find_sites(DeviceChange& change) {
  change.basis = change.a && change.b ? common_basis(change.a->peak, change.b->peak)
                                      : own_basis(change.latest());
  if (!change.basis) return;
  const std::vector<PeakSite> a = listed(change.a, *change.basis, change.b);
  const std::vector<PeakSite> b = listed(change.b, *change.basis, change.a);
  for (const SitePair& pair : match_sites(a, b, *change.basis)) {
    SiteChange& site = change.sites.emplace_back();
    if (pair.a) site.a = a[*pair.a];
    if (pair.b) site.b = b[*pair.b];
  }
  fold_unlisted(change);
  std::ranges::stable_sort(change.sites, [](const SiteChange& left, const SiteChange& right) {
    const auto rank = [](const SiteChange& site) {
      return std::pair(magnitude(site), std::max(site.a_bytes(), site.b_bytes()));
    };
    if (rank(left) != rank(right)) return rank(left) > rank(right);
    return left.latest().name < right.latest().name;
  });
}

uint64_t limit_for(const DeviceChange& change, const Limit& limit) {
  double bytes = static_cast<double>(limit.bytes.value_or(0));
  if (limit.share) bytes = std::max(bytes, *limit.share * static_cast<double>(change.a_bytes()));
  const uint64_t mad =
      std::max(change.a ? change.a->mad_bytes : 0, change.b ? change.b->mad_bytes : 0);
  bytes = std::max(bytes, kSigmas * kSigmaPerMad * static_cast<double>(mad));
  constexpr double kMaxLimitBytes = 1e18;
  return static_cast<uint64_t>(std::min(bytes, kMaxLimitBytes));
}

// Of Fisher's exact test, one-sided: the probability that so many of the runs that ran out of
// memory are B's, if both sides do so equally often.
double oom_probability(const SideDevice& a, const SideDevice& b) {
  const auto log_choose = [](uint64_t n, uint64_t k) {
    const auto log_factorial = [](uint64_t i) { return std::lgamma(static_cast<double>(i) + 1); };
    return log_factorial(n) - log_factorial(k) - log_factorial(n - k);
  };
  const uint64_t ooms = a.runs_with_oom + b.runs_with_oom;
  double sum = 0;
  for (uint64_t k = b.runs_with_oom; k <= std::min(ooms, b.runs); ++k) {
    if (ooms - k > a.runs) continue;
    sum += std::exp(log_choose(b.runs, k) + log_choose(a.runs, ooms - k) -
                    log_choose(a.runs + b.runs, ooms));
  }
  return sum;
}

// That A never did is enough, however few its runs.
bool fails_more(const DeviceChange& change) {
  if (!change.b || change.b->runs_with_oom == 0) return false;
  if (!change.a || change.a->runs_with_oom == 0) return true;
  return oom_probability(*change.a, *change.b) <= kMaxOomProbability;
}

void judge(DeviceChange& change, const Limit& limit) {
  change.limit_bytes = limit_for(change, limit);
  const uint64_t a = change.a_bytes();
  const uint64_t b = change.b_bytes();
  if (b > a && b - a > *change.limit_bytes) change.regression = Regression::kPeak;
  if (fails_more(change)) change.regression = Regression::kOom;
}

using Key = std::pair<std::optional<uint64_t>, bool>;
using Devices = std::map<Key, std::vector<const SideDevice*>>;

bool has_one_rank(const Side& side) {
  return std::ranges::all_of(side.devices, [&](const SideDevice& device) {
    return device.peak.rank == side.devices.front().peak.rank;
  });
}

// The device of `others` that is the same as this one.
const SideDevice* counterpart(const SideDevice& device, const std::vector<const SideDevice*>& own,
                              const std::vector<const SideDevice*>& others) {
  if (own.size() == 1 && others.size() == 1) return others.front();
  const auto found = std::ranges::find_if(
      others, [&](const SideDevice* other) { return other->peak.ordinal == device.peak.ordinal; });
  return found == others.end() ? nullptr : *found;
}

std::vector<DeviceChange> pair_devices(const Side& a, const Side& b) {
  // Someone who compares one process with one means these two, whatever their ranks.
  const bool compares_ranks = !has_one_rank(a) || !has_one_rank(b);
  const auto key_of = [&](const SideDevice& device) {
    return Key(compares_ranks ? device.peak.rank : std::nullopt, device.peak.is_host);
  };
  Devices in_a;
  Devices in_b;
  for (const SideDevice& device : a.devices) in_a[key_of(device)].push_back(&device);
  for (const SideDevice& device : b.devices) in_b[key_of(device)].push_back(&device);
  std::vector<DeviceChange> pairs;
  for (const SideDevice& device : a.devices) {
    const Key key = key_of(device);
    DeviceChange& pair = pairs.emplace_back();
    pair.a = device;
    if (const SideDevice* other = counterpart(device, in_a[key], in_b[key])) pair.b = *other;
  }
  for (const SideDevice& device : b.devices) {
    const Key key = key_of(device);
    if (counterpart(device, in_b[key], in_a[key]) == nullptr) pairs.emplace_back().b = device;
  }
  return pairs;
}

Result<double> parse_share(std::string_view digits, std::string_view text) {
  double percent = 0;
  const char* const end = digits.data() + digits.size();
  const auto read = std::from_chars(digits.data(), end, percent);
  constexpr double kMaxPercent = 1e6;
  const bool is_number = read.ec == std::errc() && read.ptr == end && percent >= 0;
  if (is_number && percent <= kMaxPercent) return percent / 100;
  return fail(Code::kBadInput,
              "expected a share such as 2% (0% to {:.0f}%) or a size such as 64MiB, found '{}'",
              kMaxPercent, text);
}

Result<> parse_part(std::string_view part, Limit& limit) {
  if (part.ends_with('%')) {
    VRAM_TRY_ASSIGN(limit.share, parse_share(part.substr(0, part.size() - 1), part));
    return {};
  }
  const auto bytes = parse_bytes(part);
  const bool has_unit = part.find_first_not_of("0123456789. ") != std::string_view::npos;
  if (!bytes || (!has_unit && *bytes != 0)) {
    return fail(Code::kBadInput,
                "expected a share such as 2% or a size with its unit such as 64MiB, found '{}'",
                part);
  }
  limit.bytes = *bytes;
  return {};
}

}  // namespace

ChangeKind kind_of(const SiteChange& change) {
  if (!change.a) return ChangeKind::kNew;
  if (!change.b) return ChangeKind::kGone;
  if (change.b_bytes() == change.a_bytes()) return ChangeKind::kSame;
  return change.b_bytes() > change.a_bytes() ? ChangeKind::kGrown : ChangeKind::kShrunk;
}

Result<Limit> parse_limit(std::string_view text) {
  Limit limit;
  const size_t comma = text.find(',');
  VRAM_TRY(parse_part(text.substr(0, comma), limit));
  if (comma == std::string_view::npos) return limit;
  Limit second;
  VRAM_TRY(parse_part(text.substr(comma + 1), second));
  if (limit.share.has_value() == second.share.has_value()) {
    return fail(Code::kBadInput, "expected one share and one size, such as 2%,64MiB, found '{}'",
                text);
  }
  if (second.share) limit.share = second.share;
  if (second.bytes) limit.bytes = second.bytes;
  return limit;
}

bool Diff::has_regression() const {
  return std::ranges::any_of(devices, &DeviceChange::is_regression);
}

bool Diff::is_unjudged(const DeviceChange& change) const {
  return limit && !accepts_missing && !change.b;
}

Diff compare(const Side& a, const Side& b, const std::optional<Limit>& limit) {
  Diff diff{.a_name = a.name, .b_name = b.name, .devices = pair_devices(a, b), .limit = limit};
  for (DeviceChange& change : diff.devices) {
    find_sites(change);
    if (limit) judge(change, *limit);
  }
  std::ranges::stable_sort(diff.devices, std::ranges::greater(), [](const DeviceChange& change) {
    return std::pair(change.is_regression(), growth(change.a_bytes(), change.b_bytes()));
  });
  return diff;
}

std::string device_text(const DevicePeak& device) {
  const std::string own =
      device.is_host ? tr("pinned host memory") : fmt::format("GPU {}", device.ordinal);
  return device.rank ? fmt::format("rank {} {}", *device.rank, own) : own;
}

std::vector<std::string> unjudged_devices(const Diff& diff) {
  std::vector<std::string> missing;
  for (const DeviceChange& change : diff.devices)
    if (diff.is_unjudged(change)) missing.push_back(device_text(change.a->peak));
  return missing;
}

}  // namespace vram::explain
