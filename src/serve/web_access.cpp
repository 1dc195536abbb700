#include "serve/web_access.hpp"

#include "base/settings_file.hpp"

namespace vram::serve {
namespace {

constexpr uint64_t kMaxConfigBytes = uint64_t{256} << 10;

Result<std::shared_ptr<const WebAccess::Access>> read_access(const std::string& path) {
  const auto file = read_settings(path, kMaxConfigBytes);
  if (!file) return fail(Code::kBadInput, "--web-config: {}", file.error().message);
  auto config = parse_web_config(file->text, path);
  if (!config) return tl::unexpected(config.error());
  auto access = std::make_shared<WebAccess::Access>();
  access->headers = std::move(config->headers);
  access->has_authentication = config->has_authentication();
  access->files = {path};
  if (!config->users.empty()) {
    auto users = Users::of(config->users);
    if (!users) return fail(users.error().code, "{}: {}", path, users.error().message);
    access->users = *std::move(users);
  }
  if (config->tls) {
    auto tls = TlsContext::make(*config->tls);
    if (!tls) return fail(tls.error().code, "{}: {}", path, tls.error().message);
    access->tls = *std::move(tls);
    for (const std::string* const each :
         {&config->tls->cert_file, &config->tls->key_file, &config->tls->client_ca_file}) {
      if (!each->empty()) access->files.push_back(*each);
    }
  }
  return access;
}

}  // namespace

Result<std::shared_ptr<WebAccess>> WebAccess::open(const std::string& path) {
  auto access = read_access(path);
  if (!access) return tl::unexpected(access.error());
  return std::shared_ptr<WebAccess>(new WebAccess(path, *std::move(access)));
}

std::shared_ptr<const WebAccess::Access> WebAccess::now() const {
  const std::lock_guard guard(mutex_);
  return access_;
}

Result<> WebAccess::reload() {
  auto access = read_access(path_);
  if (!access) return tl::unexpected(access.error());
  const std::lock_guard guard(mutex_);
  const bool is_weaker = (access_->has_authentication && !(*access)->has_authentication) ||
                         (access_->tls && !(*access)->tls);
  if (is_weaker || (!access_->tls && (*access)->tls))
    return fail(
        Code::kBadInput,
        "{}: expected TLS and authentication as strict as before: other changes need a restart",
        path_);
  access_ = *std::move(access);
  return {};
}

}  // namespace vram::serve
