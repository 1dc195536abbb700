#include "serve/credentials.hpp"

#include "base/settings_file.hpp"
#include "gpu/symbols.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
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

constexpr std::string_view kBasic = "basic ";

struct Shown {
  std::string name;
  std::string password;
};

std::optional<std::string> from_base64(std::string_view text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (text.size() % 4 != 0) return std::nullopt;
  for (int i = 0; i < 2 && text.ends_with('='); ++i) text.remove_suffix(1);
  std::string bytes;
  unsigned bits = 0;
  int count = 0;
  for (const char c : text) {
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = (bits << 6 | static_cast<unsigned>(digit)) & 0xffffU;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xffU);
  }
  return bytes;
}

std::optional<Shown> shown_in(std::string_view authorization) {
  if (!has_scheme(authorization, kBasic)) return std::nullopt;
  const auto text = from_base64(authorization.substr(kBasic.size()));
  if (!text || text->find('\0') != std::string::npos) return std::nullopt;
  const size_t colon = text->find(':');
  if (colon == std::string::npos) return std::nullopt;
  return Shown{text->substr(0, colon), text->substr(colon + 1)};
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

Result<std::shared_ptr<Users>> Users::of(
    const std::vector<std::pair<std::string, std::string>>& hashes) {
  const auto& bcrypt = Bcrypt::library();
  if (!bcrypt) return tl::unexpected(bcrypt.error());
  std::shared_ptr<Users> users(new Users(*bcrypt));
  for (const auto& [name, hash] : hashes) users->users_[name].hash = hash;
  return users;
}

std::optional<bool> Users::accepts_authorization(std::string_view authorization) const {
  const auto shown = shown_in(authorization);
  if (!shown) return false;
  const std::lock_guard guard(mutex_);
  const auto user = users_.find(shown->name);
  const bool is_known = user != users_.end() && !user->second.known_password.empty() &&
                        is_same_secret(shown->password, user->second.known_password);
  return is_known ? std::optional(true) : std::nullopt;
}

bool Users::check(std::string_view authorization) {
  const auto shown = shown_in(authorization);
  if (!shown || users_.empty()) return false;
  const auto user = users_.find(shown->name);  // names and hashes never change
  const bool is_user = user != users_.end();
  const std::string& hash = (is_user ? user : users_.begin())->second.hash;
  const std::string found = bcrypt_.hash(shown->password, hash);
  if (!is_user || found.empty() || !is_same_secret(found, hash)) return false;
  const std::lock_guard guard(mutex_);
  user->second.known_password = shown->password;
  return true;
}

namespace {

// A pair that every bcrypt knows (Openwall's test vectors).
constexpr const char* kKnownPassword = "U*U";
constexpr const char* kKnownHash = "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW";

}  // namespace

Result<Bcrypt> Bcrypt::load(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    Bcrypt bcrypt;
    gpu::find(library, "crypt_ra", bcrypt.crypt_);
    if (bcrypt.crypt_ != nullptr && bcrypt.hash(kKnownPassword, kKnownHash) == kKnownHash)
      return bcrypt;
  }
  return fail(
      Code::kUnsupported,
      "basic_auth_users needs a libcrypt that knows bcrypt (libxcrypt), and none of {} does: "
      "install it (Debian and Ubuntu: libcrypt1; Fedora and RHEL: libxcrypt), or use "
      "--token-file",
      fmt::join(files, ", "));
}

const Result<Bcrypt>& Bcrypt::library() {
  static const Result<Bcrypt> kLibrary = load({"libcrypt.so.1", "libcrypt.so.2"});
  return kLibrary;
}

std::string Bcrypt::hash(const std::string& password, const std::string& settings) const {
  void* data = nullptr;
  int size = 0;
  const char* const found = crypt_(password.c_str(), settings.c_str(), &data, &size);
  std::string hash = found == nullptr ? "" : found;
  std::free(data);
  return hash;
}

}  // namespace vram::serve
