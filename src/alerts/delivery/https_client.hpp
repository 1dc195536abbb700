// post_json() for https:// URLs, by libcurl: certificates are checked, proxies are those of curl's
// environment variables (HTTPS_PROXY, NO_PROXY), and redirects are not followed. Any thread.
#pragma once

#include "alerts/delivery/http_client.hpp"
#include "base/result.hpp"

#include <string>
#include <vector>

namespace vram::alerts {

[[nodiscard]] Result<Answer> post_by_curl(const ReceiverUrl& target, std::string_view body,
                                          std::chrono::milliseconds at_most,
                                          const std::atomic<bool>& must_end);

// libcurl, opened when the first https:// URL is named: a program that links no TLS library needs
// none, runs wherever glibc does, and uses the one that the system keeps up to date. Any thread.

// As curl/curl.h declares it, whose numbers stay the same for all of libcurl.so.4.
struct CurlApi {
  struct Easy;
  struct Multi;
  struct List;
  struct Message {
    int kind;  // 1: this transfer is over
    Easy* easy;
    union {
      void* other;
      int result;
    } data;
  };
  int (*global_init)(long flags) = nullptr;
  Easy* (*easy_init)() = nullptr;
  void (*easy_cleanup)(Easy* easy) = nullptr;
  int (*easy_setopt)(Easy* easy, int option, ...) = nullptr;
  int (*easy_getinfo)(Easy* easy, int info, ...) = nullptr;
  const char* (*easy_strerror)(int code) = nullptr;
  Multi* (*multi_init)() = nullptr;
  int (*multi_cleanup)(Multi* multi) = nullptr;
  int (*multi_add)(Multi* multi, Easy* easy) = nullptr;
  int (*multi_remove)(Multi* multi, Easy* easy) = nullptr;
  int (*multi_perform)(Multi* multi, int* running) = nullptr;
  int (*multi_wait)(Multi* multi, void* more, unsigned more_count, int time_ms,
                    int* ready) = nullptr;
  Message* (*multi_next_message)(Multi* multi, int* left) = nullptr;
  List* (*list_append)(List* list, const char* text) = nullptr;
  void (*list_free)(List* list) = nullptr;
  // The location of CA certificates, as curl's command takes it from CURL_CA_BUNDLE, SSL_CERT_FILE
  // and SSL_CERT_DIR; empty: libcurl's default.
  std::string ca_file;
  std::string ca_folder;

  // kUnsupported: none of these libraries exists; the error says what to install.
  [[nodiscard]] static Result<CurlApi> load(const std::vector<std::string>& files);
  // Returns the system's library, loaded once.
  [[nodiscard]] static const Result<CurlApi>& library();
};

}  // namespace vram::alerts
