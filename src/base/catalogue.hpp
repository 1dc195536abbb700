// Catalogue: the translations of one language, read from the text of a .po file (gettext's format).
// The program contains the files of po/.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

namespace vram {

class Catalogue {
 public:
  // Reads msgctxt, msgid and msgstr; entries without a translation are left out. The files are our
  // own: a line that is none of them is skipped, and tools/catalogue.py checks the format.
  [[nodiscard]] static Catalogue read(std::string_view po);

  // Null if there is no translation. Valid as long as the catalogue.
  [[nodiscard]] const char* find(std::string_view context, std::string_view text) const;
  [[nodiscard]] size_t size() const { return texts_.size(); }

 private:
  std::unordered_map<std::string, std::string> texts_;  // by context, '\4' and text; or by text
};

struct CatalogueFile {
  std::string_view language;  // "zh_CN"
  std::string_view po;
};

// All files of po/, in a source that CMake writes.
[[nodiscard]] std::span<const CatalogueFile> catalogue_files();

}  // namespace vram
