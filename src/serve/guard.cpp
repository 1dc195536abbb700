#include "serve/guard.hpp"

#include "serve/errors.hpp"
#include "serve/target.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace vram::serve {
namespace {

bool is_probe(const Request& request) {
  return request.path == "/healthz" || request.path == "/readyz";
}

Response misdirected() {
  return error_response(
      421,
      "the request names a host that is none of this machine's known names: web pages could read "
      "it by such names (DNS rebinding). Ask for localhost or an IP address, let a proxy send "
      "'Host: localhost', or start the server with --host-name NAME");
}

Response unauthorized(bool shows_one, bool wants_token, bool wants_password) {
  const std::string_view how =
      !wants_password
          ? "send 'Authorization: Bearer TOKEN' with the line of the server's --token-file"
      : !wants_token ? "send a name and password of the server's basic_auth_users"
                     : "send 'Authorization: Bearer TOKEN', or a name and password";
  const std::string_view what = wants_token && wants_password ? "token or password"
                                : wants_token                 ? "token"
                                                              : "password";
  Response response =
      error_response(401, shows_one ? fmt::format("the {} is not one that the server knows", what)
                                    : fmt::format("a {} is wanted: {}", what, how));
  if (wants_token) response.headers.emplace_back("WWW-Authenticate", "Bearer realm=\"vram\"");
  if (wants_password)
    response.headers.emplace_back("WWW-Authenticate", "Basic realm=\"vram\", charset=\"UTF-8\"");
  return response;
}

}  // namespace

std::shared_ptr<Users> Guard::users() const { return web ? web->now()->users : nullptr; }

bool Guard::is_misdirected(const Request& request) const {
  const bool has_authentication = token->is_wanted() || (web && web->now()->has_authentication);
  return (request.is_local || !has_authentication) && !is_trusted_host(request.host, host_names);
}

bool Guard::needs_password_check(const Request& request) const {
  const auto known = users();
  if (!known || is_probe(request) || is_misdirected(request)) return false;
  const bool has_token = token->is_wanted() && token->accepts_authorization(request.authorization);
  return !has_token && !known->accepts_authorization(request.authorization);
}

bool Guard::check_password(const Request& request) const {
  const auto known = users();
  return known && known->check(request.authorization);
}

Response Guard::operator()(const Request& request) const {
  if (is_misdirected(request)) {
    refused(request, "names another host");
    return misdirected();
  }
  const auto known = users();
  if (!is_probe(request) && (token->is_wanted() || known)) {
    const bool has_token =
        token->is_wanted() && token->accepts_authorization(request.authorization);
    const bool has_password =
        known && request.password_is_right.value_or(
                     known->accepts_authorization(request.authorization).value_or(false));
    if (!has_token && !has_password) {
      const bool shows_one = !request.authorization.empty();
      refused(request,
              shows_one ? "shows a wrong token or password" : "shows no token or password");
      return unauthorized(shows_one, token->is_wanted(), known != nullptr);
    }
  }
  Response response = inner(request);
  if (web) std::ranges::copy(web->now()->headers, std::back_inserter(response.headers));
  return response;
}

}  // namespace vram::serve
