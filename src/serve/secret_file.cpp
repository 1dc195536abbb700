#include "serve/secret_file.hpp"

#include "base/descriptor.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace vram::serve {
namespace {

constexpr size_t kLongestUrl = 4'096;

Result<> check_owner(const std::string& path, int descriptor) {
  struct stat found{};
  if (fstat(descriptor, &found) != 0 || !S_ISREG(found.st_mode))
    return fail(Code::kBadInput, "{} is no plain file, so no secret is read from it", path);
  if (found.st_uid != geteuid() && found.st_uid != 0)
    return fail(Code::kBadInput,
                "{} belongs to user {}, who knows the secret and may change it: expected a file of "
                "user {} or of root ('chown {} {}')",
                path, found.st_uid, geteuid(), geteuid(), path);
  if ((found.st_mode & 077U) != 0)
    return fail(Code::kBadInput,
                "{} can be read by others (its mode is {:04o}): 'chmod 600 {}', and make a new "
                "secret if somebody may have read this one",
                path, static_cast<unsigned>(found.st_mode & 07777U), path);
  return {};
}

}  // namespace

bool is_one_word(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; });
}

Result<std::string> read_secret(const std::string& path, size_t longest) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (file.number() < 0)
    return fail(Code::kBadInput, "cannot open {}: {}", path, std::strerror(errno));
  if (const auto checked = check_owner(path, file.number()); !checked)
    return tl::unexpected(checked.error());
  std::string text(longest + 2, '\0');  // an end of line of two characters is not the secret's
  const ssize_t count = read(file.number(), text.data(), text.size());
  text.resize(count > 0 ? static_cast<size_t>(count) : 0);
  text.erase(text.find_last_not_of("\r\n") + 1);
  return text;
}

Result<std::string> url_of(const std::string& given) {
  if (!given.starts_with('@')) return given;
  const std::string path = given.substr(1);
  auto url = read_secret(path, kLongestUrl);
  if (!url) return url;
  if (!is_one_word(*url) || url->size() > kLongestUrl)
    return fail(Code::kBadInput,
                "{} has no URL: expected one line such as http://user:password@127.0.0.1:9093/path",
                path);
  return url;
}

}  // namespace vram::serve
