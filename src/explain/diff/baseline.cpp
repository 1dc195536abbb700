#include "explain/diff/baseline.hpp"

#include "base/bytes.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "base/toml.hpp"
#include "explain/diff/diff.hpp"
#include "explain/site/site.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

namespace vram::explain {
namespace {

constexpr int kVersion = 1;
constexpr size_t kMaxSitesBytes = size_t{96} << 10;  // of all devices
constexpr size_t kMinSitesBytes = size_t{1} << 10;   // of each
constexpr uint64_t kListedPart = 1000;               // sites from 1/1000 of the peak on
constexpr uint64_t kMaxRuns = 1'000'000;             // their probabilities take as many steps

// A checkout is in another folder on each machine.
std::string_view without_folders(std::string_view path) {
  if (!path.starts_with('/') && path.find('\\') == std::string_view::npos) return path;
  const size_t slash = path.find_last_of("/\\");
  if (slash == 0 || slash == std::string_view::npos) return path.substr(slash + 1);
  const size_t before = path.find_last_of("/\\", slash - 1);
  return path.substr(before == std::string_view::npos ? 0 : before + 1);
}

std::string site_text(const PeakSite& site) {
  std::string text = fmt::format("  {{ bytes = {}, count = {}, ", site.bytes, site.count);
  if (site.calls.empty()) return text + "name = " + toml_string(valid_utf8(site.name)) + " },\n";
  text += "calls = [";
  for (size_t i = 0; i < site.calls.size(); ++i) {
    const Frame& call = site.calls[i];
    const std::string place =
        fmt::format("{}:{} {}", without_folders(call.file), call.line, call.function);
    text += (i == 0 ? "" : ", ") + toml_string(valid_utf8(place));
  }
  return text + "] },\n";
}

// Sites of fewer bytes are not listed. 0: all are.
uint64_t listing_from(const DevicePeak& peak, const std::vector<PeakSite>& sites, size_t room) {
  if (peak.listed_from_bytes > 0) return peak.listed_from_bytes;
  std::vector<const PeakSite*> order;
  for (const PeakSite& site : sites) order.push_back(&site);
  std::ranges::stable_sort(order, std::ranges::greater(), [](const auto* s) { return s->bytes; });
  const uint64_t least = std::max<uint64_t>(peak.requested_bytes / kListedPart, 1);
  size_t used = 0;
  for (const PeakSite* site : order) {
    if (site->bytes < least) return least;
    used += site_text(*site).size();
    if (used > room) return site->bytes + 1;
  }
  return 0;
}

std::string device_rows(const SideDevice& device, size_t room) {
  const DevicePeak& peak = device.peak;
  std::string text = "\n[[device]]\n";
  const auto add = [&](std::string_view key, uint64_t value) {
    text += fmt::format("{} = {}\n", key, value);
  };
  if (peak.rank) add("rank", *peak.rank);
  text += fmt::format("kind = \"{}\"\n", peak.is_host ? "host" : "gpu");
  add("ordinal", peak.ordinal);
  text += fmt::format("peak_requested_bytes = {}  # {}\n", peak.requested_bytes,
                      format_bytes(peak.requested_bytes));
  add("peak_mad_bytes", device.mad_bytes);
  add("peak_reserved_bytes", peak.reserved_bytes);
  add("runs", device.runs);
  add("runs_with_oom", device.runs_with_oom);
  add("steps", peak.steps);
  const auto basis = std::ranges::find_if(peak.sites, [](const auto& s) { return !s.empty(); });
  if (basis == peak.sites.end()) return text;
  text += fmt::format("basis = \"{}\"\n",
                      kSiteBasisNames[static_cast<size_t>(basis - peak.sites.begin())]);
  const uint64_t from = listing_from(peak, *basis, room);
  if (from > 0) text += fmt::format("listed_from_bytes = {}\n", from);
  text += "sites = [\n";
  for (const PeakSite& site : *basis)
    if (site.bytes >= from && site.name != kOtherSites) text += site_text(site);
  return text + "]\n";
}

class Reader {
 public:
  explicit Reader(const std::string& name) : name_(name) {}

  Result<Side> side(const TomlValue& document) {
    VRAM_TRY(check_keys(document, {"version", "device"}));
    VRAM_TRY_ASSIGN(const uint64_t version, whole(document, "version"));
    if (version != kVersion) {
      return fail(Code::kUnsupported,
                  "{}: expected version = {}, found {}; write it again: vram diff RECORDING "
                  "--save-baseline {}",
                  name_, kVersion, version, name_);
    }
    VRAM_TRY_ASSIGN(const TomlValue* devices, find(document, "device"));
    if (!devices->list) return wrong(*devices, tr("[[device]] tables"));
    Side side{.name = name_, .devices = {}};
    std::set<std::tuple<std::optional<uint64_t>, bool, uint32_t>> known;
    for (const TomlValue& table : *devices->list) {
      if (!table.table) return wrong(table, tr("a [[device]] table"));
      VRAM_TRY_ASSIGN(auto found, device(table));
      const DevicePeak& peak = found.peak;
      if (!known.insert({peak.rank, peak.is_host, peak.ordinal}).second)
        return toml_error(name_, table.place, trf("{} is in the file twice", device_text(peak)));
      side.devices.push_back(std::move(found));
    }
    if (side.devices.empty()) return wrong(*devices, tr("at least one [[device]]"));
    return side;
  }

 private:
  Result<SideDevice> device(const TomlValue& table) {
    VRAM_TRY(check_keys(table, {"rank", "kind", "ordinal", "peak_requested_bytes", "peak_mad_bytes",
                                "peak_reserved_bytes", "runs", "runs_with_oom", "steps", "basis",
                                "listed_from_bytes", "sites"}));
    SideDevice device;
    DevicePeak& peak = device.peak;
    if (has(table, "rank")) {
      VRAM_TRY_ASSIGN(peak.rank, whole(table, "rank"));
    }
    VRAM_TRY_ASSIGN(const size_t kind,
                    word(table, "kind", std::array<std::string_view, 2>{"gpu", "host"}));
    peak.is_host = kind == 1;
    VRAM_TRY_ASSIGN(const uint64_t ordinal, whole(table, "ordinal"));
    constexpr uint64_t kMaxOrdinal = std::numeric_limits<uint32_t>::max();
    if (ordinal > kMaxOrdinal) {
      return toml_error(name_, table.place,
                        trf("expected ordinal to be at most {}, found {}", kMaxOrdinal, ordinal));
    }
    peak.ordinal = static_cast<uint32_t>(ordinal);
    VRAM_TRY_ASSIGN(peak.requested_bytes, whole(table, "peak_requested_bytes"));
    VRAM_TRY_ASSIGN(device.mad_bytes, whole(table, "peak_mad_bytes"));
    VRAM_TRY_ASSIGN(peak.reserved_bytes, whole(table, "peak_reserved_bytes"));
    VRAM_TRY_ASSIGN(device.runs, whole(table, "runs"));
    VRAM_TRY_ASSIGN(device.runs_with_oom, whole(table, "runs_with_oom"));
    VRAM_TRY(check_runs(table, device));
    VRAM_TRY_ASSIGN(peak.steps, whole(table, "steps"));
    if (has(table, "basis")) VRAM_TRY(read_sites(table, peak));
    return device;
  }

  Result<> check_runs(const TomlValue& table, const SideDevice& device) {
    if (device.runs == 0 || device.runs > kMaxRuns) {
      return toml_error(
          name_, table.place,
          fmt::format("expected runs to be 1 to {}, found {}", kMaxRuns, device.runs));
    }
    if (device.runs_with_oom > device.runs) {
      return toml_error(name_, table.place,
                        fmt::format("runs_with_oom = {} is more than runs = {}",
                                    device.runs_with_oom, device.runs));
    }
    if (device.runs == 1 && device.mad_bytes > 0) {
      return toml_error(name_, table.place,
                        fmt::format("peak_mad_bytes = {}, but one run has no deviation; to allow a "
                                    "higher peak, raise peak_requested_bytes",
                                    device.mad_bytes));
    }
    return {};
  }

  Result<> read_sites(const TomlValue& table, DevicePeak& peak) {
    VRAM_TRY_ASSIGN(const size_t basis, word(table, "basis", kSiteBasisNames));
    if (has(table, "listed_from_bytes")) {
      VRAM_TRY_ASSIGN(peak.listed_from_bytes, whole(table, "listed_from_bytes"));
    }
    VRAM_TRY_ASSIGN(const TomlValue* rows, find(table, "sites"));
    if (!rows->list) return wrong(*rows, tr("a list of sites"));
    std::vector<PeakSite>& sites = peak.sites[basis];
    constexpr uint64_t kMaxSum = uint64_t{1}
                                 << 60;  // above any peak; a sum cannot overflow to less
    uint64_t bytes = 0;
    for (const TomlValue& row : *rows->list) {
      VRAM_TRY_ASSIGN(auto found, site(row));
      bytes = std::min(bytes + found.bytes, kMaxSum);
      sites.push_back(std::move(found));
    }
    if (bytes > peak.requested_bytes) {
      return toml_error(name_, rows->place,
                        trf("the sites hold {} bytes, more than the device's "
                            "peak_requested_bytes = {}; to allow a higher peak, raise that",
                            bytes, peak.requested_bytes));
    }
    if (bytes < peak.requested_bytes) {
      sites.push_back({.name = std::string(kOtherSites),
                       .calls = {},
                       .bytes = peak.requested_bytes - bytes,
                       .count = 1});
    }
    return {};
  }

  Result<PeakSite> site(const TomlValue& row) {
    if (!row.table)
      return wrong(row, tr("a site such as { bytes = 512, count = 1, name = \"…\" }"));
    VRAM_TRY(check_keys(row, {"bytes", "count", "name", "calls"}));
    PeakSite site;
    VRAM_TRY_ASSIGN(site.bytes, whole(row, "bytes"));
    VRAM_TRY_ASSIGN(site.count, whole(row, "count"));
    if (has(row, "name")) {
      VRAM_TRY_ASSIGN(const TomlValue* name, find(row, "name"));
      if (!name->text) return wrong(*name, tr("a text"));
      site.name = *name->text;
      return site;
    }
    VRAM_TRY_ASSIGN(const TomlValue* calls, find(row, "calls"));
    if (!calls->list || calls->list->empty()) return wrong(*calls, tr("a list of calls"));
    for (const TomlValue& call : *calls->list) {
      VRAM_TRY_ASSIGN(auto frame, frame_of(call));
      site.calls.push_back(std::move(frame));
    }
    site.name = frame_name(site.calls.front());
    return site;
  }

  // "FILE:42 forward"
  Result<Frame> frame_of(const TomlValue& call) {
    constexpr std::string_view kExpected = tr_later("a call such as \"src/model.py:42 forward\"");
    if (!call.text) return wrong(call, tr(kExpected));
    const std::string_view text = *call.text;
    for (size_t at = text.find(':'); at != std::string_view::npos; at = text.find(':', at + 1)) {
      const std::string_view rest = text.substr(at + 1);
      Frame frame{.function = {}, .file = std::string(text.substr(0, at)), .line = 0};
      const auto read = std::from_chars(rest.data(), rest.data() + rest.size(), frame.line);
      const auto used = static_cast<size_t>(read.ptr - rest.data());
      if (read.ec != std::errc() || (used < rest.size() && rest[used] != ' ')) continue;
      frame.function = rest.substr(std::min(used + 1, rest.size()));
      return frame;
    }
    return wrong(call, tr(kExpected));
  }

  static const TomlValue* member(const TomlValue& table, std::string_view key) {
    const auto found = std::ranges::find(*table.table, key, &TomlValue::key);
    return found == table.table->end() ? nullptr : &*found;
  }
  static bool has(const TomlValue& table, std::string_view key) {
    return member(table, key) != nullptr;
  }

  Result<const TomlValue*> find(const TomlValue& table, std::string_view key) {
    if (const TomlValue* found = member(table, key)) return found;
    return toml_error(name_, table.place, trf("'{}' is missing here", key));
  }

  Result<uint64_t> whole(const TomlValue& table, std::string_view key) {
    constexpr double kMaxWhole = 0x1p53;  // above, the number was rounded when it was read
    VRAM_TRY_ASSIGN(const TomlValue* found, find(table, key));
    const double number = found->number.value_or(-1);
    if (number >= 0 && number <= kMaxWhole && std::floor(number) == number)
      return static_cast<uint64_t>(number);
    return wrong(*found, tr("a whole number from 0 to 2^53"));
  }

  template <size_t kSize>
  Result<size_t> word(const TomlValue& table, std::string_view key,
                      const std::array<std::string_view, kSize>& words) {
    VRAM_TRY_ASSIGN(const TomlValue* found, find(table, key));
    const auto at = std::ranges::find(words, found->text.value_or(""));
    if (at != words.end()) return static_cast<size_t>(at - words.begin());
    return wrong(*found, fmt::format("\"{}\"", fmt::join(words, tr("\" or \""))));
  }

  Result<> check_keys(const TomlValue& table, const std::vector<std::string>& known) {
    for (const TomlValue& value : *table.table) {
      if (std::ranges::find(known, value.key) != known.end()) continue;
      return toml_error(
          name_, value.key_place,
          trf("unknown key '{}'{}", printable(value.key), did_you_mean(value.key, known)));
    }
    return {};
  }

  tl::unexpected<Error> wrong(const TomlValue& value, std::string_view expected) {
    return toml_error(name_, value.place,
                      value.key.empty() ? trf("expected {}, found {}", expected, value.found)
                                        : trf("expected {} to be {}, found {}", value.key, expected,
                                              value.found));
  }

  const std::string& name_;
};

}  // namespace

std::string write_baseline(const Side& side) {
  const size_t count = std::max<size_t>(side.devices.size(), 1);
  const size_t room = std::max(kMaxSitesBytes / count, kMinSitesBytes);
  std::string text = fmt::format(
      "{}{}\n"
      "# Peaks of GPU memory, and what held it, for vram diff. To accept a new peak, write the "
      "file "
      "again:\n"
      "#   vram diff RECORDING --save-baseline FILE\n"
      "version = {}\n",
      kBaselineStart, kVersion, kVersion);
  for (const SideDevice& device : side.devices) text += device_rows(device, room);
  return text;
}

Result<Side> read_baseline(std::string_view text, const std::string& name) {
  VRAM_TRY_ASSIGN(const TomlValue document, read_toml(text, name));
  return Reader(name).side(document);
}

}  // namespace vram::explain
