// Access control, before a request is interpreted. A web page can make a browser send requests to
// this address under a name of its own (DNS rebinding), so requests must name this machine: if no
// token is required, and at a loopback address in any case, since a proxy there may add the token.
// If a token or a password is required, all requests but probes need one of them. Requests that
// change something (POST) are refused where neither is, and if a page of another site sent them: a
// browser would add a password that it knows.
//
//     Request ─▶ Guard ─▶ router        421, 401, 403, 415
//
// May be called from any thread.
#pragma once

#include "serve/credentials.hpp"
#include "serve/http.hpp"
#include "serve/tls.hpp"
#include "serve/web_config.hpp"

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vram::serve {

// The current state of the --web-config file: certificates, users, headers. May be used from any
// thread.
//
//     file ─▶ WebConfig ─▶ Access (immutable; a reload makes a new one) ─▶ HttpServer, Guard

class WebAccess {
 public:
  struct Access {
    std::shared_ptr<const TlsContext> tls;  // null: plain HTTP
    std::shared_ptr<Users> users;           // null: everybody
    std::vector<std::pair<std::string, std::string>> headers;
    bool has_authentication = false;
    bool wants_certificates = false;  // of clients
    std::vector<std::string> files;   // that it was made of
    size_t texts_hash = 0;            // of what they said
  };

  [[nodiscard]] static Result<std::shared_ptr<WebAccess>> open(const std::string& path);
  [[nodiscard]] std::shared_ptr<const Access> now() const;
  // Reads all files again; true: they say something else. With an error the old access stays; an
  // access that asks for less than the old one (no TLS, no users, no certificates of clients) is an
  // error: that takes a restart.
  [[nodiscard]] Result<bool> reload();

 private:
  WebAccess(std::string path, std::shared_ptr<const Access> access)
      : path_(std::move(path)), access_(std::move(access)) {}

  const std::string path_;
  std::mutex reload_mutex_;   // so that what was read last stays
  mutable std::mutex mutex_;  // guards the access
  std::shared_ptr<const Access> access_;
};

struct Guard {
  Handler inner;
  std::shared_ptr<const Token> token;
  std::shared_ptr<const WebAccess> web = nullptr;  // null: no users, no headers
  std::vector<std::string> host_names = {};  // of this machine, besides localhost and addresses
  // Pages without any figure of this machine, which ask for the token themselves: a browser cannot
  // send one when it opens a page. Where there are users, it asks for a password by itself.
  std::function<bool(const Request&)> is_public = [](const Request&) { return false; };
  // False: `inner` says that its paths answer no POST.
  bool has_changes = true;
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
  [[nodiscard]] bool has_authentication() const;
  [[nodiscard]] bool has_shown_enough(const Request& request) const;
  [[nodiscard]] std::optional<Response> refused_change(const Request& request) const;
  [[nodiscard]] Response answer(const Request& request) const;
  [[nodiscard]] std::shared_ptr<Users> users() const;
};

}  // namespace vram::serve
