#include "serve/notify/curl_api.hpp"

#include "base/environment.hpp"
#include "gpu/symbols.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <dlfcn.h>

namespace vram::serve::notify {
namespace {

constexpr long kGlobalAll = 3;

}  // namespace

Result<CurlApi> CurlApi::load(const std::vector<std::string>& files) {
  void* library = nullptr;
  for (const std::string& file : files) {
    if (library == nullptr) library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr)
    return fail(Code::kUnsupported,
                "https:// needs libcurl, and none of {} can be opened: install it (Debian and "
                "Ubuntu: libcurl4; Fedora and RHEL: libcurl), or send to a proxy on this machine "
                "by http://",
                fmt::join(files, ", "));
  CurlApi api;
  gpu::Symbols needed(library);
  needed.find("curl_global_init", api.global_init);
  needed.find("curl_easy_init", api.easy_init);
  needed.find("curl_easy_cleanup", api.easy_cleanup);
  needed.find("curl_easy_setopt", api.easy_setopt);
  needed.find("curl_easy_getinfo", api.easy_getinfo);
  needed.find("curl_easy_strerror", api.easy_strerror);
  needed.find("curl_multi_init", api.multi_init);
  needed.find("curl_multi_cleanup", api.multi_cleanup);
  needed.find("curl_multi_add_handle", api.multi_add);
  needed.find("curl_multi_remove_handle", api.multi_remove);
  needed.find("curl_multi_perform", api.multi_perform);
  needed.find_newest("curl_multi_poll", "curl_multi_wait", api.multi_wait);
  needed.find("curl_multi_info_read", api.multi_next_message);
  needed.find("curl_slist_append", api.list_append);
  needed.find("curl_slist_free_all", api.list_free);
  if (!needed.missing().empty() || api.global_init(kGlobalAll) != 0)
    return fail(Code::kUnsupported,
                "https:// needs libcurl, but {} has no {} or does not start: reinstall it",
                fmt::join(files, ", "), needed.missing());
  api.ca_file = environment("CURL_CA_BUNDLE");
  if (api.ca_file.empty()) api.ca_file = environment("SSL_CERT_FILE");
  api.ca_folder = environment("SSL_CERT_DIR");
  return api;
}

const Result<CurlApi>& CurlApi::library() {
  static const Result<CurlApi> kLibrary = load({"libcurl.so.4", "libcurl-gnutls.so.4"});
  return kLibrary;
}

}  // namespace vram::serve::notify
