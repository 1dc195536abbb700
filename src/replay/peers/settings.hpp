// Settings of allocators as text: their values' formats, and errors that list the valid ones. Used
// by replay.cpp, which parses a spec, and by the peers' own settings. Pure.
#pragma once

#include "base/result.hpp"
#include "replay/registry.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace vram::replay {

// None if the text has another format.
[[nodiscard]] std::optional<uint64_t> read_whole_number(std::string_view text);
[[nodiscard]] std::optional<double> read_share(std::string_view text);  // 0 to 1
[[nodiscard]] std::optional<bool> read_truth(std::string_view text);    // True, true, 1; False, ...
[[nodiscard]] std::optional<uint64_t> read_size(std::string_view text);  // as parse_bytes

// False, and nothing stored, without a value.
template <typename T, typename U>
bool keep(const std::optional<T>& value, U& into) {
  if (value) into = *value;
  return value.has_value();
}

// The key with that name. Errors: kBadInput that lists the valid ones.
[[nodiscard]] Result<const PeerKey*> find_key(std::string_view peer, std::span<const PeerKey> keys,
                                              std::string_view name);
// kBadInput with the value, the accepted values, and all valid keys.
[[nodiscard]] tl::unexpected<Error> bad_value(std::string_view peer, std::span<const PeerKey> keys,
                                              const PeerKey& key, std::string_view value);

// Reads all settings in order; `read` returns whether the value is valid.
template <typename T>
[[nodiscard]] Result<T> parse_settings(std::string_view peer, std::span<const PeerKey> keys,
                                       Settings settings,
                                       bool (*read)(std::string_view key, std::string_view value,
                                                    T& into)) {
  T parsed;
  for (const auto& [name, value] : settings) {
    const Result<const PeerKey*> key = find_key(peer, keys, name);
    if (!key) return tl::unexpected(key.error());
    if (!read(name, value, parsed)) return bad_value(peer, keys, **key, value);
  }
  return parsed;
}

}  // namespace vram::replay
