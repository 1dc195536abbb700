// Access control, before a request is interpreted. A web page can make a browser send requests to
// this address under a name of its own (DNS rebinding), so requests must name this machine: if no
// token is required, and at a loopback address in any case, since a proxy there may add the token.
// If a token or a password is required, all requests but probes need one of them.
//
//     Request ─▶ Guard ─▶ router        421, 401
//
// May be called from any thread.
#pragma once

#include "serve/http.hpp"
#include "serve/token.hpp"
#include "serve/web_access.hpp"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace vram::serve {

struct Guard {
  Handler inner;
  std::shared_ptr<const Token> token;
  std::shared_ptr<const WebAccess> web = nullptr;  // null: no users, no headers
  std::vector<std::string> host_names = {};  // of this machine, besides localhost and addresses
  // Called for each refusal; the text never contains the token.
  std::function<void(const Request&, std::string_view why)> refused;

  [[nodiscard]] Response operator()(const Request& request) const;
  // Whether `inner` would be asked: before work that takes longer than a refusal.
  [[nodiscard]] bool accepts_authorization(const Request& request) const;
  // Whether the answer depends on a password that is not known to be right or wrong; and whether it
  // is right, which takes a part of a second.
  [[nodiscard]] bool needs_password_check(const Request& request) const;
  [[nodiscard]] bool check_password(const Request& request) const;

 private:
  [[nodiscard]] bool is_misdirected(const Request& request) const;
  [[nodiscard]] bool has_shown_enough(const Request& request) const;
  [[nodiscard]] Response answer(const Request& request) const;
  [[nodiscard]] std::shared_ptr<Users> users() const;
};

}  // namespace vram::serve
