// TLS without a socket: converts between the client's bytes and plain text. Channel moves the
// bytes.
//
//     TlsSettings ─▶ TlsContext ─(each connection)─▶ TlsSession
//
// A context is immutable and may be used from any thread: new certificates need a new context, and
// existing sessions keep the old one. A session belongs to one thread at a time.
#pragma once

#include "base/result.hpp"
#include "serve/web_config.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vram::serve {

// OpenSSL 1.1.1 or 3, loaded when TLS is first used: a program without TLS needs no library, runs
// wherever glibc does, and with TLS uses the library that the system keeps up to date. May be
// called from any thread.

// As declared by openssl/ssl.h; only what is the same in all these versions.
struct OpenSsl {
  struct Method;
  struct Context;
  struct Session;
  struct Bio;
  struct BioMethod;
  struct NameList;

  const Method* (*server_method)() = nullptr;
  Context* (*context_new)(const Method*) = nullptr;
  void (*context_free)(Context*) = nullptr;
  long (*context_control)(Context*, int command, long number, void* pointer) = nullptr;
  uint64_t (*set_options)(Context*, uint64_t options) = nullptr;
  int (*use_certificate_chain)(Context*, const char* file) = nullptr;
  int (*use_private_key)(Context*, const char* file, int type) = nullptr;
  int (*check_private_key)(const Context*) = nullptr;
  void (*set_password_callback)(Context*, int (*)(char*, int, int, void*)) = nullptr;
  int (*set_cipher_list)(Context*, const char* names) = nullptr;
  int (*load_authorities)(Context*, const char* file, const char* folder) = nullptr;
  NameList* (*load_authority_names)(const char* file) = nullptr;
  void (*set_authority_names)(Context*, NameList*) = nullptr;
  void (*set_verify)(Context*, int mode, int (*)(int, void*)) = nullptr;
  int (*set_session_id_context)(Context*, const unsigned char*, unsigned size) = nullptr;
  Session* (*session_new)(Context*) = nullptr;
  void (*session_free)(Session*) = nullptr;
  void (*set_bio)(Session*, Bio* in, Bio* out) = nullptr;
  void (*set_accept_state)(Session*) = nullptr;
  int (*do_handshake)(Session*) = nullptr;
  int (*read)(Session*, void* buffer, int size) = nullptr;
  int (*write)(Session*, const void* bytes, int size) = nullptr;
  int (*get_error)(const Session*, int result) = nullptr;
  int (*shutdown)(Session*) = nullptr;
  int (*pending)(const Session*) = nullptr;
  Bio* (*bio_new)(const BioMethod*) = nullptr;
  const BioMethod* (*bio_memory)() = nullptr;
  int (*bio_read)(Bio*, void* buffer, int size) = nullptr;
  int (*bio_write)(Bio*, const void* bytes, int size) = nullptr;
  size_t (*bio_pending)(Bio*) = nullptr;
  unsigned long (*next_error)() = nullptr;
  void (*error_text)(unsigned long error, char* text, size_t size) = nullptr;

  // kUnsupported: none of these libraries exists; the error says what to install.
  [[nodiscard]] static Result<OpenSsl> load(const std::vector<std::string>& files);
  // Returns the system's library, loaded once.
  [[nodiscard]] static const Result<OpenSsl>& library();
  // Returns and clears this thread's error queue; "" if it is empty.
  [[nodiscard]] std::string take_errors() const;
};

// What the files of the settings say; empty where none is named.
struct TlsTexts {
  std::string certificates;
  std::string key;
  std::string authorities;

  [[nodiscard]] static Result<TlsTexts> read(const TlsSettings& settings);
};

class TlsContext {
 public:
  // kUnsupported: there is no OpenSSL. kBadInput: a file of these settings is not what it should
  // be.
  [[nodiscard]] static Result<std::shared_ptr<const TlsContext>> make(const TlsSettings& settings,
                                                                      const TlsTexts& texts);
  [[nodiscard]] const OpenSsl& api() const { return api_; }
  [[nodiscard]] OpenSsl::Context* get() const { return context_.get(); }

 private:
  explicit TlsContext(const OpenSsl& api);
  [[nodiscard]] Result<> apply(const TlsSettings& settings, const TlsTexts& texts);
  [[nodiscard]] Result<> use_certificate(const TlsSettings& settings, const TlsTexts& texts);
  [[nodiscard]] Result<> verify_clients(const TlsSettings& settings, const TlsTexts& texts);

  const OpenSsl& api_;
  std::unique_ptr<OpenSsl::Context, void (*)(OpenSsl::Context*)> context_;
};

enum class TlsStep : uint8_t {
  kDone,
  kNeedsInput,
  kClosed,  // the client has closed the stream
  kFailed,
};

class TlsSession {
 public:
  explicit TlsSession(std::shared_ptr<const TlsContext> context);

  // Adds bytes from the client.
  void feed(std::string_view bytes);
  // Returns bytes for the client; the calls below add to them.
  [[nodiscard]] std::string take_output();

  [[nodiscard]] TlsStep handshake();
  // If it returns kDone, `count` is at least 1.
  [[nodiscard]] TlsStep read(std::span<char> buffer, size_t& count);
  // If it returns kDone, all of the text was written.
  [[nodiscard]] TlsStep write(std::string_view text);
  // Sends the end of the stream to the client.
  void shut_down();
  // Whether read() has something without more input, or may have.
  [[nodiscard]] bool has_input() const;
  // Why the last step failed.
  [[nodiscard]] std::string trouble() const { return trouble_; }

 private:
  [[nodiscard]] TlsStep step_of(int result);

  std::shared_ptr<const TlsContext> context_;
  std::unique_ptr<OpenSsl::Session, void (*)(OpenSsl::Session*)> session_;
  OpenSsl::Bio* in_ = nullptr;  // both are the session's
  OpenSsl::Bio* out_ = nullptr;
  std::string trouble_;
};

}  // namespace vram::serve
