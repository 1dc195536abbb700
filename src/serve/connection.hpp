// One client's connection: requests one after the other, each with its time limits. Part of
// http_server, included by nothing else. The server's thread alone.
//
//     wait (idle) ─▶ read ─▶ answer ─▶ write ─┬─▶ wait
//                     └── error ─▶ write ─────┴─▶ drain, close
//
// A stream is written piece by piece, each made on the second thread when the client has taken the
// one before. connection.cpp reads, sending.cpp writes.
#pragma once

#include "serve/body.hpp"
#include "serve/http_server.hpp"
#include "serve/tls.hpp"

#include <array>
#include <atomic>
#include <boost/asio/buffer.hpp>
#include <boost/asio/compose.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/write.hpp>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

namespace vram::serve {

// A client's connection as Beast and Asio read and write it, with TLS or without. Part of
// http_server, included by nothing else. One read or write at a time; the server's thread alone.
class Channel {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  using ErrorCode = boost::system::error_code;
  using executor_type = Socket::executor_type;

  // Without a context it is plain TCP.
  Channel(Socket socket, std::shared_ptr<const TlsContext> context)
      : socket_(std::move(socket)), context_(std::move(context)) {}

  executor_type get_executor() { return socket_.get_executor(); }
  [[nodiscard]] Socket& socket() { return socket_; }
  [[nodiscard]] bool is_tls() const { return context_ != nullptr; }
  // Whether a read needs nothing from the socket, or may not.
  [[nodiscard]] bool has_input() const { return tls_ && tls_->session.has_input(); }
  [[nodiscard]] std::string trouble() const { return tls_ ? tls_->session.trouble() : ""; }

  // Only with TLS, and before all else; until then the connection takes no memory for it. The
  // handler takes an error and a count without meaning. Throws std::bad_alloc.
  template <typename Handler>
  void async_handshake(Handler handler) {
    tls_ = std::make_unique<Tls>(context_);
    run([this] { return tls_->session.handshake(); }, handler);
  }

  // After a handshake that failed: frees its memory.
  void end_session() { tls_.reset(); }

  template <typename Buffers, typename Handler>
  void async_read_some(const Buffers& buffers, Handler handler) {
    if (!tls_) return socket_.async_read_some(buffers, std::move(handler));
    const boost::asio::mutable_buffer buffer = *boost::asio::buffer_sequence_begin(buffers);
    run(
        [this, buffer] {
          return tls_->session.read({static_cast<char*>(buffer.data()), buffer.size()},
                                    tls_->count);
        },
        handler);
  }

  template <typename Buffers, typename Handler>
  void async_write_some(const Buffers& buffers, Handler handler) {
    if (!tls_) return socket_.async_write_some(buffers, std::move(handler));
    boost::asio::const_buffer buffer;
    for (auto at = boost::asio::buffer_sequence_begin(buffers);
         buffer.size() == 0 && at != boost::asio::buffer_sequence_end(buffers); ++at)
      buffer = boost::asio::buffer(*at, kRecordBytes);
    run(
        [this, buffer] {
          tls_->count = buffer.size();
          return buffer.size() == 0 ? TlsStep::kDone
                                    : tls_->session.write(
                                          {static_cast<const char*>(buffer.data()), buffer.size()});
        },
        handler);
  }

  // Sends the end of the stream to the client, as far as the kernel accepts it without blocking.
  void shut_down() {
    ErrorCode ignored;
    if (tls_) {
      tls_->session.shut_down();
      const std::string farewell = tls_->session.take_output();
      socket_.non_blocking(true, ignored);
      (void)socket_.write_some(boost::asio::buffer(farewell), ignored);
    }
    socket_.shutdown(Socket::shutdown_send, ignored);
  }

 private:
  static constexpr size_t kRecordBytes = size_t{16} << 10;  // the largest of TLS
  static constexpr size_t kInputBytes = size_t{4} << 10;

  struct Tls {
    explicit Tls(const std::shared_ptr<const TlsContext>& context) : session(context) {}
    TlsSession session;
    size_t count = 0;  // bytes of the step that is done
    std::string output;
    std::array<char, kInputBytes> input{};
  };

  enum class Stage : uint8_t { kBegun, kWritten, kRead, kOver };

  // A step of the TLS session, with the socket operations that it needs: output is sent before the
  // step completes, or input is awaited.
  template <typename Step>
  struct Operation {
    Channel& channel;
    Step step;
    Stage stage = Stage::kBegun;
    TlsStep result = TlsStep::kNeedsInput;

    template <typename Self>
    void operator()(Self& self, ErrorCode error = {}, size_t count = 0) {
      Tls& tls = *channel.tls_;
      if (stage == Stage::kOver) return finish(self, error);
      if (stage == Stage::kRead && !error) tls.session.feed({tls.input.data(), count});
      if (error) return finish(self, error);
      const bool may_step = stage != Stage::kWritten;
      if (may_step) result = step();
      tls.output = tls.session.take_output();
      if (!tls.output.empty()) {
        stage = Stage::kWritten;
        return boost::asio::async_write(channel.socket_, boost::asio::buffer(tls.output),
                                        std::move(self));
      }
      if (result == TlsStep::kNeedsInput) {
        stage = Stage::kRead;
        return channel.socket_.async_read_some(boost::asio::buffer(tls.input), std::move(self));
      }
      if (stage != Stage::kBegun) return finish(self, {});
      // A handler must not be called from within the function that starts the operation.
      stage = Stage::kOver;
      boost::asio::post(channel.get_executor(), std::move(self));
    }

    template <typename Self>
    void finish(Self& self, ErrorCode error) {
      if (!error && result == TlsStep::kClosed) error = boost::asio::error::eof;
      if (!error && result == TlsStep::kFailed) error = boost::asio::error::connection_aborted;
      const size_t count = error ? 0 : channel.tls_->count;
      channel.tls_->output = std::string();
      self.complete(error, count);
    }
  };

  template <typename Step, typename Handler>
  void run(Step step, Handler& handler) {
    boost::asio::async_compose<Handler, void(ErrorCode, size_t)>(
        Operation<Step>{*this, std::move(step)}, handler, socket_);
  }

  Socket socket_;
  std::shared_ptr<const TlsContext> context_;
  std::unique_ptr<Tls> tls_;
};

class Connection;

// What the connections of a server share.
struct Hub {
  ServerHooks hooks;
  ServerLimits limits;
  size_t open_count = 0;
  size_t slow_count = 0;  // of slow answers that are not written to their end
  size_t password_checks = 0;
  size_t handshakes = 0;
  std::list<Connection*> handshake_queue = {};  // connections that wait for one, the newest last
  bool takes_newest = false;                    // of them, the last time
  // Memory that answers take until their clients have read them.
  size_t held_bytes = 0;
  struct Sent {
    size_t connections = 0;
    size_t bytes = 0;  // of held_bytes
  };
  std::unordered_map<const Body*, Sent> bodies = {};
  // Connections that keep the server waiting, since when the front one longest.
  std::list<Connection*> waiting = {};
  Deflater deflater = {};  // the second thread's
  // Created last and destroyed first: its pending operations own connections.
  boost::asio::io_context context{1};
  boost::asio::steady_timer handshake_timer{context};  // while handshake_queue has connections
  // All from start() on: with the rights of its caller.
  std::optional<boost::asio::thread_pool> slow;
  std::optional<boost::asio::thread_pool> packer;  // a history's file that hangs delays no scrape
  // For password checks, so that guesses do not delay clients that are authenticated already.
  std::optional<boost::asio::thread_pool> gate;

  // Closes the connection that has kept the server waiting longest among those that `would_help`,
  // if it has done so for `limits.timeout`.
  [[nodiscard]] bool make_room(const std::function<bool(const Connection&)>& would_help =
                                   [](const Connection&) { return true; });
  // Begins as many handshakes as there may be, in turn with the last and with the first to come: a
  // client is kept out neither by many that came before and say nothing, nor by many that come
  // after it again and again. As long as connections remain in the queue, ends
  // handshakes whose clients have been silent for `limits.handshake_silence`.
  void start_handshakes();
  // At most as many as there are connections in the queue. Each makes room for another handshake
  // when its memory is free (Connection::end_handshake()).
  void end_silent_handshakes();
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(boost::asio::ip::tcp::socket socket, Hub& hub);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  void start();
  // Responds with 503 and closes.
  void refuse();

 private:
  friend struct Hub;
  using Clock = std::chrono::steady_clock;
  using ErrorCode = boost::system::error_code;
  struct Exchange;  // a request while it is read, with the parser
  // A stream while it is sent.
  struct Flow {
    std::shared_ptr<Stream> stream;
    GzipStream gzip = {};
    bool is_chunked = true;  // HTTP/1.0 ends a body by closing the connection
    bool is_packed = false;
    bool has_begun = false;  // the client has a part of it
  };
  struct Piece {
    std::string text;  // as it goes over the wire
    size_t held_bytes = 0;
    bool is_last = false;
    std::string trouble = {};  // instead of a text
  };
  [[nodiscard]] static Piece piece_of(Flow& flow, Deflater& deflater);

  void request_handshake();
  void start_handshake();
  void end_handshake();
  void leave_handshake_queue();
  [[nodiscard]] bool is_silent_in_handshake();
  void wait_for_request();
  void forget_request();
  void read_header();
  void header_was_read(ErrorCode error);
  void request_was_read(ErrorCode error);
  void reading_failed(ErrorCode error);
  void answer();
  void answer_request(Request request);
  void check_password(Request request);
  void answer_slowly(Request request);
  [[nodiscard]] Response handled(const Request& request) const;
  void write(Response response);
  [[nodiscard]] bool make_room_for(size_t bytes);
  [[nodiscard]] bool take_body(std::shared_ptr<const Body> body);
  void count_body();
  void send(const Response& response);
  void refuse_for_want_of_room();
  void was_written(ErrorCode error);
  void begin_stream(const Response& response);
  void request_piece();
  void send_piece(const Piece& piece);
  void hold(size_t bytes);
  // Counts what it has been sending as sent.
  void release();
  void drain();
  void close();

  // Sets a deadline for the current operation, until the next call; it is cancelled when the time
  // is over.
  void expect_within(std::chrono::milliseconds time);
  void wait_for_deadline();
  void begin_waiting();
  void end_waiting();

  Channel channel_;
  Hub& hub_;
  boost::asio::steady_timer deadline_;
  bool is_late_ = false;
  std::unique_ptr<Exchange> exchange_;
  std::string client_;
  bool is_local_ = true;
  bool is_head_ = false;
  bool wants_gzip_ = false;
  bool keeps_alive_ = true;
  bool is_http11_ = true;
  bool is_in_handshake_ = false;  // counts in the hub's handshakes; has the memory of a session
  bool is_slow_ = false;          // counts in the hub's slow_count
  bool is_sending_ = false;       // counts body_ in the hub's bodies
  // Of the response that is being written: its head, or a piece of a stream; the body's owner.
  std::string head_;
  std::shared_ptr<const Body> body_;
  std::shared_ptr<Flow> flow_;
  size_t held_bytes_ = 0;
  std::optional<std::list<Connection*>::iterator> place_;            // in the hub's `waiting`
  std::optional<std::list<Connection*>::iterator> handshake_place_;  // in its `handshake_queue`
  Clock::time_point waiting_since_;
  size_t drained_bytes_ = 0;
};

}  // namespace vram::serve
