// The current state of the --web-config file: certificates, users, headers. May be used from any
// thread.
//
//     file ─▶ WebConfig ─▶ Access (immutable; a reload makes a new one) ─▶ HttpServer, Guard
#pragma once

#include "serve/tls.hpp"
#include "serve/users.hpp"
#include "serve/web_config.hpp"

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace vram::serve {

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

}  // namespace vram::serve
