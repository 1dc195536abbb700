// A client's connection as Beast and Asio read and write it, with TLS or without. Part of
// http_server, included by nothing else. One read or write at a time; the server's thread alone.
#pragma once

#include "serve/tls.hpp"

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/compose.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <memory>
#include <string>
#include <utility>

namespace vram::serve {

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

}  // namespace vram::serve
