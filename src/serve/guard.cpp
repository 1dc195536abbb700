#include "serve/guard.hpp"

#include "serve/errors.hpp"
#include "serve/target.hpp"

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

Response unauthorized(bool shows_one) {
  Response response = error_response(
      401, shows_one ? "the token is not the one in the server's --token-file"
                     : "a token is wanted: send 'Authorization: Bearer TOKEN' with the line of the "
                       "server's --token-file");
  response.headers.emplace_back("WWW-Authenticate", "Bearer realm=\"vram\"");
  return response;
}

}  // namespace

Response Guard::operator()(const Request& request) const {
  const bool needs_name = request.came_locally || !token->is_wanted();
  if (needs_name && !is_trusted_host(request.host, host_names)) {
    refused(request, "names another host");
    return misdirected();
  }
  if (!is_probe(request) && !token->lets_in(request.authorization)) {
    refused(request, request.authorization.empty() ? "shows no token" : "shows a wrong token");
    return unauthorized(!request.authorization.empty());
  }
  return inner(request);
}

}  // namespace vram::serve
