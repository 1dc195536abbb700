#include "serve/bcrypt.hpp"

#include "gpu/symbols.hpp"

#include <fmt/ranges.h>

#include <cstdlib>
#include <dlfcn.h>

namespace vram::serve {
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
