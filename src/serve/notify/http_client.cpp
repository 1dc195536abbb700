#include "serve/notify/http_client.hpp"

#include "base/text.hpp"
#include "serve/notify/https_client.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <cstddef>
#include <cstdint>
#include <exception>

namespace vram::serve::notify {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;

constexpr size_t kMaxBodyBytes = size_t{64} << 10;  // of an answer; nobody reads more
constexpr uint32_t kMaxHeaderBytes = 16 << 10;
constexpr auto kSlice = std::chrono::milliseconds(50);  // how late a wish to end is heard

// One exchange, from the host's name to its answer; each step begins the next.
class PlainExchange {
 public:
  PlainExchange(const Target& target, std::string_view body) : target_(target) {
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
      if (must_end) return error("ended before that");
      if (std::chrono::steady_clock::now() >= deadline)
        return error(fmt::format("no answer within {} ms", at_most.count()));
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
      go_on(error, "connect", [&] { connect(found); });
    });
  }
  void connect(const tcp::resolver::results_type& found) {
    stream_.async_connect(
        found, [this](auto error, const auto&) { go_on(error, "send", [&] { write(); }); });
  }
  void write() {
    http::async_write(stream_, request_, [this](auto error, size_t) {
      go_on(error, "read the answer", [&] { read(); });
    });
  }
  void read() {
    http::async_read(stream_, buffer_, parser_, [this](auto error, size_t) {
      error_ = error;
      is_over_ = true;
    });
  }

  tl::unexpected<Error> error(std::string_view why) const {
    return fail(Code::kIo, "{}: tried to {}: {}", target_.shown, step_, why);
  }
  // One that is longer than we read is an answer all the same.
  Result<Answer> answer() const {
    if (error_ == http::error::end_of_stream)
      return error("the connection was closed without an answer");
    if (error_ && error_ != http::error::need_buffer) return error(printable(error_.message()));
    const size_t size = body_.size() - parser_.get().body().size;
    return Answer{parser_.get().result_int(), body_.substr(0, size)};
  }

  const Target& target_;
  asio::io_context context_{1};
  tcp::resolver resolver_{context_};
  beast::tcp_stream stream_{context_};
  http::request<http::string_body> request_;
  beast::flat_buffer buffer_{2 * size_t{kMaxHeaderBytes}};
  http::response_parser<http::buffer_body> parser_;
  std::string body_ = std::string(kMaxBodyBytes, '\0');
  std::string_view step_ = "find the host";
  boost::system::error_code error_;
  bool is_over_ = false;
};

}  // namespace

Result<Answer> post_json(const Target& target, std::string_view body,
                         std::chrono::milliseconds at_most, const std::atomic<bool>& must_end) {
  if (target.is_https) return post_by_curl(target, body, at_most, must_end);
  try {
    return PlainExchange(target, body).run(at_most, must_end);
  } catch (const std::exception& error) {  // Asio's, where the system has no descriptors left
    return fail(Code::kIo, "{}: {}", target.shown, printable(error.what()));
  }
}

}  // namespace vram::serve::notify
