// One client's connection: requests one after the other, each with its time limits. Part of
// http_server, included by nothing else. The server's thread alone.
//
//     wait (idle) ─▶ read ─▶ answer ─▶ write ─┬─▶ wait
//                     └── error ─▶ write ─────┴─▶ drain, close
//
// A stream is written piece by piece, each made on the second thread when the client has taken the
// one before. connection.cpp reads, sending.cpp writes.
#pragma once

#include "serve/channel.hpp"
#include "serve/gzip_stream.hpp"
#include "serve/http_server.hpp"

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

namespace vram::serve {

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
  // Begins as many handshakes as there may be, the last to come first: a new client is not kept
  // out by many that came before and say nothing. As long as connections remain in the queue, ends
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
