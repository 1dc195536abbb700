// OpenSSL 1.1.1 or 3, loaded when TLS is first used: a program without TLS needs no library, runs
// wherever glibc does, and with TLS uses the library that the system keeps up to date. May be
// called from any thread.
#pragma once

#include "base/result.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace vram::serve {

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

}  // namespace vram::serve
