#include "serve/token.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace vram::serve {
namespace {

constexpr size_t kShortest = 16;
constexpr size_t kLongest = 512;
constexpr std::string_view kScheme = "bearer ";

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) (void)close(number_);
  }
  [[nodiscard]] int get() const { return number_; }

 private:
  int number_;
};

Result<> check_owner(const std::string& path, int descriptor) {
  struct stat found{};
  if (fstat(descriptor, &found) != 0 || !S_ISREG(found.st_mode))
    return fail(Code::kBadInput, "{} is no plain file, so no token is read from it", path);
  if ((found.st_mode & 077U) != 0)
    return fail(Code::kBadInput,
                "{} can be read by others (its mode is {:04o}): 'chmod 600 {}', and make a new "
                "token if somebody may have read this one",
                path, static_cast<unsigned>(found.st_mode & 07777U), path);
  return {};
}

bool is_token(std::string_view text) {
  if (text.size() < kShortest || text.size() > kLongest) return false;
  for (const char c : text) {
    if (c <= ' ' || c > '~') return false;
  }
  return true;
}

// Looks at every byte of both, whatever they are.
bool is_same(std::string_view shown, std::string_view secret) {
  unsigned difference = shown.size() == secret.size() ? 0 : 1;
  for (size_t i = 0; i < shown.size(); ++i) {
    const char other = secret[i % secret.size()];
    difference |= static_cast<unsigned char>(shown[i] ^ other);
  }
  return difference == 0;
}

bool has_scheme(std::string_view authorization) {
  if (authorization.size() <= kScheme.size()) return false;
  for (size_t i = 0; i < kScheme.size(); ++i) {
    if ((authorization[i] | 0x20) != kScheme[i]) return false;
  }
  return true;
}

}  // namespace

Result<std::string> read_token(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (file.get() < 0)
    return fail(Code::kBadInput, "--token-file: cannot open {}: {}", path, std::strerror(errno));
  if (const auto checked = check_owner(path, file.get()); !checked)
    return tl::unexpected(checked.error());
  std::array<char, kLongest + 2> bytes{};
  const ssize_t count = read(file.get(), bytes.data(), bytes.size());
  std::string_view text(bytes.data(), count > 0 ? static_cast<size_t>(count) : 0);
  while (text.ends_with('\n') || text.ends_with('\r')) text.remove_suffix(1);
  if (!is_token(text))
    return fail(Code::kBadInput,
                "{} has no token: expected one line of {} to {} printable characters without "
                "spaces, as 'openssl rand -hex 32' writes it",
                path, kShortest, kLongest);
  return std::string(text);
}

void Token::replace(std::string secret) {
  const std::lock_guard guard(mutex_);
  secret_ = std::move(secret);
}

bool Token::is_wanted() const {
  const std::lock_guard guard(mutex_);
  return !secret_.empty();
}

bool Token::lets_in(std::string_view authorization) const {
  const std::lock_guard guard(mutex_);
  if (secret_.empty()) return true;
  return has_scheme(authorization) && is_same(authorization.substr(kScheme.size()), secret_);
}

}  // namespace vram::serve
