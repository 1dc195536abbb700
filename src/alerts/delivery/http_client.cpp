#include "alerts/delivery/http_client.hpp"

#include "alerts/delivery/https_client.hpp"
#include "base/base64.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>

namespace vram::alerts {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;

constexpr size_t kMaxBodyBytes = size_t{64} << 10;  // of an answer; no caller reads more
constexpr uint32_t kMaxHeaderBytes = 16 << 10;
constexpr auto kSlice = std::chrono::milliseconds(50);  // how late a wish to end is heard

// One exchange, from the host's name to its answer; each step begins the next.
class PlainExchange {
 public:
  PlainExchange(const ReceiverUrl& target, std::string_view body) : target_(target) {
    request_.method(http::verb::post);
    request_.target(target.path);
    request_.version(11);
    const std::string host =
        target.host.find(':') == std::string::npos ? target.host : "[" + target.host + "]";
    request_.set(http::field::host, target.port == "80" ? host : host + ":" + target.port);
    request_.set(http::field::user_agent, "vram/" VRAM_VERSION);
    request_.set(http::field::content_type, "application/json");
    request_.set(http::field::connection, "close");
    if (!target.authorization.empty())
      request_.set(http::field::authorization, target.authorization);
    request_.body() = body;
    request_.prepare_payload();
    parser_.body_limit(boost::none);  // what does not fit is not read
    parser_.header_limit(kMaxHeaderBytes);
    parser_.get().body().data = body_.data();
    parser_.get().body().size = body_.size();
  }

  Result<Answer> run(std::chrono::milliseconds at_most, const std::atomic<bool>& must_end) {
    const auto deadline = std::chrono::steady_clock::now() + at_most;
    resolve();
    while (!is_over_) {
      context_.restart();
      context_.run_for(kSlice);
      if (is_over_) break;
      if (must_end) return error(tr("ended before that"));
      if (std::chrono::steady_clock::now() >= deadline)
        return error(trf("no answer within {} ms", at_most.count()));
    }
    return answer();
  }

 private:
  // A step has ended: badly, which ends the exchange, or the next one begins.
  template <typename Next>
  void go_on(const boost::system::error_code& error, std::string_view next_step, Next next) {
    error_ = error;
    if (error) {
      is_over_ = true;
      return;
    }
    step_ = next_step;
    next();
  }

  void resolve() {
    resolver_.async_resolve(target_.host, target_.port, [this](auto error, auto found) {
      go_on(error, tr_later("connect"), [&] { connect(found); });
    });
  }
  void connect(const tcp::resolver::results_type& found) {
    stream_.async_connect(found, [this](auto error, const auto&) {
      go_on(error, tr_later("send"), [&] { write(); });
    });
  }
  void write() {
    http::async_write(stream_, request_, [this](auto error, size_t) {
      go_on(error, tr_later("read the answer"), [&] { read(); });
    });
  }
  void read() {
    http::async_read(stream_, buffer_, parser_, [this](auto error, size_t) {
      error_ = error;
      is_over_ = true;
    });
  }

  tl::unexpected<Error> error(std::string_view why) const {
    return fail(Code::kIo, "{}: tried to {}: {}", target_.shown, tr(step_), why);
  }
  // One that is longer than we read is an answer all the same.
  Result<Answer> answer() const {
    if (error_ == http::error::end_of_stream)
      return error(tr("the connection was closed without an answer"));
    if (error_ && error_ != http::error::need_buffer) return error(printable(error_.message()));
    const size_t size = body_.size() - parser_.get().body().size;
    return Answer{parser_.get().result_int(), body_.substr(0, size)};
  }

  const ReceiverUrl& target_;
  asio::io_context context_{1};
  tcp::resolver resolver_{context_};
  beast::tcp_stream stream_{context_};
  http::request<http::string_body> request_;
  beast::flat_buffer buffer_{2 * size_t{kMaxHeaderBytes}};
  http::response_parser<http::buffer_body> parser_;
  std::string body_ = std::string(kMaxBodyBytes, '\0');
  std::string_view step_ = tr_later("find the host");
  boost::system::error_code error_;
  bool is_over_ = false;
};

}  // namespace

Result<Answer> post_json(const ReceiverUrl& target, std::string_view body,
                         std::chrono::milliseconds at_most, const std::atomic<bool>& must_end) {
  if (target.is_https) return post_by_curl(target, body, at_most, must_end);
  try {
    return PlainExchange(target, body).run(at_most, must_end);
  } catch (const std::exception& error) {  // Asio's, where the system has no descriptors left
    return fail(Code::kIo, "{}: {}", target.shown, printable(error.what()));
  }
}

// URLs, as far as http_client takes them.

namespace {

constexpr size_t kMaxUrlLength = 4'096;
constexpr uint32_t kMaxPort = 65'535;

int hex_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string unescaped(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_escape = text[i] == '%' && i + 2 < text.size() && hex_of(text[i + 1]) >= 0 &&
                           hex_of(text[i + 2]) >= 0;
    result +=
        is_escape ? static_cast<char>(hex_of(text[i + 1]) * 16 + hex_of(text[i + 2])) : text[i];
    if (is_escape) i += 2;
  }
  return result;
}

// FNV-1a, folded.
uint32_t hash16(std::string_view text) {
  uint32_t hash = 2'166'136'261;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16'777'619;
  return (hash >> 16 ^ hash) & 0xffffU;
}

bool is_port(std::string_view text) {
  uint32_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size() && port > 0 && port <= kMaxPort;
}

// "host", "host:80", "[::1]:80".
std::optional<std::pair<std::string, std::string>> host_and_port(std::string_view text,
                                                                 std::string_view default_port) {
  std::string_view host = text;
  std::string_view rest;
  if (text.starts_with('[')) {
    const size_t close = text.find(']');
    if (close == std::string_view::npos) return std::nullopt;
    host = text.substr(1, close - 1);
    rest = text.substr(close + 1);
  } else {
    host = text.substr(0, text.find(':'));
    rest = text.substr(host.size());
  }
  if (host.empty() || (!rest.empty() && (rest[0] != ':' || !is_port(rest.substr(1)))))
    return std::nullopt;
  return std::pair(std::string(host), std::string(rest.empty() ? default_port : rest.substr(1)));
}

bool is_plain(std::string_view url) {
  return url.size() <= kMaxUrlLength &&
         std::ranges::all_of(url, [](char c) { return c > ' ' && c <= '~'; });
}

}  // namespace

// Nothing of a URL that can't be understood is repeated in the error but its scheme: there may be a
// password anywhere in it.
Result<ReceiverUrl> parse_receiver_url(std::string_view url) {
  constexpr std::string_view kHttp = "http://";
  constexpr std::string_view kHttps = "https://";
  ReceiverUrl target;
  target.is_https = url.starts_with(kHttps);
  const std::string_view scheme = target.is_https ? kHttps : kHttp;
  const uint32_t hash = hash16(url);
  if (!url.starts_with(scheme) || !is_plain(url)) {
    // Without a scheme it may be any secret: the file of another one was named.
    const size_t mark = url.find("://");
    return fail(
        Code::kBadInput,
        "expected a URL such as http://127.0.0.1:9093/path (http:// or https://, ASCII, no "
        "spaces), found {}",
        mark == std::string_view::npos
            ? "a text without ://"
            : fmt::format("one with {}://", shorten_end(printable(url.substr(0, mark)), 20)));
  }
  url.remove_prefix(scheme.size());
  url = url.substr(0, url.find('#'));
  const size_t end = std::min(url.find_first_of("/?"), url.size());
  std::string_view authority = url.substr(0, end);
  const size_t at = authority.rfind('@');
  if (at != std::string_view::npos) {
    target.authorization = "Basic " + base64(unescaped(authority.substr(0, at)));
    authority.remove_prefix(at + 1);
  }
  const auto place = host_and_port(authority, target.is_https ? "443" : "80");
  if (!place)
    return fail(Code::kBadInput,
                "expected a host and perhaps a port (1 to 65535) after http://, as in "
                "http://127.0.0.1:9093 or http://[::1]:9093, found another text, which is not "
                "repeated here: a password may be in it");
  target.host = place->first;
  target.port = place->second;
  target.path = std::string(url.substr(end));
  if (!target.path.starts_with('/')) target.path.insert(0, "/");
  target.shown = fmt::format("{}{}", scheme, authority);
  target.key = fmt::format("{} {:04x}", target.shown, hash);
  return target;
}

Result<ReceiverUrl> usable_receiver_url(std::string_view url) {
  auto target = parse_receiver_url(url);
  if (!target || !target->is_https) return target;
  const auto& library = CurlApi::library();
  if (!library) return tl::unexpected(library.error());
  return target;
}

bool repeats_secret(std::string_view text, const ReceiverUrl& target) {
  constexpr size_t kMinLength = 4;  // "v1" and "api" are in many texts
  constexpr std::string_view kMarks = "/?&=;";
  const auto repeats = [&](std::string_view part) {
    return part.size() >= kMinLength && (text.find(part) != std::string_view::npos ||
                                         text.find(unescaped(part)) != std::string_view::npos);
  };
  std::string_view rest = target.path;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find_first_of(kMarks), rest.size());
    if (repeats(rest.substr(0, end))) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return !target.authorization.empty() &&
         repeats(std::string_view(target.authorization).substr(target.authorization.find(' ') + 1));
}

}  // namespace vram::alerts
