#include "cli/output.hpp"

#include "base/file.hpp"

namespace vram::cli {

show::TextOptions text_options(const std::string& output, const Console& console) {
  const bool to_file = !output.empty();
  show::TextOptions options;
  options.columns = console.columns();
  options.colour = console.colour() && !to_file;
  options.unicode = console.unicode() || to_file;
  options.bars = console.bars() || to_file;
  return options;
}

Result<> deliver(const std::string& text, const std::string& output, Console& console) {
  if (output.empty()) return console.print(text);
  auto file = AtomicFile::create(output);
  if (!file) return tl::unexpected(file.error());
  if (const auto written = file->write(text); !written) return written;
  return file->commit();
}

}  // namespace vram::cli
