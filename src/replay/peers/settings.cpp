#include "replay/peers/settings.hpp"

#include "base/bytes.hpp"

#include <charconv>

namespace vram::replay {
namespace {

template <typename T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return {};
  return value;
}

}  // namespace

std::optional<uint64_t> read_whole_number(std::string_view text) { return number<uint64_t>(text); }

std::optional<double> read_share(std::string_view text) {
  const auto value = number<double>(text);
  if (!value || !(*value >= 0 && *value <= 1)) return {};
  return value;
}

std::optional<bool> read_truth(std::string_view text) {
  if (text == "True" || text == "true" || text == "1") return true;
  if (text == "False" || text == "false" || text == "0") return false;
  return {};
}

std::optional<uint64_t> read_size(std::string_view text) {
  const Result<uint64_t> bytes = parse_bytes(text);
  if (!bytes) return {};
  return *bytes;
}

Result<const PeerKey*> find_key(std::string_view peer, std::span<const PeerKey> keys,
                                std::string_view name) {
  for (const PeerKey& key : keys) {
    if (key.name == name) return &key;
  }
  return fail(Code::kBadInput, "{} has no setting \"{}\"; {}", peer, name, list_keys(peer, keys));
}

tl::unexpected<Error> bad_value(std::string_view peer, std::span<const PeerKey> keys,
                                const PeerKey& key, std::string_view value) {
  return fail(Code::kBadInput, "{}: {} wants {}, not \"{}\"; {}", peer, key.name, key.form, value,
              list_keys(peer, keys));
}

}  // namespace vram::replay
