#include "base/catalogue.hpp"

#include <utility>

namespace vram {
namespace {

// A string of the file, without its quotes and escapes.
std::string unescaped(std::string_view quoted) {
  std::string out;
  const size_t end = quoted.rfind('"');
  for (size_t i = quoted.find('"') + 1; i < end; ++i) {
    if (quoted[i] != '\\') {
      out += quoted[i];
      continue;
    }
    const char escaped = quoted[++i];
    out += escaped == 'n' ? '\n' : escaped == 't' ? '\t' : escaped;
  }
  return out;
}

std::string key_of(std::string_view context, std::string_view text) {
  std::string key(context);
  if (!context.empty()) key += '\4';
  return key.append(text);
}

struct Entry {
  std::string context, text, translation;
};

}  // namespace

Catalogue Catalogue::read(std::string_view po) {
  Catalogue catalogue;
  Entry entry;
  std::string* part = nullptr;
  const auto keep = [&] {
    if (!entry.text.empty() && !entry.translation.empty())
      catalogue.texts_.emplace(key_of(entry.context, entry.text), std::move(entry.translation));
    entry = {};
  };
  const std::pair<std::string_view, std::string*> parts[] = {
      {"msgctxt ", &entry.context}, {"msgid ", &entry.text}, {"msgstr ", &entry.translation}};
  while (!po.empty()) {
    const std::string_view line = po.substr(0, po.find('\n'));
    po.remove_prefix(std::min(line.size() + 1, po.size()));
    if (line.empty()) keep();
    for (const auto& [keyword, target] : parts)
      if (line.starts_with(keyword)) part = target;
    const bool has_text = line.starts_with("msg") || line.starts_with('"');
    if (has_text && part != nullptr) *part += unescaped(line);
  }
  keep();
  return catalogue;
}

const char* Catalogue::find(std::string_view context, std::string_view text) const {
  const auto found = texts_.find(key_of(context, text));
  return found == texts_.end() ? nullptr : found->second.c_str();
}

}  // namespace vram
