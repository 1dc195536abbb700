#include "alerts/delivery/https_client.hpp"

#include "base/environment.hpp"
#include "base/text.hpp"
#include "gpu/symbols.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <dlfcn.h>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

namespace vram::alerts {
namespace {

// Options and answers of curl/curl.h.
enum Option : int {
  kWriteData = 10001,
  kUrl = 10002,
  kErrorBuffer = 10010,
  kPostFields = 10015,
  kUserAgent = 10018,
  kHeaders = 10023,
  kPost = 47,
  kFollowRedirects = 52,
  kCaFile = 10065,
  kCaFolder = 10097,
  kNoSignal = 99,
  kTimeoutMs = 155,
  kProtocols = 181,
  kQuickExit = 322,  // leaves a running lookup of the host behind; older ones wait for it
  kWriteFunction = 20011,
  kPostBytes = 30120,
};
constexpr int kResponseCode = 0x200002;
constexpr long kProtocolHttps = 2;
constexpr int kOk = 0;
constexpr int kWriteFailed = 23;
constexpr int kTimedOut = 28;
constexpr int kMessageDone = 1;
constexpr int kSliceMs = 50;  // how late a wish to end is heard
constexpr size_t kErrorBytes = 256;

constexpr size_t kMaxBody = size_t{64} << 10;  // of an answer; no caller reads more

struct Received {
  std::string body;
  bool is_truncated = false;
};

size_t receive(const char* bytes, size_t size, size_t count, void* user) {
  auto& received = *static_cast<Received*>(user);
  const size_t room = kMaxBody - received.body.size();
  received.is_truncated = size * count > room;
  received.body.append(bytes, std::min(size * count, room));
  return received.is_truncated ? 0 : size * count;  // 0 ends it: no caller reads more
}

class CurlExchange {
 public:
  explicit CurlExchange(const CurlApi& api) : api_(api), easy_(api.easy_init(), api.easy_cleanup) {}

  Result<Answer> run(const ReceiverUrl& target, std::string_view body,
                     std::chrono::milliseconds at_most, const std::atomic<bool>& must_end) {
    if (!easy_) return fail(Code::kIo, "{}: no memory for libcurl", target.shown);
    add_header("Content-Type: application/json");
    add_header("Expect:");  // no "100-continue" that servers leave unanswered
    if (!target.authorization.empty()) add_header("Authorization: " + target.authorization);
    const std::string host =
        target.host.find(':') == std::string::npos ? target.host : "[" + target.host + "]";
    const std::string url = fmt::format("https://{}:{}{}", host, target.port, target.path);
    set(kUrl, url.c_str());
    set(kProtocols, kProtocolHttps);
    set(kFollowRedirects, 0L);
    set(kUserAgent, "vram/" VRAM_VERSION);
    set(kHeaders, headers_.get());
    set(kPost, 1L);
    set(kPostFields, body.data());
    set(kPostBytes, static_cast<int64_t>(body.size()));
    set(kTimeoutMs, static_cast<long>(at_most.count()));
    set(kQuickExit, 1L);
    set(kNoSignal, 1L);  // SIGPIPE is ignored by the whole program
    set(kErrorBuffer, error_.data());
    set(kWriteFunction, receive);
    set(kWriteData, &received_);
    if (!api_.ca_file.empty()) set(kCaFile, api_.ca_file.c_str());
    if (!api_.ca_folder.empty()) set(kCaFolder, api_.ca_folder.c_str());
    const std::optional<int> over = perform(must_end);
    if (!over) return fail(Code::kIo, "{}: ended before there was an answer", target.shown);
    const int code = *over;
    long status = 0;
    (void)api_.easy_getinfo(easy_.get(), kResponseCode, &status);
    const bool is_answer = code == kOk || (code == kWriteFailed && received_.is_truncated);
    if (is_answer) return Answer{static_cast<unsigned>(status), std::move(received_.body)};
    return fail(Code::kIo, "{}: {}", target.shown, trouble(code, target, at_most));
  }

 private:
  // What it came to, as libcurl counts errors; nothing: it must end.
  std::optional<int> perform(const std::atomic<bool>& must_end) {
    constexpr int kNoMemory = 27;
    const std::unique_ptr<CurlApi::Multi, int (*)(CurlApi::Multi*)> multi(api_.multi_init(),
                                                                          api_.multi_cleanup);
    if (!multi || api_.multi_add(multi.get(), easy_.get()) != kOk) return kNoMemory;
    std::optional<int> result;
    for (int running = 1; running > 0 && !must_end;) {
      const bool is_well = api_.multi_perform(multi.get(), &running) == kOk;
      if (is_well && running > 0) {
        int ready = 0;
        (void)api_.multi_wait(multi.get(), nullptr, 0, kSliceMs, &ready);
        // Before 7.66 it does not wait while a host is looked up.
        if (ready == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        continue;
      }
      result = kNoMemory;
      int left = 0;
      while (const CurlApi::Message* const message = api_.multi_next_message(multi.get(), &left))
        if (message->kind == kMessageDone) result = message->data.result;
      break;
    }
    (void)api_.multi_remove(multi.get(), easy_.get());
    return result;
  }

  template <typename Value>
  void set(Option option, Value value) {
    (void)api_.easy_setopt(easy_.get(), option, value);
  }
  void add_header(const std::string& line) {
    CurlApi::List* const list = api_.list_append(headers_.get(), line.c_str());
    if (!headers_) headers_.reset(list);  // appending to a list returns the same one, or null
  }
  [[nodiscard]] std::string trouble(int code, const ReceiverUrl& target,
                                    std::chrono::milliseconds at_most) const {
    if (code == kTimedOut) return trf("no answer within {} ms", at_most.count());
    const std::string_view text(error_.data());
    const bool names_reason = !text.empty() && !repeats_secret(text, target);
    return printable(names_reason ? text : std::string_view(api_.easy_strerror(code)));
  }

  const CurlApi& api_;
  std::unique_ptr<CurlApi::List, void (*)(CurlApi::List*)> headers_{nullptr, api_.list_free};
  std::unique_ptr<CurlApi::Easy, void (*)(CurlApi::Easy*)> easy_;
  Received received_;
  std::array<char, kErrorBytes> error_{};
};

}  // namespace

Result<Answer> post_by_curl(const ReceiverUrl& target, std::string_view body,
                            std::chrono::milliseconds at_most, const std::atomic<bool>& must_end) {
  const auto& api = CurlApi::library();
  if (!api) return fail(api.error().code, "{}: {}", target.shown, api.error().message);
  return CurlExchange(*api).run(target, body, at_most, must_end);
}

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

}  // namespace vram::alerts
