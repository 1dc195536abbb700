#include "serve/users.hpp"

#include "gpu/symbols.hpp"
#include "serve/token.hpp"

#include <fmt/ranges.h>

#include <cstdlib>
#include <dlfcn.h>

namespace vram::serve {
namespace {

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
