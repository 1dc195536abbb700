#include "serve/tls.hpp"

#include "base/file.hpp"
#include "base/result.hpp"
#include "base/settings_file.hpp"
#include "gpu/symbols.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <dlfcn.h>
#include <new>
#include <sys/mman.h>
#include <tuple>
#include <unistd.h>
#include <utility>

namespace vram::serve {
namespace {

// Commands, modes and answers of openssl/ssl.h.
constexpr int kSetMode = 33;
constexpr int kSetSessionCache = 44;
constexpr int kSetCurves = 92;
constexpr int kSetMinVersion = 123;
constexpr int kSetMaxVersion = 124;
constexpr long kReleaseBuffers = 0x10;  // of idle connections
constexpr long kNoSessionCache = 0;
// Each would cost the server as much as a new connection. OpenSSL 3 allows none unless it is
// configured to.
constexpr uint64_t kNoRenegotiation = uint64_t{1} << 30U;
constexpr int kPem = 1;
constexpr int kVerifyPeer = 1;
constexpr int kFailWithoutCertificate = 2;
constexpr int kWantRead = 2;
constexpr int kWantWrite = 3;
constexpr int kZeroReturn = 6;

constexpr uint64_t kMaxPemBytes = uint64_t{1} << 20;
constexpr std::string_view kSessionName = "vram serve";

// No user is there to type it.
int no_password(char*, int, int, void*) { return 0; }
int take_any_certificate(int, void*) { return 1; }

// A file in memory for OpenSSL, which opens files by name: by the name of the real one it would
// wait for a FIFO or a dead mount that has taken that file's place since it was read.
class PemFile {
 public:
  explicit PemFile(std::string_view text) : file_(memfd_create("pem", MFD_CLOEXEC)) {
    const ssize_t count = write(file_.number(), text.data(), text.size());
    if (count == static_cast<ssize_t>(text.size()))
      name_ = fmt::format("/proc/self/fd/{}", file_.number());
  }
  // "" where there was no memory: no file has that name.
  [[nodiscard]] const char* name() const { return name_.c_str(); }

 private:
  Descriptor file_;
  std::string name_;
};

}  // namespace

Result<TlsTexts> TlsTexts::read(const TlsSettings& settings) {
  TlsTexts texts;
  const std::tuple<const char*, const std::string&, std::string&> files[] = {
      {"cert_file", settings.cert_file, texts.certificates},
      {"key_file", settings.key_file, texts.key},
      {"client_ca_file", settings.client_ca_file, texts.authorities}};
  for (const auto& [key, path, text] : files) {
    if (path.empty()) continue;
    auto file = read_settings(path, kMaxPemBytes);
    if (!file) return fail(Code::kBadInput, "{}: {}", key, file.error().message);
    text = std::move(file->text);
  }
  return texts;
}

TlsContext::TlsContext(const OpenSsl& api)
    : api_(api), context_(api.context_new(api.server_method()), api.context_free) {
  if (!context_) throw std::bad_alloc();
}

Result<std::shared_ptr<const TlsContext>> TlsContext::make(const TlsSettings& settings,
                                                           const TlsTexts& texts) {
  const auto& api = OpenSsl::library();
  if (!api) return tl::unexpected(api.error());
  std::shared_ptr<TlsContext> context(new TlsContext(*api));
  (void)api->take_errors();
  VRAM_TRY(context->apply(settings, texts));
  return context;
}

Result<> TlsContext::use_certificate(const TlsSettings& settings, const TlsTexts& texts) {
  if (api_.use_certificate_chain(get(), PemFile(texts.certificates).name()) != 1)
    return fail(Code::kBadInput, "cert_file {}: expected certificates in PEM: {}",
                settings.cert_file, api_.take_errors());
  if (api_.use_private_key(get(), PemFile(texts.key).name(), kPem) != 1)
    return fail(Code::kBadInput,
                "key_file {}: expected a private key in PEM without a passphrase, "
                "which belongs to cert_file: {}",
                settings.key_file, api_.take_errors());
  if (api_.check_private_key(get()) != 1)
    return fail(Code::kBadInput, "key_file {}: expected the key of cert_file {}: {}",
                settings.key_file, settings.cert_file, api_.take_errors());
  return {};
}

Result<> TlsContext::verify_clients(const TlsSettings& settings, const TlsTexts& texts) {
  if (settings.client_auth == ClientAuth::kNone) return {};
  const bool requires_one = settings.client_auth == ClientAuth::kRequireAny ||
                            settings.client_auth == ClientAuth::kRequireAndVerify;
  const int mode = kVerifyPeer | (requires_one ? kFailWithoutCertificate : 0);
  if (settings.client_ca_file.empty()) {
    api_.set_verify(get(), mode, take_any_certificate);
    return {};
  }
  const PemFile file(texts.authorities);
  OpenSsl::NameList* const names = api_.load_authorities(get(), file.name(), nullptr) == 1
                                       ? api_.load_authority_names(file.name())
                                       : nullptr;
  if (names == nullptr)
    return fail(Code::kBadInput, "client_ca_file {}: expected certificates in PEM: {}",
                settings.client_ca_file, api_.take_errors());
  api_.set_authority_names(get(), names);
  api_.set_verify(get(), mode, nullptr);
  return {};
}

Result<> TlsContext::apply(const TlsSettings& settings, const TlsTexts& texts) {
  api_.set_password_callback(get(), no_password);
  (void)api_.context_control(get(), kSetMode, kReleaseBuffers, nullptr);
  (void)api_.context_control(get(), kSetSessionCache, kNoSessionCache, nullptr);
  (void)api_.set_options(get(), kNoRenegotiation);
  (void)api_.set_session_id_context(get(),
                                    reinterpret_cast<const unsigned char*>(kSessionName.data()),
                                    static_cast<unsigned>(kSessionName.size()));
  (void)api_.context_control(get(), kSetMinVersion, settings.min_version, nullptr);
  (void)api_.context_control(get(), kSetMaxVersion, settings.max_version, nullptr);
  const std::string ciphers = fmt::format("{}", fmt::join(settings.cipher_suites, ":"));
  if (!ciphers.empty() && api_.set_cipher_list(get(), ciphers.c_str()) != 1)
    return fail(Code::kBadInput, "cipher_suites: this OpenSSL has none of {}: {}", ciphers,
                api_.take_errors());
  std::string curves = fmt::format("{}", fmt::join(settings.curves, ":"));
  if (!curves.empty() && api_.context_control(get(), kSetCurves, 0, curves.data()) != 1)
    return fail(Code::kBadInput, "curve_preferences: this OpenSSL does not have {}: {}", curves,
                api_.take_errors());
  if (auto used = use_certificate(settings, texts); !used) return used;
  return verify_clients(settings, texts);
}

TlsSession::TlsSession(std::shared_ptr<const TlsContext> context)
    : context_(std::move(context)),
      session_(context_->api().session_new(context_->get()), context_->api().session_free) {
  const OpenSsl& api = context_->api();
  in_ = api.bio_new(api.bio_memory());
  out_ = api.bio_new(api.bio_memory());
  if (!session_ || in_ == nullptr || out_ == nullptr) throw std::bad_alloc();
  api.set_bio(session_.get(), in_, out_);
  api.set_accept_state(session_.get());
}

void TlsSession::feed(std::string_view bytes) {
  (void)context_->api().bio_write(in_, bytes.data(), static_cast<int>(bytes.size()));
}

std::string TlsSession::take_output() {
  const OpenSsl& api = context_->api();
  std::string output(api.bio_pending(out_), '\0');
  if (output.empty()) return output;
  const int count = api.bio_read(out_, output.data(), static_cast<int>(output.size()));
  output.resize(count > 0 ? static_cast<size_t>(count) : 0);
  return output;
}

TlsStep TlsSession::step_of(int result) {
  if (result > 0) return TlsStep::kDone;
  const OpenSsl& api = context_->api();
  const int error = api.get_error(session_.get(), result);
  if (error == kWantRead || error == kWantWrite) return TlsStep::kNeedsInput;
  if (error == kZeroReturn) return TlsStep::kClosed;
  trouble_ = api.take_errors();
  return TlsStep::kFailed;
}

TlsStep TlsSession::handshake() {
  (void)context_->api().take_errors();  // of another session on this thread
  return step_of(context_->api().do_handshake(session_.get()));
}

TlsStep TlsSession::read(std::span<char> buffer, size_t& count) {
  (void)context_->api().take_errors();
  const int result =
      context_->api().read(session_.get(), buffer.data(), static_cast<int>(buffer.size()));
  count = result > 0 ? static_cast<size_t>(result) : 0;
  return step_of(result);
}

TlsStep TlsSession::write(std::string_view text) {
  (void)context_->api().take_errors();
  return step_of(context_->api().write(session_.get(), text.data(), static_cast<int>(text.size())));
}

void TlsSession::shut_down() {
  (void)context_->api().shutdown(session_.get());
  (void)context_->api().take_errors();
}

bool TlsSession::has_input() const {
  return context_->api().pending(session_.get()) > 0 || context_->api().bio_pending(in_) > 0;
}

Result<OpenSsl> OpenSsl::load(const std::vector<std::string>& files) {
  void* library = nullptr;
  for (const std::string& file : files) {
    if (library == nullptr) library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr)
    return fail(Code::kUnsupported,
                "TLS needs OpenSSL, and none of {} can be opened: install it (Debian and Ubuntu: "
                "libssl3 or libssl1.1; Fedora and RHEL: openssl-libs), or put a proxy in front",
                fmt::join(files, ", "));
  OpenSsl api;
  gpu::Symbols needed(library);  // libcrypto's, too: it is loaded with libssl
  needed.find("TLS_server_method", api.server_method);
  needed.find("SSL_CTX_new", api.context_new);
  needed.find("SSL_CTX_free", api.context_free);
  needed.find("SSL_CTX_ctrl", api.context_control);
  needed.find("SSL_CTX_set_options", api.set_options);
  needed.find("SSL_CTX_use_certificate_chain_file", api.use_certificate_chain);
  needed.find("SSL_CTX_use_PrivateKey_file", api.use_private_key);
  needed.find("SSL_CTX_check_private_key", api.check_private_key);
  needed.find("SSL_CTX_set_default_passwd_cb", api.set_password_callback);
  needed.find("SSL_CTX_set_cipher_list", api.set_cipher_list);
  needed.find("SSL_CTX_load_verify_locations", api.load_authorities);
  needed.find("SSL_load_client_CA_file", api.load_authority_names);
  needed.find("SSL_CTX_set_client_CA_list", api.set_authority_names);
  needed.find("SSL_CTX_set_verify", api.set_verify);
  needed.find("SSL_CTX_set_session_id_context", api.set_session_id_context);
  needed.find("SSL_new", api.session_new);
  needed.find("SSL_free", api.session_free);
  needed.find("SSL_set_bio", api.set_bio);
  needed.find("SSL_set_accept_state", api.set_accept_state);
  needed.find("SSL_do_handshake", api.do_handshake);
  needed.find("SSL_read", api.read);
  needed.find("SSL_write", api.write);
  needed.find("SSL_get_error", api.get_error);
  needed.find("SSL_shutdown", api.shutdown);
  needed.find("SSL_pending", api.pending);
  needed.find("BIO_new", api.bio_new);
  needed.find("BIO_s_mem", api.bio_memory);
  needed.find("BIO_read", api.bio_read);
  needed.find("BIO_write", api.bio_write);
  needed.find("BIO_ctrl_pending", api.bio_pending);
  needed.find("ERR_get_error", api.next_error);
  needed.find("ERR_error_string_n", api.error_text);
  if (!needed.missing().empty())
    return fail(Code::kUnsupported,
                "TLS needs OpenSSL 1.1.1 or newer, and the first of {} that is there has no {}",
                fmt::join(files, ", "), needed.missing());
  return api;
}

const Result<OpenSsl>& OpenSsl::library() {
  static const Result<OpenSsl> kLibrary = load({"libssl.so.3", "libssl.so.1.1"});
  return kLibrary;
}

std::string OpenSsl::take_errors() const {
  std::string texts;
  for (unsigned long error = next_error(); error != 0; error = next_error()) {
    std::array<char, 256> text{};
    error_text(error, text.data(), text.size());
    if (texts.empty()) texts = text.data();  // the first is the cause
  }
  return texts;
}

}  // namespace vram::serve
