#include "base/json.hpp"

#include "base/text.hpp"

namespace vram {

Json json_text(const std::string& text) { return valid_utf8(text); }

Json json_texts(const std::vector<std::string>& texts) {
  Json json = Json::array();
  for (const std::string& text : texts) json.push_back(json_text(text));
  return json;
}

Json json_text_or_null(const std::optional<std::string>& text) {
  return text && !text->empty() ? json_text(*text) : Json();
}

}  // namespace vram
