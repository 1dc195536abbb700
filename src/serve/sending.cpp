// How a Connection writes: bodies that are there, and streams that are made meanwhile. What clients
// have yet to read is bounded over all connections: slow readers make room.
#include "base/result.hpp"
#include "serve/connection.hpp"
#include "serve/http.hpp"

#include <fmt/format.h>

#include <array>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <exception>
#include <utility>

namespace vram::serve {
namespace {

namespace asio = boost::asio;

constexpr size_t kMaxDrainedBytes = 1 << 20;
constexpr std::chrono::milliseconds kDrainTime{1000};
// Up to here a body is packed on the server's thread, in about a millisecond.
constexpr size_t kQuicklyPackedBytes = size_t{64} << 10;
// Bodies up to here are sent in any case: refusals are such.
constexpr size_t kAlwaysSentBytes = 1024;

}  // namespace

void Connection::hold(size_t bytes) {
  hub_.held_bytes += bytes - held_bytes_;
  held_bytes_ = bytes;
}

// The body itself stays until was_written(): a write that is being broken off may look at it.
void Connection::release() {
  hold(0);
  if (std::exchange(is_sending_, false)) {
    const auto sent = hub_.bodies.find(body_.get());
    if (--sent->second.connections == 0) {
      hub_.held_bytes -= sent->second.bytes;
      hub_.bodies.erase(sent);
    }
  }
  if (std::exchange(is_slow_, false)) --hub_.slow_count;
}

// One answer alone may be as large as it is.
bool Connection::make_room_for(size_t bytes) {
  const auto holds_some = [](const Connection& other) {
    return other.held_bytes_ > 0 || other.is_sending_;
  };
  while (hub_.held_bytes > 0 && hub_.held_bytes + bytes > hub_.limits.held_bytes) {
    if (!hub_.make_room(holds_some)) return false;
  }
  return true;
}

bool Connection::take_body(std::shared_ptr<const Body> body) {
  const size_t size = body->size_bytes();
  // A body that others are being sent, too, takes no more memory.
  const bool has_room =
      size <= kAlwaysSentBytes || hub_.bodies.contains(body.get()) || make_room_for(size);
  if (!has_room) return false;
  body_ = std::move(body);
  is_sending_ = true;
  ++hub_.bodies[body_.get()].connections;
  count_body();
  return true;
}

// Packing makes it larger.
void Connection::count_body() {
  Hub::Sent& sent = hub_.bodies[body_.get()];
  const size_t size = body_->size_bytes();
  hub_.held_bytes += size - std::exchange(sent.bytes, size);
}

void Connection::write(Response response) {
  end_waiting();
  if (response.stream) return begin_stream(response);
  VRAM_CHECK(response.body != nullptr);
  const bool is_crowded = hub_.held_bytes > hub_.limits.held_bytes / 2;
  if (!take_body(response.body)) return refuse_for_want_of_room();
  const bool takes_long = wants_gzip_ && !response.body->is_packed() &&
                          response.body->text().size() > kQuicklyPackedBytes;
  if (!takes_long) return send(response);
  if (is_crowded) {  // what waits to be packed can't make room, what is sent as it is can
    wants_gzip_ = false;
    return send(response);
  }
  deadline_.cancel();
  asio::post(*hub_.packer, [self = shared_from_this(), response = std::move(response)]() mutable {
    (void)response.body->gzipped();
    Hub& hub = self->hub_;
    asio::post(hub.context,
               [self = std::move(self), response = std::move(response)] { self->send(response); });
  });
}

// Of a body that is taken already.
void Connection::send(const Response& response) {
  const bool is_packed = wants_gzip_ && !body_->gzipped().empty();
  count_body();
  const std::string& bytes = is_packed ? body_->gzipped() : body_->text();
  head_ = response_head(
      response, {.body_bytes = bytes.size(), .is_gzip = is_packed, .keeps_alive = keeps_alive_});
  const std::array<asio::const_buffer, 2> parts = {
      asio::buffer(head_), is_head_ ? asio::const_buffer() : asio::buffer(bytes)};
  begin_waiting();
  expect_within(hub_.limits.write);
  asio::async_write(channel_, parts, [self = shared_from_this()](ErrorCode error, size_t) {
    self->was_written(error);
  });
}

void Connection::refuse_for_want_of_room() {
  hub_.hooks.incident(client_, tr_later("others have yet to read too much: answered 503"));
  write(error_response(503, "too much is waiting to be read by others; try again"));
}

void Connection::begin_stream(const Response& response) {
  const size_t held_bytes = response.stream->held_bytes();
  if (!make_room_for(held_bytes)) return refuse_for_want_of_room();
  hold(held_bytes);
  if (!is_http11_) keeps_alive_ = false;
  flow_ = std::make_shared<Flow>(
      Flow{.stream = response.stream, .is_chunked = is_http11_, .is_packed = wants_gzip_});
  head_ = response_head(response, {.body_bytes = std::nullopt,
                                   .is_chunked = is_http11_,
                                   .is_gzip = wants_gzip_,
                                   .keeps_alive = keeps_alive_});
  if (is_head_) return send_piece({.text = "", .held_bytes = 0, .is_last = true});
  request_piece();
}

// On the second thread.
Connection::Piece Connection::piece_of(Flow& flow, Deflater& deflater) {
  Piece piece;
  try {  // no memory
    const auto text = flow.stream->next();
    if (!text) return {.text = "", .trouble = text.error().message};
    piece.is_last = text->empty();
    const std::string packed =
        flow.is_packed ? flow.gzip.pack(*text, piece.is_last, deflater) : *text;
    piece.text = flow.is_chunked && !packed.empty()
                     ? fmt::format("{:x}\r\n{}\r\n", packed.size(), packed)
                     : packed;
    if (piece.is_last && flow.is_chunked) piece.text += "0\r\n\r\n";
    piece.held_bytes = flow.stream->held_bytes();
  } catch (const std::exception& exception) {
    return {.text = "", .trouble = exception.what()};
  }
  return piece;
}

void Connection::request_piece() {
  deadline_.cancel();
  asio::post(*hub_.slow, [self = shared_from_this(), flow = flow_]() mutable {
    Hub& hub = self->hub_;
    Piece piece = piece_of(*flow, hub.deflater);
    asio::post(hub.context,
               [self = std::move(self), piece = std::move(piece)] { self->send_piece(piece); });
  });
}

void Connection::send_piece(const Piece& piece) {
  if (!piece.trouble.empty()) {
    hub_.hooks.incident(client_, "its answer is not complete: " + piece.trouble);
    if (flow_->has_begun) return close();
    flow_.reset();
    hold(0);
    return write(error_response(503, piece.trouble + "; try again"));
  }
  const size_t bytes = piece.held_bytes + piece.text.size();
  hold(0);                     // makes room for what follows
  (void)make_room_for(bytes);  // if none does, an answer that has begun continues all the same
  hold(bytes);
  flow_->has_begun = true;
  head_ += piece.text;
  begin_waiting();
  expect_within(hub_.limits.write);
  asio::async_write(channel_, asio::buffer(head_),
                    [self = shared_from_this(), is_last = piece.is_last](ErrorCode error, size_t) {
                      const bool goes_on = !error && !is_last && self->channel_.socket().is_open();
                      if (!goes_on) return self->was_written(error);
                      self->end_waiting();
                      self->head_.clear();
                      self->request_piece();
                    });
}

void Connection::was_written(ErrorCode error) {
  release();
  body_.reset();
  flow_.reset();
  if (error) {
    if (is_late_) hub_.hooks.incident(client_, tr_later("does not read its answer: closed"));
    return close();
  }
  if (!channel_.socket().is_open()) return;  // it made room when all was written
  if (keeps_alive_) return wait_for_request();
  channel_.shut_down();
  forget_request();
  expect_within(kDrainTime);
  drain();
}

// Closing with bytes unread would make the kernel take the answer back.
void Connection::drain() {
  head_.resize(4096);
  channel_.socket().async_read_some(asio::buffer(head_),
                                    [self = shared_from_this()](ErrorCode error, size_t count) {
                                      self->drained_bytes_ += count;
                                      if (error || self->drained_bytes_ > kMaxDrainedBytes)
                                        return self->close();
                                      self->drain();
                                    });
}

}  // namespace vram::serve
