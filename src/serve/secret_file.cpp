#include "serve/secret_file.hpp"

#include "base/settings_file.hpp"

#include <algorithm>
#include <unistd.h>
#include <utility>

namespace vram::serve {
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
