// The HTML report as one file that opens from disk and loads nothing else: the page with its script
// and style (web/dist, whose Content-Security-Policy admits exactly these), and the blocks as
// base64 in script elements of a type that browsers do not run.
#pragma once

#include "base/result.hpp"
#include "pages/page.hpp"

#include <functional>
#include <string>
#include <string_view>

namespace vram::pages {

using Write = std::function<Result<>(std::string_view)>;

// Calls `write` with the parts of the file, in order. Errors: those of `write`.
[[nodiscard]] Result<> write_html(const Page& page, const Write& write);

// The page without data, as the bundler wrote it, with marks where the blocks belong: the script is
// between them, so that a browser draws the first picture before it has read the rest.
[[nodiscard]] std::string_view page_shell();
// The same for a server: it reads each block from blocks/NAME, as zlib's format.
[[nodiscard]] std::string served_shell();
// The dashboard of vram serve: it reads the server's API, by addresses relative to its own.
[[nodiscard]] std::string_view dashboard_page();
inline constexpr std::string_view kFirstMark = "<!--FIRST-->";
inline constexpr std::string_view kRestMark = "<!--REST-->";

}  // namespace vram::pages
