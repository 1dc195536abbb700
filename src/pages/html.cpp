#include "pages/html.hpp"

#include "base/base64.hpp"

#include <fmt/format.h>

#include <string>

namespace vram::pages {
namespace {

// A script element that is data. Names are the program's own; base64 has no character of HTML.
Result<> write_block(const Block& block, const Write& write) {
  VRAM_TRY(write(fmt::format(R"(<script type="application/vnd.vram.block" id="{}">)", block.name)));
  VRAM_TRY(write(base64(deflated(block.bytes))));
  return write("</script>\n");
}

}  // namespace

std::string served_shell() {
  std::string shell(page_shell());
  const size_t first = shell.find(kFirstMark);
  VRAM_CHECK(first != std::string::npos);
  return shell.replace(first, kFirstMark.size(), R"(<meta name="vram-blocks" content="blocks/">)");
}

Result<> write_html(const Page& page, const Write& write) {
  const std::string_view shell = page_shell();
  const size_t first = shell.find(kFirstMark);
  const size_t rest = shell.find(kRestMark);
  VRAM_CHECK(first < rest && rest != std::string_view::npos);
  VRAM_TRY(write(shell.substr(0, first)));
  VRAM_TRY(write_block(json_block("head", page.head), write));
  for (const Block& block : page.first) VRAM_TRY(write_block(block, write));
  const size_t after_first = first + kFirstMark.size();
  VRAM_TRY(write(shell.substr(after_first, rest - after_first)));
  for (const Block& block : page.rest) VRAM_TRY(write_block(block, write));
  return write(shell.substr(rest + kRestMark.size()));
}

}  // namespace vram::pages
