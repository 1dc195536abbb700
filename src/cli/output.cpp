#include "cli/output.hpp"

#include "base/file.hpp"
#include "base/own_formats.hpp"

#include <utility>

namespace vram::cli {

Option output_option(Output& target) {
  return {"-o,--output", "FILE",
          "write to this file instead of standard output; it appears when it is complete, and "
          "replaces only files that vram wrote",
          &target.path};
}

Option force_option(Output& target) {
  target.can_be_forced = true;
  return {"--force", "", "replace an existing file even if vram did not write it",
          &target.is_forced};
}

show::TextOptions text_options(const Output& output, const Console& console) {
  const bool to_file = !output.path.empty();
  show::TextOptions options;
  options.columns = console.columns();
  options.colour = console.colour() && !to_file;
  options.unicode = console.unicode() || to_file;
  options.bars = console.bars() || to_file;
  return options;
}

Error with_force(Error error) {
  if (error.code == Code::kBadInput) error.message += ", or add --force";
  return error;
}

Result<> check_output(const Output& output) {
  if (output.path.empty()) return {};
  auto target = find_output_target(output.path, replace_for(output.is_forced));
  if (target) return {};
  const bool can_help = output.can_be_forced && !output.is_forced;
  return tl::unexpected(can_help ? with_force(target.error()) : target.error());
}

Result<> deliver(const std::string& text, const Output& output, Console& console) {
  if (output.path.empty()) return console.print(text);
  if (auto checked = check_output(output); !checked) return checked;
  auto file = AtomicFile::create(output.path, replace_for(output.is_forced));
  if (!file) return tl::unexpected(file.error());
  if (auto written = file->write(text); !written) return written;
  if (!file->is_in_place() && !is_own_format(text, "")) {
    const std::string_view gap = text.ends_with('\n') ? "\n" : "\n\n";
    const std::string end = fmt::format("{}{}{}\n", gap, kTextEnd, VRAM_VERSION);
    if (auto written = file->write(end); !written) return written;
  }
  return file->commit();
}

}  // namespace vram::cli
