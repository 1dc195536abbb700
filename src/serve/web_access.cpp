#include "serve/web_access.hpp"

#include "base/settings_file.hpp"

namespace vram::serve {
namespace {

constexpr uint64_t kMaxConfigBytes = uint64_t{256} << 10;

void hash_on(size_t& hash, const std::string& text) {
  hash = hash * 31 + std::hash<std::string>()(text);
}

Result<std::shared_ptr<const WebAccess::Access>> read_access(const std::string& path) {
  const auto file = read_settings(path, kMaxConfigBytes);
  if (!file) return fail(Code::kBadInput, "--web-config: {}", file.error().message);
  auto config = parse_web_config(file->text, path);
  if (!config) return tl::unexpected(config.error());
  auto access = std::make_shared<WebAccess::Access>();
  access->headers = std::move(config->headers);
  access->has_authentication = config->has_authentication();
  access->files = {path};
  hash_on(access->texts_hash, file->text);
  if (!config->users.empty()) {
    auto users = Users::of(config->users);
    if (!users) return fail(users.error().code, "{}: {}", path, users.error().message);
    access->users = *std::move(users);
  }
  if (config->tls) {
    const auto texts = TlsTexts::read(*config->tls);
    if (!texts) return fail(texts.error().code, "{}: {}", path, texts.error().message);
    for (const std::string* const each : {&texts->certificates, &texts->key, &texts->authorities})
      hash_on(access->texts_hash, *each);
    auto tls = TlsContext::make(*config->tls, *texts);
    if (!tls) return fail(tls.error().code, "{}: {}", path, tls.error().message);
    access->tls = *std::move(tls);
    access->wants_certificates = config->tls->client_auth == ClientAuth::kRequireAndVerify;
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

Result<bool> WebAccess::reload() {
  const std::lock_guard reloading(reload_mutex_);
  auto access = read_access(path_);
  if (!access) return tl::unexpected(access.error());
  const std::lock_guard guard(mutex_);
  if ((*access)->texts_hash == access_->texts_hash) return false;
  const bool is_weaker = (access_->users && !(*access)->users) ||
                         (access_->wants_certificates && !(*access)->wants_certificates);
  if (is_weaker || (access_->tls != nullptr) != ((*access)->tls != nullptr))
    return fail(
        Code::kBadInput,
        "{}: expected TLS as before, and users and required certificates of clients where there "
        "were some: such a change takes a restart",
        path_);
  access_ = *std::move(access);
  return true;
}

}  // namespace vram::serve
