// Who is let in, before anybody looks at what is asked for. A page in a browser can be made to ask
// localhost by a name of its own (DNS rebinding), so local requests must name this machine; and
// where a token is wanted, it is wanted for everything but the probes.
//
//     Request ─▶ Guard ─▶ router        421, 401
//
// Any thread.
#pragma once

#include "serve/http.hpp"
#include "serve/token.hpp"

#include <functional>
#include <memory>
#include <string_view>

namespace vram::serve {

struct Guard {
  Handler inner;
  std::shared_ptr<const Token> token;
  // Told of each refusal; the text holds nothing of the token.
  std::function<void(const Request&, std::string_view why)> refused;

  [[nodiscard]] Response operator()(const Request& request) const;
};

}  // namespace vram::serve
