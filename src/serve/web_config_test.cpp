#include "serve/web_config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vram::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

constexpr const char* kHash = "$2y$10$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi";

// Of the toolkit's own documentation, with all that is understood.
TEST(WebConfig, TakesTheToolkitsFile) {
  const std::string text = std::string(R"(---
# TLS and basic authentication
tls_server_config:
  cert_file: server.crt
  key_file: "/etc/ssl/private/server.key"   # absolute
  client_auth_type: 'RequireAndVerifyClientCert'
  client_ca_file: ca #1.crt
  min_version: TLS12
  max_version: TLS13
  cipher_suites:
  - TLS_AES_128_GCM_SHA256
  - TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
  prefer_server_cipher_suites: true
  curve_preferences: [X25519, CurveP256]
http_server_config:
  http2: true
  headers:
    Strict-Transport-Security: "max-age=31536000; includeSubDomains"
basic_auth_users:
  alice: )") + kHash +
                           "\n  'bo b': " + kHash + "\n";
  const auto config = parse_web_config(text, "/etc/vram/web.yml");
  ASSERT_TRUE(config) << config.error().message;
  ASSERT_TRUE(config->tls);
  EXPECT_EQ(config->tls->cert_file, "/etc/vram/server.crt");
  EXPECT_EQ(config->tls->key_file, "/etc/ssl/private/server.key");
  EXPECT_EQ(config->tls->client_ca_file, "/etc/vram/ca");
  EXPECT_EQ(config->tls->client_auth, ClientAuth::kRequireAndVerify);
  EXPECT_EQ(config->tls->min_version, 0x0303);
  EXPECT_EQ(config->tls->max_version, 0x0304);
  EXPECT_THAT(config->tls->cipher_suites, ElementsAre("ECDHE-RSA-AES128-GCM-SHA256"));
  EXPECT_THAT(config->tls->curves, ElementsAre("X25519", "P-256"));
  EXPECT_THAT(config->headers, ElementsAre(Pair("Strict-Transport-Security",
                                                "max-age=31536000; includeSubDomains")));
  EXPECT_THAT(config->users, ElementsAre(Pair("alice", kHash), Pair("bo b", kHash)));
  EXPECT_TRUE(config->has_authentication());
}

TEST(WebConfig, MayBeEmpty) {
  for (const char* text : {"", "# nothing\n", "---\n", "tls_server_config:\nbasic_auth_users:\n",
                           "tls_server_config: {}\n"}) {
    const auto config = parse_web_config(text, "web.yml");
    ASSERT_TRUE(config) << text << config.error().message;
    EXPECT_FALSE(config->tls) << text;
    EXPECT_FALSE(config->has_authentication());
  }
}

TEST(WebConfig, RefusesWhatItDoesNotUnderstandWithItsLine) {
  const std::string tls = "tls_server_config:\n  cert_file: a\n  key_file: b\n";
  const std::pair<std::string, std::string> cases[] = {
      {"tls_config:\n  a: b\n", "line 2: the file: expected tls_server_config, "},
      {tls + "  client_allowed_sans: [x]\n", "line 4: tls_server_config: expected cert_file"},
      {tls + "  client_auth_type: Always\n", "line 4: client_auth_type: expected NoClientCert"},
      {tls + "  min_version: TLS10\n", "min_version: expected TLS12, TLS13, found 'TLS10'"},
      {tls + "  min_version: TLS13\n  max_version: TLS12\n", "at most max_version"},
      {tls + "  cipher_suites: TLS_X\n", "cipher_suites: expected a list"},
      {tls + "  cipher_suites: [TLS_RSA_WITH_RC4_128_SHA]\n", "found 'TLS_RSA_WITH_RC4_128_SHA'"},
      {tls + "  client_auth_type: RequireAndVerifyClientCert\n", "expected client_ca_file"},
      {tls + "  client_ca_file: ca.crt\n", "expected client_ca_file together with"},
      {tls + "  cert_file: c\n", "line 4: expected each key once"},
      {tls + "   deeper: c\n", "line 4: expected less indentation"},
      {tls + "  cert: |\n    text\n", "line 4: expected a plain or quoted text"},
      {"tls_server_config:\n  cert_file: a\n", "expected cert_file and key_file"},
      {"http_server_config:\n  headers:\n    Set-Cookie: a\n",
       "headers: expected Content-Security"},
      {"basic_auth_users: [a]\n", "expected 'name: bcrypt hash' lines"},
      {"basic_auth_users:\n  ann: s3cret\n", "line 2: basic_auth_users: expected a bcrypt hash"},
      {"basic_auth_users:\n  ann: $2y$31$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi\n",
       "of cost 4 to 15"},
      {"\tkey: a\n", "line 1: expected spaces as indentation"},
      {"a: *x\n", "line 1: expected a plain"},
      {"just text\n", "line 1: expected 'key: value'"},
      {"a: \"b\\n\"\n", "line 1: expected no escapes"},
      {"a: 'b\n", "line 1: expected nothing around"},
      {"a: b\n---\nc: d\n", "line 2: expected one document"}};
  for (const auto& [text, words] : cases) {
    const auto config = parse_web_config(text, "web.yml");
    ASSERT_FALSE(config) << text;
    EXPECT_EQ(config.error().code, Code::kBadInput);
    EXPECT_THAT(config.error().message, HasSubstr(words)) << text;
    EXPECT_THAT(config.error().message, Not(HasSubstr("s3cret")));
  }
  EXPECT_FALSE(parse_web_config("a: \xff\n", "web.yml"));
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += std::string(i, ' ') + "a:\n";
  EXPECT_FALSE(parse_web_config(deep, "web.yml"));
}

}  // namespace
}  // namespace vram::serve
