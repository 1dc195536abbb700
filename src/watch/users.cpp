#include "watch/users.hpp"

#include "base/text.hpp"

#include <cerrno>
#include <pwd.h>
#include <vector>

namespace vram::watch {
namespace {

constexpr size_t kFirstBytes = 1024;
constexpr size_t kMaxBytes = size_t{1} << 20;

std::optional<std::string> name_of(uint32_t uid) {
  for (size_t bytes = kFirstBytes; bytes <= kMaxBytes; bytes *= 4) {
    std::vector<char> buffer(bytes);
    passwd entry{};
    passwd* found = nullptr;
    const int error = getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found);
    if (error == ERANGE) continue;
    if (error != 0 || found == nullptr) return std::nullopt;
    return printable(found->pw_name);
  }
  return std::nullopt;
}

}  // namespace

const std::optional<std::string>& Users::name(uint32_t uid) {
  const auto known = names_.find(uid);
  if (known != names_.end()) return known->second;
  return names_.emplace(uid, name_of(uid)).first->second;
}

}  // namespace vram::watch
