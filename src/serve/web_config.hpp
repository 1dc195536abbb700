// The file of --web-config: TLS, users and headers, in the format of Prometheus' exporter toolkit,
// so that one file serves node_exporter and vram. Keys that are not understood are refused: a
// setting that protects somewhere else must not be ignored here. A pure function of the text.
#pragma once

#include "base/result.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vram::serve {

enum class ClientAuth : uint8_t {
  kNone,
  kRequest,        // requests a certificate, accepts any or none
  kRequireAny,     // takes any
  kVerifyIfGiven,  // takes none, or one that an authority of client_ca_file has signed
  kRequireAndVerify,
};

struct TlsSettings {
  std::string cert_file;
  std::string key_file;
  ClientAuth client_auth = ClientAuth::kNone;
  std::string client_ca_file;
  int min_version = 0x0303;  // as the protocol counts: TLS 1.2
  int max_version = 0x0304;
  std::vector<std::string> cipher_suites;  // of TLS 1.2, as OpenSSL names them; empty: the usual
  std::vector<std::string> curves;         // likewise
};

struct WebConfig {
  std::optional<TlsSettings> tls;
  std::vector<std::pair<std::string, std::string>> headers;
  std::vector<std::pair<std::string, std::string>> users;  // a name and its bcrypt hash

  // Whether clients must authenticate.
  [[nodiscard]] bool has_authentication() const {
    return !users.empty() || (tls && (tls->client_auth == ClientAuth::kRequireAndVerify));
  }
};

// `path` is the file's, for errors, and for the folder that the names of other files start from.
[[nodiscard]] Result<WebConfig> parse_web_config(std::string_view text, const std::string& path);

}  // namespace vram::serve
