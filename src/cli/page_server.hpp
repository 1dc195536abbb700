// Serves a report's page to browsers of this machine until SIGTERM or Ctrl-C (--serve): the page
// without its data, and each block when the page asks for it.
#pragma once

#include "base/result.hpp"
#include "cli/console.hpp"
#include "pages/page.hpp"
#include "serve/target.hpp"

namespace vram::cli {

// Prints the page's address. kBadInput: other machines could reach `address`, and there is no
// token. kIo: the address is in use.
[[nodiscard]] Result<> serve_page(pages::Page page, const serve::Address& address,
                                  Console& console);

}  // namespace vram::cli
