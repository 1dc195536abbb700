#include "serve/openssl_api.hpp"

#include "gpu/symbols.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <dlfcn.h>

namespace vram::serve {

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
