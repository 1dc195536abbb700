#include "base/language.hpp"

#include "base/catalogue.hpp"
#include "base/environment.hpp"

#include <algorithm>

namespace vram {
namespace {

const Catalogue* current = nullptr;

const char* find_text(std::string_view context, std::string_view text) {
  return current->find(context, text);
}

// "zh_CN.UTF-8@pinyin" -> "zh_CN"
std::string_view without_codeset(std::string_view locale) {
  return locale.substr(0, locale.find_first_of(".@"));
}

bool is_english(std::string_view language) {
  return language.empty() || language == "C" || language == "POSIX" ||
         language.substr(0, language.find('_')) == "en";
}

// The catalogue of a language: of its country, or else of another one.
const CatalogueFile* find_file(std::string_view language) {
  const auto base = [](std::string_view name) { return name.substr(0, name.find('_')); };
  const CatalogueFile* found = nullptr;
  for (const CatalogueFile& file : catalogue_files()) {
    if (file.language == language) return &file;
    if (found == nullptr && base(file.language) == base(language)) found = &file;
  }
  return found;
}

std::string_view language_in(std::string_view list) {
  while (!list.empty()) {
    const std::string_view language = without_codeset(list.substr(0, list.find(':')));
    if (const CatalogueFile* file = find_file(language)) return file->language;
    if (is_english(language)) return "";
    list.remove_prefix(std::min(list.find(':'), list.size() - 1) + 1);
  }
  return "";
}

}  // namespace

std::string language_of_environment() {
  std::string locale;
  for (const char* name : {"LC_ALL", "LC_MESSAGES", "LANG"})
    if (locale.empty()) locale = environment(name);
  const std::string_view language = without_codeset(locale);
  // As for gettext, LANGUAGE has no effect in the C locale.
  if (language.empty() || language == "C" || language == "POSIX") return "";
  const std::string list = environment("LANGUAGE");
  return std::string(language_in(list.empty() ? language : list));
}

bool use_language(std::string_view language) {
  current_translate.store(nullptr, std::memory_order_release);
  if (is_english(language)) return true;
  const CatalogueFile* const file = find_file(language);
  if (file == nullptr) return false;
  // One is enough for a process; texts of an earlier one stay valid.
  static std::unordered_map<std::string_view, Catalogue> catalogues;
  auto [catalogue, is_new] = catalogues.try_emplace(file->language);
  if (is_new) catalogue->second = Catalogue::read(file->po);
  current = &catalogue->second;
  current_translate.store(find_text, std::memory_order_release);
  return true;
}

}  // namespace vram
