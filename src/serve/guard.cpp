#include "serve/guard.hpp"

#include "base/result.hpp"
#include "base/settings_file.hpp"
#include "base/text.hpp"
#include "serve/http.hpp"
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

bool Guard::has_authentication() const {
  return token->is_wanted() || (web && web->now()->has_authentication);
}

bool Guard::is_misdirected(const Request& request) const {
  return (request.is_local || !has_authentication()) && !is_trusted_host(request.host, host_names);
}

// Programs send neither Sec-Fetch-Site nor Origin. All current browsers send the first over https
// and to localhost, and the second with each POST.
std::optional<Response> Guard::refused_change(const Request& request) const {
  if (request.method != Method::kPost || !has_changes) return std::nullopt;
  if (!has_authentication())
    return error_response(
        403,
        "changes need a token or password, since everybody who reaches this address could request "
        "them: start the server with --token-file FILE or --web-config FILE");
  const bool is_own =
      request.fetch_site.empty()
          ? request.origin.empty() || is_own_origin(request.origin, request.host, host_names)
          : request.fetch_site == "same-origin";
  if (!is_own)
    return error_response(
        403,
        "a page of another site sent this request. Behind a proxy, start the server with "
        "--host-name NAME, the proxy's name");
  const std::string type =
      ascii_lower(request.content_type.substr(0, request.content_type.find(';')));
  if (type != "application/json")
    return error_response(415, "Content-Type: expected application/json");
  return std::nullopt;
}

bool Guard::needs_password_check(const Request& request) const {
  const auto known = users();
  const bool is_refused = is_misdirected(request) || refused_change(request).has_value();
  if (!known || is_probe(request) || is_refused) return false;
  const bool has_token = token->is_wanted() && token->accepts_authorization(request.authorization);
  return !has_token && !known->accepts_authorization(request.authorization);
}

bool Guard::check_password(const Request& request) const {
  const auto known = users();
  return known && known->check(request.authorization);
}

bool Guard::has_shown_enough(const Request& request) const {
  const auto known = users();
  if (is_probe(request) || (!token->is_wanted() && !known)) return true;
  if (!known && request.method != Method::kPost && is_public(request)) return true;
  if (token->is_wanted() && token->accepts_authorization(request.authorization)) return true;
  return known && request.password_is_right.value_or(
                      known->accepts_authorization(request.authorization).value_or(false));
}

bool Guard::accepts_authorization(const Request& request) const {
  return !is_misdirected(request) && !refused_change(request) && has_shown_enough(request);
}

Response Guard::answer(const Request& request) const {
  if (is_misdirected(request)) {
    refused(request, tr_later("names another host"));
    return misdirected();
  }
  if (auto refusal = refused_change(request)) {
    refused(request, "may not change anything");
    return *std::move(refusal);
  }
  if (has_shown_enough(request)) return inner(request);
  const bool shows_one = !request.authorization.empty();
  refused(request, shows_one ? tr_later("shows a wrong token or password")
                             : tr_later("shows no token or password"));
  return unauthorized(shows_one, token->is_wanted(), users() != nullptr);
}

Response Guard::operator()(const Request& request) const {
  Response response = answer(request);
  if (web) std::ranges::copy(web->now()->headers, std::back_inserter(response.headers));
  return response;
}

namespace {

constexpr uint64_t kMaxConfigBytes = uint64_t{256} << 10;

void hash_on(size_t& hash, const std::string& text) {
  hash = hash * 31 + std::hash<std::string>()(text);
}

Result<std::shared_ptr<const WebAccess::Access>> read_access(const std::string& path) {
  const auto file = read_settings(path, kMaxConfigBytes);
  if (!file) return fail(Code::kBadInput, "--web-config: {}", file.error().message);
  VRAM_TRY_ASSIGN(auto config, parse_web_config(file->text, path));
  auto access = std::make_shared<WebAccess::Access>();
  access->headers = std::move(config.headers);
  access->has_authentication = config.has_authentication();
  access->files = {path};
  hash_on(access->texts_hash, file->text);
  if (!config.users.empty()) {
    auto users = Users::of(config.users);
    if (!users) return fail(users.error().code, "{}: {}", path, users.error().message);
    access->users = *std::move(users);
  }
  if (config.tls) {
    const auto texts = TlsTexts::read(*config.tls);
    if (!texts) return fail(texts.error().code, "{}: {}", path, texts.error().message);
    for (const std::string* const each : {&texts->certificates, &texts->key, &texts->authorities})
      hash_on(access->texts_hash, *each);
    auto tls = TlsContext::make(*config.tls, *texts);
    if (!tls) return fail(tls.error().code, "{}: {}", path, tls.error().message);
    access->tls = *std::move(tls);
    access->wants_certificates = config.tls->client_auth == ClientAuth::kRequireAndVerify;
    for (const std::string* const each :
         {&config.tls->cert_file, &config.tls->key_file, &config.tls->client_ca_file}) {
      if (!each->empty()) access->files.push_back(*each);
    }
  }
  return access;
}

}  // namespace

Result<std::shared_ptr<WebAccess>> WebAccess::open(const std::string& path) {
  VRAM_TRY_ASSIGN(auto access, read_access(path));
  return std::shared_ptr<WebAccess>(new WebAccess(path, std::move(access)));
}

std::shared_ptr<const WebAccess::Access> WebAccess::now() const {
  const std::lock_guard guard(mutex_);
  return access_;
}

Result<bool> WebAccess::reload() {
  const std::lock_guard reloading(reload_mutex_);
  VRAM_TRY_ASSIGN(auto access, read_access(path_));
  const std::lock_guard guard(mutex_);
  if (access->texts_hash == access_->texts_hash) return false;
  const bool is_weaker = (access_->users && !access->users) ||
                         (access_->wants_certificates && !access->wants_certificates);
  if (is_weaker || (access_->tls != nullptr) != (access->tls != nullptr))
    return fail(
        Code::kBadInput,
        "{}: expected TLS as before, and users and required certificates of clients where there "
        "were some: such a change takes a restart",
        path_);
  access_ = std::move(access);
  return true;
}

}  // namespace vram::serve
