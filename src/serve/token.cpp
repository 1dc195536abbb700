#include "serve/token.hpp"

#include "base/settings_file.hpp"

#include <algorithm>
#include <unistd.h>
#include <utility>

namespace vram::serve {
namespace {

constexpr size_t kMinLength = 16;
constexpr size_t kMaxLength = 512;
constexpr std::string_view kScheme = "bearer ";

bool is_token(std::string_view text) {
  return text.size() >= kMinLength && text.size() <= kMaxLength && is_one_word(text);
}

}  // namespace

Result<std::string> read_token(const std::string& path) {
  auto text = read_secret(path);
  if (!text) return fail(text.error().code, "--token-file: {}", text.error().message);
  if (!is_token(*text))
    return fail(Code::kBadInput,
                "{} has no token: expected one line of {} to {} printable characters without "
                "spaces, as 'openssl rand -hex 32' writes it",
                path, kMinLength, kMaxLength);
  return text;
}

bool is_same_secret(std::string_view shown, std::string_view secret) {
  unsigned difference = shown.size() == secret.size() ? 0 : 1;
  for (size_t i = 0; i < shown.size(); ++i) {
    const char other = secret[i % secret.size()];
    difference |= static_cast<unsigned char>(shown[i] ^ other);
  }
  return difference == 0;
}

bool has_scheme(std::string_view authorization, std::string_view scheme) {
  if (authorization.size() <= scheme.size()) return false;
  for (size_t i = 0; i < scheme.size(); ++i) {
    if ((authorization[i] | 0x20) != scheme[i]) return false;
  }
  return true;
}

bool Token::replace(std::string secret) {
  const std::lock_guard guard(mutex_);
  return std::exchange(secret_, std::move(secret)) != secret_;
}

bool Token::is_wanted() const {
  const std::lock_guard guard(mutex_);
  return !secret_.empty();
}

bool Token::accepts_authorization(std::string_view authorization) const {
  const std::lock_guard guard(mutex_);
  if (secret_.empty()) return true;
  return has_scheme(authorization, kScheme) &&
         is_same_secret(authorization.substr(kScheme.size()), secret_);
}

namespace {

constexpr size_t kMaxUrlLength = 4'096;
constexpr uint64_t kMaxSecretBytes = uint64_t{64} << 10;

}  // namespace

bool is_one_word(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; });
}

Result<std::string> read_secret(const std::string& path) {
  auto file = read_settings(path, kMaxSecretBytes);
  if (!file) return fail(Code::kBadInput, "{}", file.error().message);
  if (file->owner != geteuid() && file->owner != 0)
    return fail(Code::kBadInput,
                "{} belongs to user {}, who knows the secret and may change it: expected a file of "
                "user {} or of root ('chown {} {}')",
                path, file->owner, geteuid(), geteuid(), path);
  if ((file->mode & 077U) != 0)
    return fail(Code::kBadInput,
                "{} can be read by others (its mode is {:04o}): 'chmod 600 {}', and replace the "
                "secret if others may have read it",
                path, file->mode, path);
  std::string text = std::move(file->text);
  text.erase(text.find_last_not_of("\r\n") + 1);
  return text;
}

Result<std::string> url_of(const std::string& given) {
  if (!given.starts_with('@')) return given;
  const std::string path = given.substr(1);
  auto url = read_secret(path);
  if (!url) return url;
  if (!is_one_word(*url) || url->size() > kMaxUrlLength)
    return fail(Code::kBadInput,
                "{} has no URL: expected one line such as http://user:password@127.0.0.1:9093/path",
                path);
  return url;
}

}  // namespace vram::serve
