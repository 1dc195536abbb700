#include "serve/connection.hpp"

#include "base/check.hpp"
#include "serve/errors.hpp"
#include "serve/response_head.hpp"
#include "serve/target.hpp"

#include <array>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <exception>
#include <utility>

namespace vram::serve {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Socket = asio::ip::tcp::socket;

constexpr size_t kLongestTarget = 4096;
constexpr size_t kMostDrainedBytes = 1 << 20;
constexpr std::chrono::milliseconds kDrainTime{1000};

std::string view_of(boost::beast::string_view text) { return {text.data(), text.size()}; }

Method method_of(http::verb verb) {
  if (verb == http::verb::get) return Method::kGet;
  return verb == http::verb::head ? Method::kHead : Method::kOther;
}

}  // namespace

struct Connection::Exchange {
  explicit Exchange(const ServerLimits& limits) : buffer(size_t{2} * limits.header_bytes) {}

  void begin(const ServerLimits& limits) {
    parser.emplace();
    parser->header_limit(limits.header_bytes);
    parser->body_limit(limits.body_bytes);
  }

  boost::beast::flat_buffer buffer;  // what the client sent ahead stays in it
  std::optional<http::request_parser<http::string_body>> parser;
};

bool Hub::make_room() {
  if (waiting.empty()) return false;
  Connection& longest = *waiting.front();
  if (Connection::Clock::now() - longest.waiting_since_ < limits.patience) return false;
  hooks.incident(longest.client_, "kept the server waiting while others came: closed");
  longest.close();
  return true;
}

Connection::Connection(Socket socket, Hub& hub)
    : socket_(std::move(socket)), hub_(hub), deadline_(hub.context) {
  ++hub_.open_count;
  ErrorCode error;
  const auto peer = socket_.remote_endpoint(error);
  if (!error) client_ = Address{.ip = peer.address().to_string(), .port = peer.port()}.text();
  const auto local = socket_.local_endpoint(error);
  if (!error) came_locally_ = is_loopback(local.address().to_string());
  socket_.set_option(asio::ip::tcp::no_delay(true), error);
}

Connection::~Connection() {
  end_waiting();
  --hub_.open_count;
}

void Connection::start() { wait_for_request(); }

void Connection::refuse() {
  hub_.hooks.incident(client_, "too many connections: answered 503");
  keeps_alive_ = false;
  write(error_response(503, "too many connections at once; try again"));
}

void Connection::begin_waiting() {
  end_waiting();
  waiting_since_ = Clock::now();
  place_ = hub_.waiting.insert(hub_.waiting.end(), this);
}

void Connection::end_waiting() {
  if (place_) hub_.waiting.erase(*std::exchange(place_, std::nullopt));
}

void Connection::expect_within(std::chrono::milliseconds time) {
  is_late_ = false;
  deadline_.expires_after(time);
  deadline_.async_wait([weak = weak_from_this()](ErrorCode error) {
    const auto self = weak.lock();
    // A timer that was set anew is not over, though its last end may still be on its way.
    if (error || !self || self->deadline_.expiry() > Clock::now()) return;
    self->is_late_ = true;
    ErrorCode ignored;
    self->socket_.cancel(ignored);
  });
}

void Connection::close() {
  end_waiting();
  deadline_.cancel();
  ErrorCode ignored;
  socket_.close(ignored);
}

void Connection::wait_for_request() {
  begin_waiting();
  const bool has_some = exchange_ && exchange_->buffer.size() > 0;
  if (has_some) return read_header();
  exchange_.reset();  // an idle connection has no buffers
  expect_within(hub_.limits.idle);
  socket_.async_wait(Socket::wait_read, [self = shared_from_this()](ErrorCode error) {
    if (error) return self->close();
    self->read_header();
  });
}

void Connection::read_header() {
  if (!exchange_) exchange_ = std::make_unique<Exchange>(hub_.limits);
  exchange_->begin(hub_.limits);
  expect_within(hub_.limits.read);
  http::async_read_header(
      socket_, exchange_->buffer, *exchange_->parser,
      [self = shared_from_this()](ErrorCode error, size_t) { self->header_was_read(error); });
}

void Connection::header_was_read(ErrorCode error) {
  if (error) return reading_failed(error);
  const bool changes = method_of(exchange_->parser->get().method()) == Method::kOther;
  if (exchange_->parser->is_done()) return request_was_read({});
  if (changes) {  // refused whatever its body is
    keeps_alive_ = false;
    return answer();
  }
  http::async_read(
      socket_, exchange_->buffer, *exchange_->parser,
      [self = shared_from_this()](ErrorCode ended, size_t) { self->request_was_read(ended); });
}

void Connection::request_was_read(ErrorCode error) {
  if (error) return reading_failed(error);
  keeps_alive_ = exchange_->parser->keep_alive();
  answer();
}

void Connection::reading_failed(ErrorCode error) {
  const auto refuse_with = [this](int status, std::string_view message) {
    hub_.hooks.incident(client_, message);
    keeps_alive_ = false;
    write(error_response(status, message));
  };
  if (is_late_) return refuse_with(408, "the request did not come to its end in time");
  if (error == http::error::end_of_stream ||
      error.category() != http::make_error_code(http::error::end_of_stream).category())
    return close();
  const bool has_target = !exchange_->parser->get().target().empty();
  if (error == http::error::header_limit || error == http::error::buffer_overflow)
    return has_target ? refuse_with(431, "the headers are larger than 8 KiB")
                      : refuse_with(414, "the request's target is longer than 4 KiB");
  if (error == http::error::body_limit)
    return refuse_with(413, "the body is larger than 64 KiB; requests here need none");
  if (error == http::error::bad_version)
    return refuse_with(505, "HTTP/1.1 and HTTP/1.0 are understood");
  refuse_with(400, fmt::format("this is no request of HTTP/1.1: {}", error.message()));
}

void Connection::answer() {
  end_waiting();
  const auto& message = exchange_->parser->get();
  is_head_ = message.method() == http::verb::head;
  const auto refuse_with = [this](int status, std::string_view why) {
    keeps_alive_ = false;
    write(error_response(status, why));
  };
  if (message.method() == http::verb::unknown)
    return refuse_with(501, "the method is unknown; GET and HEAD are answered");
  if (message.target().size() > kLongestTarget)
    return refuse_with(414, "the request's target is longer than 4 KiB");
  auto target = parse_target({message.target().data(), message.target().size()});
  if (!target) return refuse_with(400, target.error().message);
  const size_t hosts = message.count(http::field::host);
  if (hosts > 1 || (hosts == 0 && message.version() >= 11))
    return refuse_with(400, "expected one header 'Host'");
  Request request{.method = method_of(message.method()),
                  .path = std::move(target->path),
                  .query = std::move(target->query),
                  .host = target->host.empty() ? view_of(message[http::field::host]) : target->host,
                  .accept = view_of(message[http::field::accept]),
                  .accept_encoding = view_of(message[http::field::accept_encoding]),
                  .authorization = view_of(message[http::field::authorization]),
                  .client = client_,
                  .came_locally = came_locally_};
  wants_gzip_ = accepts_gzip(request.accept_encoding);
  if (hub_.hooks.is_slow(request)) return answer_slowly(std::move(request));
  write(handled(request));
}

Response Connection::handled(const Request& request) const {
  try {  // no memory, or JSON's
    return hub_.hooks.handle(request);
  } catch (const std::exception& exception) {
    hub_.hooks.incident(client_, exception.what());
    return error_response(500, "the answer could not be made; the server's log says why");
  }
}

void Connection::answer_slowly(Request request) {
  if (hub_.slow_count == hub_.limits.slow_requests)
    return write(error_response(503, "too many questions to the history at once; try again"));
  ++hub_.slow_count;
  deadline_.cancel();
  asio::post(*hub_.slow, [self = shared_from_this(), request = std::move(request)]() mutable {
    Response response = self->handled(request);
    Hub& hub = self->hub_;
    asio::post(hub.context, [self = std::move(self), response = std::move(response)]() mutable {
      --self->hub_.slow_count;
      self->write(std::move(response));
    });
  });
}

void Connection::write(Response response) {
  end_waiting();
  VRAM_CHECK(response.body != nullptr);
  const bool is_packed = wants_gzip_ && !response.body->gzipped().empty();
  const std::string& bytes = is_packed ? response.body->gzipped() : response.body->text();
  head_ = response_head(
      response, {.body_bytes = bytes.size(), .is_gzip = is_packed, .keeps_alive = keeps_alive_});
  body_ = std::move(response.body);
  const std::array<asio::const_buffer, 2> parts = {
      asio::buffer(head_), is_head_ ? asio::const_buffer() : asio::buffer(bytes)};
  expect_within(hub_.limits.write);
  asio::async_write(socket_, parts, [self = shared_from_this()](ErrorCode error, size_t) {
    self->was_written(error);
  });
}

void Connection::was_written(ErrorCode error) {
  body_.reset();
  if (error) {
    if (is_late_) hub_.hooks.incident(client_, "does not read its answer: closed");
    return close();
  }
  if (keeps_alive_) return wait_for_request();
  ErrorCode ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  exchange_.reset();
  expect_within(kDrainTime);
  drain();
}

// Closing with bytes unread would make the kernel take the answer back.
void Connection::drain() {
  head_.resize(4096);
  socket_.async_read_some(asio::buffer(head_),
                          [self = shared_from_this()](ErrorCode error, size_t count) {
                            self->drained_bytes_ += count;
                            if (error || self->drained_bytes_ > kMostDrainedBytes)
                              return self->close();
                            self->drain();
                          });
}

}  // namespace vram::serve
