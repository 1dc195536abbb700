// JSON documents, and how values that may be absent and texts of any origin get into them.
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

namespace vram {

// Objects keep the order in which their members were added.
using Json = nlohmann::ordered_json;

template <typename T>
[[nodiscard]] Json json_or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

// Text from a recording or another process: valid in JSON, whatever its bytes.
[[nodiscard]] Json json_text(const std::string& text);
[[nodiscard]] Json json_texts(const std::vector<std::string>& texts);
// null if there is no text, or if it is empty.
[[nodiscard]] Json json_text_or_null(const std::optional<std::string>& text);

}  // namespace vram
