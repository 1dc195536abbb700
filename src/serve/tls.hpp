// TLS without a socket: converts between the client's bytes and plain text. Channel moves the
// bytes.
//
//     TlsSettings ─▶ TlsContext ─(each connection)─▶ TlsSession
//
// A context is immutable and may be used from any thread: new certificates need a new context, and
// existing sessions keep the old one. A session belongs to one thread at a time.
#pragma once

#include "base/result.hpp"
#include "serve/openssl_api.hpp"
#include "serve/web_config.hpp"

#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace vram::serve {

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
