#include "replay/peers/gmlake_options.hpp"

#include "replay/peers/settings.hpp"

#include <array>
#include <charconv>

namespace vram::replay {
namespace {

constexpr std::array<PeerKey, 4> kGmLakeKeys{{
    {"fragLimit", "SIZE"},
    {"reuseLimit", "NUMBER above 0"},
    {"defragLevel", "0, 1 or 2"},
    {"autoGC", "GIBIBYTES, or SIZE with a unit"},
}};

constexpr uint64_t kMaxGibibytes = uint64_t{1} << 30;

std::optional<double> read_reuse_limit(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !(value > 0)) return {};
  return value;
}

std::optional<uint64_t> read_level(std::string_view text) {
  const std::optional<uint64_t> level = read_whole_number(text);
  return level && *level <= 2 ? level : std::nullopt;
}

// In the environment it is a bare number of GiB.
std::optional<uint64_t> read_auto_gc(std::string_view text) {
  const std::optional<uint64_t> gibibytes = read_whole_number(text);
  if (!gibibytes) return read_size(text);
  return *gibibytes <= kMaxGibibytes ? std::optional(*gibibytes * kGiB) : std::nullopt;
}

bool read(std::string_view key, std::string_view value, GmLakeSettings& to) {
  if (key == "fragLimit") return keep(read_size(value), to.frag_limit_bytes);
  if (key == "reuseLimit") return keep(read_reuse_limit(value), to.reuse_limit);
  if (key == "defragLevel") return keep(read_level(value), to.defrag_level);
  return keep(read_auto_gc(value), to.auto_gc_bytes);
}

}  // namespace

std::span<const PeerKey> gmlake_keys() { return kGmLakeKeys; }

Result<GmLakeSettings> parse_gmlake_settings(Settings settings) {
  return parse_settings<GmLakeSettings>("gmlake", kGmLakeKeys, settings, read);
}

}  // namespace vram::replay
