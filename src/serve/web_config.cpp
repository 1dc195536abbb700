#include "serve/web_config.hpp"

#include "base/result.hpp"
#include "base/text.hpp"
#include "serve/yaml.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <span>

namespace vram::serve {
namespace {

using Names = std::pair<std::string_view, std::string_view>;

// Go's names, which the toolkit uses, and OpenSSL's.
constexpr std::array kCipherSuites = {
    Names{"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"},
    Names{"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"},
    Names{"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"},
    Names{"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"},
    Names{"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"},
    Names{"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"},
    Names{"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", "ECDHE-ECDSA-CHACHA20-POLY1305"},
    Names{"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "ECDHE-RSA-CHACHA20-POLY1305"},
    // TLS 1.3 has its own, which are not chosen.
    Names{"TLS_AES_128_GCM_SHA256", ""}, Names{"TLS_AES_256_GCM_SHA384", ""},
    Names{"TLS_CHACHA20_POLY1305_SHA256", ""}};
constexpr std::array kCurves = {Names{"CurveP256", "P-256"}, Names{"CurveP384", "P-384"},
                                Names{"CurveP521", "P-521"}, Names{"X25519", "X25519"}};
constexpr std::array<std::pair<std::string_view, int>, 2> kVersions = {
    {{"TLS12", 0x0303}, {"TLS13", 0x0304}}};
constexpr std::array<std::pair<std::string_view, ClientAuth>, 6> kClientAuths = {
    {{"NoClientCert", ClientAuth::kNone},
     {"RequestClientCert", ClientAuth::kRequest},
     {"RequireAnyClientCert", ClientAuth::kRequireAny},
     {"RequireClientCert", ClientAuth::kRequireAny},
     {"VerifyClientCertIfGiven", ClientAuth::kVerifyIfGiven},
     {"RequireAndVerifyClientCert", ClientAuth::kRequireAndVerify}}};
constexpr std::array<std::string_view, 5> kHeaders = {
    "Content-Security-Policy", "Strict-Transport-Security", "X-Content-Type-Options",
    "X-Frame-Options", "X-XSS-Protection"};
constexpr size_t kMaxUsers = 256;
constexpr size_t kHashBytes = 60;
constexpr int kMaxCost = 15;  // some seconds for each password

class WebConfigReader {
 public:
  explicit WebConfigReader(const std::string& path)
      : path_(path), folder_(std::filesystem::path(path).parent_path()) {}

  Result<WebConfig> read(const YamlNode& top) {
    WebConfig config;
    auto done =
        each(top, "the file",
             {{"tls_server_config", [&](const YamlNode& node) { return tls(node, config); }},
              {"http_server_config", [&](const YamlNode& node) { return http(node, config); }},
              {"basic_auth_users", [&](const YamlNode& node) { return users(node, config); }}});
    if (!done) return tl::unexpected(done.error());
    return config;
  }

 private:
  using Setting = std::pair<std::string_view, std::function<Result<>(const YamlNode&)>>;

  tl::unexpected<Error> wrong(const YamlNode& node, std::string_view expected) const {
    return fail(Code::kBadInput, "{}, line {}: {}", path_, node.line, expected);
  }

  // Calls what belongs to each key of a map.
  Result<> each(const YamlNode& map, std::string_view what, const std::vector<Setting>& settings) {
    if (map.kind == YamlNode::Kind::kNull) return {};
    if (map.kind != YamlNode::Kind::kMap)
      return wrong(map, fmt::format("{}: expected 'key: value' lines", what));
    for (const auto& [key, value] : map.entries) {
      const auto found = std::ranges::find(settings, std::string_view(key), &Setting::first);
      if (found == settings.end()) return unknown(value, what, key, settings);
      VRAM_TRY(found->second(value));
    }
    return {};
  }
  tl::unexpected<Error> unknown(const YamlNode& node, std::string_view what, std::string_view key,
                                const std::vector<Setting>& settings) const {
    std::vector<std::string_view> known;
    for (const Setting& setting : settings) known.push_back(setting.first);
    return wrong(node, fmt::format("{}: expected {}, found '{}', which is not understood here",
                                   what, fmt::join(known, ", "), shorten_end(printable(key), 60)));
  }

  Result<std::string> text(const YamlNode& node, std::string_view key) const {
    if (node.kind == YamlNode::Kind::kText) return node.text;
    return wrong(node, fmt::format("{}: expected a text", key));
  }
  template <typename Table>
  auto one_of(const YamlNode& node, std::string_view key, const Table& table) const
      -> Result<typename Table::value_type::second_type> {
    const auto found =
        std::ranges::find(table, std::string_view(node.text), &Table::value_type::first);
    if (node.kind == YamlNode::Kind::kText && found != table.end()) return found->second;
    std::vector<std::string_view> known;
    for (const auto& entry : table) known.push_back(entry.first);
    return wrong(node, fmt::format("{}: expected {}, found '{}'", key, fmt::join(known, ", "),
                                   shorten_end(printable(node.text), 60)));
  }
  Setting file(std::string_view key, std::string& target) const {
    return {key, [this, key, &target](const YamlNode& node) -> Result<> {
              VRAM_TRY_ASSIGN(const auto name, text(node, key));
              target = (folder_ / name).string();  // an absolute name stays as it is
              return {};
            }};
  }
  template <typename Table, typename Value>
  Setting choice(std::string_view key, const Table& table, Value& target) const {
    return {key, [this, key, &table, &target](const YamlNode& node) -> Result<> {
              VRAM_TRY_ASSIGN(const auto value, one_of(node, key, table));
              target = value;
              return {};
            }};
  }
  template <typename Table>
  Setting choices(std::string_view key, const Table& table,
                  std::vector<std::string>& target) const {
    return {key, [this, key, &table, &target](const YamlNode& node) -> Result<> {
              if (node.kind != YamlNode::Kind::kList)
                return wrong(node, fmt::format("{}: expected a list", key));
              for (const YamlNode& item : node.items) {
                VRAM_TRY_ASSIGN(const auto value, one_of(item, key, table));
                if (!value.empty()) target.emplace_back(value);
              }
              return {};
            }};
  }
  Setting ignored_bool(std::string_view key) const {
    return {key, [this, key](const YamlNode& node) -> Result<> {
              if (node.text == "true" || node.text == "false") return {};
              return wrong(node, fmt::format("{}: expected true or false", key));
            }};
  }

  Result<> tls(const YamlNode& node, WebConfig& config) {
    if (node.kind == YamlNode::Kind::kNull || (node.entries.empty() && node.text.empty()))
      return {};
    TlsSettings settings;
    // OpenSSL takes the server's order of ciphers, as Go does whatever this key says.
    VRAM_TRY(each(node, "tls_server_config",
                  {file("cert_file", settings.cert_file), file("key_file", settings.key_file),
                   choice("client_auth_type", kClientAuths, settings.client_auth),
                   file("client_ca_file", settings.client_ca_file),
                   choice("min_version", kVersions, settings.min_version),
                   choice("max_version", kVersions, settings.max_version),
                   choices("cipher_suites", kCipherSuites, settings.cipher_suites),
                   choices("curve_preferences", kCurves, settings.curves),
                   ignored_bool("prefer_server_cipher_suites")}));
    if (settings.cert_file.empty() || settings.key_file.empty())
      return wrong(node, "tls_server_config: expected cert_file and key_file");
    if (settings.min_version > settings.max_version)
      return wrong(node, "tls_server_config: expected min_version to be at most max_version");
    const bool verifies = settings.client_auth == ClientAuth::kVerifyIfGiven ||
                          settings.client_auth == ClientAuth::kRequireAndVerify;
    if (verifies != !settings.client_ca_file.empty())
      return wrong(node,
                   "tls_server_config: expected client_ca_file together with client_auth_type "
                   "RequireAndVerifyClientCert or VerifyClientCertIfGiven");
    config.tls = std::move(settings);
    return {};
  }

  Result<> http(const YamlNode& node, WebConfig& config) {
    // HTTP/2 is not offered: clients speak HTTP/1.1, whatever http2 says.
    return each(node, "http_server_config",
                {ignored_bool("http2"),
                 {"headers", [&](const YamlNode& list) { return headers(list, config); }}});
  }

  Result<> headers(const YamlNode& node, WebConfig& config) {
    std::vector<Setting> settings;
    for (const std::string_view name : kHeaders) {
      settings.emplace_back(name, [this, name, &config](const YamlNode& value) -> Result<> {
        VRAM_TRY_ASSIGN(const auto content, text(value, name));
        config.headers.emplace_back(name, content);
        return {};
      });
    }
    return each(node, "headers", settings);
  }

  Result<> users(const YamlNode& node, WebConfig& config) {
    if (node.kind == YamlNode::Kind::kNull) return {};
    if (node.kind != YamlNode::Kind::kMap)
      return wrong(node, "basic_auth_users: expected 'name: bcrypt hash' lines");
    if (node.entries.size() > kMaxUsers)
      return wrong(node, fmt::format("basic_auth_users: expected at most {}", kMaxUsers));
    for (const auto& [name, hash] : node.entries) {
      if (name.find(':') != std::string::npos)
        return wrong(hash, "basic_auth_users: expected a name without a colon");
      if (!is_hash(hash.text))
        return wrong(hash, fmt::format("basic_auth_users: expected a bcrypt hash of cost 4 to {}, "
                                       "as 'htpasswd -nBC 10 NAME' writes it behind the colon",
                                       kMaxCost));
      config.users.emplace_back(name, hash.text);
    }
    return {};
  }

  // "$2y$10$" and 53 digits of bcrypt's.
  static bool is_hash(std::string_view text) {
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    if (text.size() != kHashBytes || !text.starts_with("$2") || text[3] != '$' || text[6] != '$' ||
        std::string_view("aby").find(text[2]) == std::string_view::npos || !is_digit(text[4]) ||
        !is_digit(text[5]))
      return false;
    const int cost = (text[4] - '0') * 10 + (text[5] - '0');
    return cost >= 4 && cost <= kMaxCost && std::ranges::all_of(text.substr(7), [&](char c) {
             return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
                    c == '/';
           });
  }

  const std::string& path_;
  const std::filesystem::path folder_;
};

}  // namespace

Result<WebConfig> parse_web_config(std::string_view text, const std::string& path) {
  VRAM_TRY_ASSIGN(const auto top, parse_yaml(text, path));
  return WebConfigReader(path).read(top);
}

}  // namespace vram::serve
