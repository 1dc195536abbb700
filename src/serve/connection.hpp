// One client's connection: requests one after the other, each with its time limits. Part of
// http_server, included by nothing else. The server's thread alone.
//
//     wait (idle) ─▶ read ─▶ answer ─▶ write ─┬─▶ wait
//                     └── error ─▶ write ─────┴─▶ drain, close
#pragma once

#include "serve/http_server.hpp"

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <list>
#include <memory>
#include <optional>
#include <string>

namespace vram::serve {

class Connection;

// What the connections of a server share.
struct Hub {
  ServerHooks hooks;
  ServerLimits limits;
  size_t open_count = 0;
  size_t slow_count = 0;
  // Connections that keep the server waiting, since when the front one longest.
  std::list<Connection*> waiting = {};
  // The last to be made and the first to go: connections lie in what they have yet to do.
  boost::asio::io_context context{1};
  std::optional<boost::asio::thread_pool> slow;  // from start() on: with the rights of its caller

  // Makes room for one by closing the one that has kept the server waiting longest, if it has for
  // as long as patience lasts.
  [[nodiscard]] bool make_room();
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(boost::asio::ip::tcp::socket socket, Hub& hub);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  void start();
  // Says 503 and ends.
  void refuse();

 private:
  friend struct Hub;
  using Clock = std::chrono::steady_clock;
  using ErrorCode = boost::system::error_code;
  struct Exchange;  // a request while it is read, with the parser

  void wait_for_request();
  void read_header();
  void header_was_read(ErrorCode error);
  void request_was_read(ErrorCode error);
  void reading_failed(ErrorCode error);
  void answer();
  void answer_slowly(Request request);
  [[nodiscard]] Response handled(const Request& request) const;
  void write(Response response);
  void was_written(ErrorCode error);
  void drain();
  void close();

  // From now until the next of these calls: when the time is over, what goes on is cancelled.
  void expect_within(std::chrono::milliseconds time);
  void begin_waiting();
  void end_waiting();

  boost::asio::ip::tcp::socket socket_;
  Hub& hub_;
  boost::asio::steady_timer deadline_;
  bool is_late_ = false;
  std::unique_ptr<Exchange> exchange_;
  std::string client_;
  bool came_locally_ = true;
  bool is_head_ = false;
  bool wants_gzip_ = false;
  bool keeps_alive_ = true;
  std::string head_;  // of the response that is being written
  std::shared_ptr<const Body> body_;
  std::optional<std::list<Connection*>::iterator> place_;  // in the hub's list
  Clock::time_point waiting_since_;
  size_t drained_bytes_ = 0;
};

}  // namespace vram::serve
