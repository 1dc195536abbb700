#include "serve/connection.hpp"

#include "serve/http.hpp"
#include "serve/request_parser.hpp"
#include "serve/target.hpp"

#include <boost/asio/post.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/read.hpp>
#include <exception>
#include <utility>

namespace vram::serve {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Socket = asio::ip::tcp::socket;

constexpr size_t kMaxTargetLength = 4096;
constexpr std::chrono::milliseconds kCancelAgain{10};
// Else the kernel would take MiB for each client that does not read.
constexpr int kSendBufferBytes = 128 << 10;

Method method_of(http::verb verb) {
  if (verb == http::verb::get) return Method::kGet;
  if (verb == http::verb::post) return Method::kPost;
  return verb == http::verb::head ? Method::kHead : Method::kOther;
}

}  // namespace

struct Connection::Exchange {
  explicit Exchange(const ServerLimits& limits) : buffer(limits.header_bytes) {}

  boost::beast::flat_buffer buffer;  // what the client sent ahead stays in it
  std::optional<RequestParser> parser;
};

bool Hub::make_room(const std::function<bool(const Connection&)>& would_help) {
  const auto now = Connection::Clock::now();
  for (Connection* const each : waiting) {
    if (now - each->waiting_since_ < limits.timeout) return false;  // nor have those behind it
    if (!would_help(*each)) continue;
    hooks.incident(each->client_, tr_later("kept the server waiting while others came: closed"));
    each->close();
    return true;
  }
  return false;
}

void Hub::start_handshakes() {
  while (handshakes < limits.handshakes && !handshake_queue.empty()) {
    takes_newest = !takes_newest;
    (takes_newest ? handshake_queue.back() : handshake_queue.front())->start_handshake();
  }
  if (handshake_queue.empty()) return;
  end_silent_handshakes();
  handshake_timer.expires_after(limits.handshake_silence / 4);
  handshake_timer.async_wait([this](boost::system::error_code error) {
    if (!error) start_handshakes();
  });
}

void Hub::end_silent_handshakes() {
  const auto now = Connection::Clock::now();
  size_t wanted = handshake_queue.size();
  for (auto next = waiting.begin(); next != waiting.end() && wanted > 0;) {
    Connection& each = **next++;
    if (now - each.waiting_since_ < limits.handshake_silence) break;  // nor have those behind it
    if (!each.is_silent_in_handshake()) continue;
    hooks.incident(each.client_,
                   tr_later("was silent in a TLS handshake while others came: closed"));
    each.close();
    --wanted;
  }
}

Connection::Connection(Socket socket, Hub& hub)
    : channel_(std::move(socket), hub.hooks.tls()), hub_(hub), deadline_(hub.context) {
  ++hub_.open_count;
  ErrorCode error;
  const auto peer = channel_.socket().remote_endpoint(error);
  if (!error) client_ = Address{.ip = peer.address().to_string(), .port = peer.port()}.text();
  const auto local = channel_.socket().local_endpoint(error);
  if (!error) is_local_ = is_loopback(local.address().to_string());
  channel_.socket().set_option(asio::ip::tcp::no_delay(true), error);
  channel_.socket().set_option(asio::socket_base::send_buffer_size(kSendBufferBytes), error);
}

Connection::~Connection() {
  end_waiting();
  leave_handshake_queue();
  release();
  --hub_.open_count;
}

void Connection::start() {
  if (!channel_.is_tls()) return wait_for_request();
  begin_waiting();
  expect_within(hub_.limits.read);
  channel_.socket().async_wait(Socket::wait_read, [self = shared_from_this()](ErrorCode error) {
    if (error) return self->close();
    self->request_handshake();
  });
}

// A handshake takes up to 150 KiB: OpenSSL allocates at once what a client says that its greeting
// has.
void Connection::request_handshake() {
  handshake_place_ = hub_.handshake_queue.insert(hub_.handshake_queue.end(), this);
  hub_.start_handshakes();
  if (!handshake_place_) return;
  // Waits at most for the deadline that start() set.
  channel_.socket().async_wait(Socket::wait_error, [self = shared_from_this()](ErrorCode) {
    if (self->handshake_place_) self->close();
  });
}

void Connection::start_handshake() {
  leave_handshake_queue();
  begin_waiting();  // again: since now, behind the handshakes that began earlier
  ErrorCode ignored;
  channel_.socket().cancel(ignored);
  is_in_handshake_ = true;
  ++hub_.handshakes;
  try {  // no memory
    channel_.async_handshake([self = shared_from_this()](ErrorCode error, size_t) {
      if (error) {
        const std::string why = self->channel_.trouble();
        if (!why.empty()) self->hub_.hooks.incident(self->client_, "TLS: " + why);
        self->close();
        self->channel_.end_session();
      } else {
        self->wait_for_request();
      }
      self->end_handshake();
    });
  } catch (const std::exception& exception) {
    hub_.hooks.incident(client_, std::string("TLS: ") + exception.what());
    close();
    end_handshake();
  }
}

void Connection::end_handshake() {
  is_in_handshake_ = false;
  --hub_.handshakes;
  hub_.start_handshakes();
}

void Connection::leave_handshake_queue() {
  if (handshake_place_) hub_.handshake_queue.erase(*std::exchange(handshake_place_, std::nullopt));
}

// Bytes that have arrived and wait for this thread are no silence of the client.
bool Connection::is_silent_in_handshake() {
  ErrorCode error;
  return is_in_handshake_ && channel_.socket().available(error) == 0;
}

void Connection::refuse() {
  hub_.hooks.incident(client_, tr_later("too many connections: answered 503"));
  if (channel_.is_tls()) return close();  // a handshake would cost what there is not
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
  wait_for_deadline();
}

void Connection::wait_for_deadline() {
  deadline_.async_wait([weak = weak_from_this()](ErrorCode error) {
    const auto self = weak.lock();
    // A timer that was set again is not over, though its last end may still be on its way.
    if (error || !self || self->deadline_.expiry() > Clock::now()) return;
    self->is_late_ = true;
    ErrorCode ignored;
    self->channel_.socket().cancel(ignored);
    // What has been done and waits to be handled is not cancelled, and may be followed by another
    // read or write: that one is cancelled the next time.
    self->deadline_.expires_after(kCancelAgain);
    self->wait_for_deadline();
  });
}

void Connection::close() {
  end_waiting();
  release();
  deadline_.cancel();
  ErrorCode ignored;
  channel_.socket().close(ignored);
  leave_handshake_queue();
}

void Connection::forget_request() { exchange_.reset(); }

void Connection::wait_for_request() {
  begin_waiting();
  const bool has_some = (exchange_ && exchange_->buffer.size() > 0) || channel_.has_input();
  if (has_some) return read_header();
  forget_request();  // an idle connection has no buffers
  expect_within(hub_.limits.idle);
  channel_.socket().async_wait(Socket::wait_read, [self = shared_from_this()](ErrorCode error) {
    if (error) return self->close();
    self->read_header();
  });
}

void Connection::read_header() {
  if (!exchange_) exchange_ = std::make_unique<Exchange>(hub_.limits);
  exchange_->parser.emplace(hub_.limits);
  is_head_ = false;  // the one before may have been a HEAD
  expect_within(hub_.limits.read);
  http::async_read_header(
      channel_, exchange_->buffer, *exchange_->parser,
      [self = shared_from_this()](ErrorCode error, size_t) { self->header_was_read(error); });
}

void Connection::header_was_read(ErrorCode error) {
  if (error) return reading_failed(error);
  is_head_ = exchange_->parser->method() == http::verb::head;
  if (!exchange_->parser->is_encoding_understood()) {
    hub_.hooks.incident(client_, tr_later("sends a body in an unknown transfer encoding"));
    keeps_alive_ = false;
    return write(
        error_response(400, "Transfer-Encoding: expected 'chunked', once and in HTTP/1.1"));
  }
  const bool is_unknown = method_of(exchange_->parser->method()) == Method::kOther;
  if (exchange_->parser->is_done()) return request_was_read({});
  if (is_unknown) {  // refused whatever its body is
    keeps_alive_ = false;
    return answer();
  }
  http::async_read(
      channel_, exchange_->buffer, *exchange_->parser,
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
  const bool has_target = !exchange_->parser->target().empty();
  if (error == http::error::header_limit || error == http::error::buffer_overflow)
    return has_target ? refuse_with(431, "the headers are larger than 8 KiB")
                      : refuse_with(414, "the request's target is longer than 4 KiB");
  if (error == http::error::body_limit)
    return refuse_with(413, "expected a body of at most 4 KiB for a POST, and none otherwise");
  if (error == http::error::bad_version)
    return refuse_with(505, "HTTP/1.1 and HTTP/1.0 are understood");
  refuse_with(400, fmt::format("this is no request of HTTP/1.1: {}", error.message()));
}

void Connection::answer() {
  end_waiting();
  RequestParser& parser = *exchange_->parser;
  const RequestParser::Headers& headers = parser.headers();
  is_http11_ = parser.is_http11();
  const auto refuse_with = [this](int status, std::string_view why) {
    keeps_alive_ = false;
    write(error_response(status, why));
  };
  if (parser.method() == http::verb::unknown)
    return refuse_with(501, "the method is unknown; GET, HEAD and POST are answered");
  if (parser.target().size() > kMaxTargetLength)
    return refuse_with(414, "the request's target is longer than 4 KiB");
  auto target = parse_target(parser.target());
  if (!target) return refuse_with(400, target.error().message);
  if (headers.hosts > 1 || (headers.hosts == 0 && is_http11_))
    return refuse_with(400, "expected one header 'Host'");
  Request request{.method = method_of(parser.method()),
                  .path = std::move(target->path),
                  .query = std::move(target->query),
                  .host = target->host.empty() ? headers.host : target->host,
                  .accept = headers.accept,
                  .accept_encoding = headers.accept_encoding,
                  .authorization = headers.authorization,
                  .content_type = headers.content_type,
                  .origin = headers.origin,
                  .fetch_site = headers.fetch_site,
                  .body = parser.take_body(),
                  .client = client_,
                  .is_local = is_local_};
  wants_gzip_ = accepts_gzip(request.accept_encoding);
  // A client that does not read the answer takes no memory for the request.
  exchange_->parser.reset();
  if (exchange_->buffer.size() == 0) forget_request();
  if (hub_.hooks.needs_password_check(request)) return check_password(std::move(request));
  answer_request(std::move(request));
}

void Connection::answer_request(Request request) {
  if (hub_.hooks.is_slow(request)) return answer_slowly(std::move(request));
  write(handled(request));
}

void Connection::check_password(Request request) {
  if (hub_.password_checks == hub_.limits.password_checks)
    return write(error_response(503, "too many passwords to check at once; try again"));
  ++hub_.password_checks;
  deadline_.cancel();
  asio::post(*hub_.gate, [self = shared_from_this(), request = std::move(request)]() mutable {
    Hub& hub = self->hub_;
    request.password_is_right = hub.hooks.check_password(request);
    asio::post(hub.context, [self = std::move(self), request = std::move(request)]() mutable {
      --self->hub_.password_checks;
      self->answer_request(std::move(request));
    });
  });
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
  const bool has_room = hub_.slow_count < hub_.limits.slow_requests ||
                        hub_.make_room([](const Connection& other) { return other.is_slow_; });
  if (!has_room) return write(error_response(503, "too many slow requests at once; try again"));
  ++hub_.slow_count;
  is_slow_ = true;
  deadline_.cancel();
  asio::post(*hub_.slow, [self = shared_from_this(), request = std::move(request)]() mutable {
    Response response = self->handled(request);
    Hub& hub = self->hub_;
    asio::post(hub.context, [self = std::move(self), response = std::move(response)]() mutable {
      self->write(std::move(response));
    });
  });
}

}  // namespace vram::serve
