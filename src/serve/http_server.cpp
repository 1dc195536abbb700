#include "serve/http_server.hpp"

#include "base/result.hpp"
#include "serve/connection.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <exception>
#include <string>
#include <thread>
#include <utility>

namespace vram::serve {
namespace {

namespace asio = boost::asio;
using Tcp = asio::ip::tcp;
using ErrorCode = boost::system::error_code;

constexpr std::chrono::milliseconds kPause{100};

tl::unexpected<Error> cannot_listen(const Address& address, const ErrorCode& error) {
  const std::string other = Address{.ip = address.ip}.text();
  if (error == asio::error::address_in_use)
    return fail(Code::kIo,
                "{} is taken by another program, perhaps by another vram serve: end that one, or "
                "choose another port with --listen (port 0, as in {}, takes any that is free)",
                address.text(), other);
  if (error == asio::error::access_denied)
    return fail(Code::kIo,
                "{}: ports below 1024 are root's: choose another with --listen, or put a proxy in "
                "front",
                address.text());
  return fail(Code::kIo, "cannot listen on {}: {}; --listen takes addresses of this machine",
              address.text(), error.message());
}

// An address at which clients come in.
struct Listener {
  explicit Listener(asio::io_context& context) : acceptor(context), pause(context) {}
  Tcp::acceptor acceptor;
  asio::steady_timer pause;
};

}  // namespace

struct HttpServer::State {
  explicit State(ServerLimits limits) { hub.limits = limits; }

  Result<> listen(const Address& address);
  void accept(Listener& listener);
  void accepted(Listener& listener, ErrorCode error, Tcp::socket socket);
  void start_session(Tcp::socket socket);

  Hub hub;
  std::vector<Listener> listeners;
  std::vector<Address> addresses;
  asio::executor_work_guard<asio::io_context::executor_type> work{hub.context.get_executor()};
  std::thread thread;
};

Result<> HttpServer::State::listen(const Address& address) {
  ErrorCode error;
  const Tcp::endpoint endpoint(asio::ip::make_address(address.ip, error), address.port);
  Listener listener(hub.context);
  Tcp::acceptor& acceptor = listener.acceptor;
  if (!error) acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(Tcp::acceptor::reuse_address(true), error);
  if (!error && endpoint.address().is_v6())
    acceptor.set_option(asio::ip::v6_only(true), error);  // IPv4 has an address of its own
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(Tcp::acceptor::max_listen_connections, error);
  const bool is_missing = error == asio::error::address_family_not_supported ||
                          error == boost::system::errc::address_not_available;
  if (is_missing && address.may_be_missing) return {};
  if (error) return cannot_listen(address, error);
  const auto bound = acceptor.local_endpoint(error);
  addresses.push_back({.ip = address.ip, .port = error ? address.port : bound.port()});
  listeners.push_back(std::move(listener));
  return {};
}

void HttpServer::State::accept(Listener& listener) {
  listener.acceptor.async_accept([this, &listener](ErrorCode error, Tcp::socket socket) {
    accepted(listener, error, std::move(socket));
  });
}

void HttpServer::State::accepted(Listener& listener, ErrorCode error, Tcp::socket socket) {
  if (error == asio::error::operation_aborted) return;
  if (!error) start_session(std::move(socket));
  if (!error || error == asio::error::connection_aborted) return accept(listener);
  // Out of descriptors or memory: that passes.
  hub.hooks.incident("", "cannot take connections: " + error.message());
  (void)hub.make_room();
  listener.pause.expires_after(kPause);
  listener.pause.async_wait([this, &listener](ErrorCode ended) {
    if (!ended) accept(listener);
  });
}

void HttpServer::State::start_session(Tcp::socket socket) {
  const size_t limit = hub.limits.connections;
  // Beyond it some are answered 503; what comes on top is closed unheard.
  const size_t max_refusals = limit / 8 + 1;
  if (hub.open_count >= limit + max_refusals) return;
  const bool has_room = hub.open_count < limit || hub.make_room();
  try {  // no memory, also of OpenSSL's
    const auto connection = std::make_shared<Connection>(std::move(socket), hub);
    has_room ? connection->start() : connection->refuse();
  } catch (const std::exception& exception) {
    hub.hooks.incident("", std::string("cannot take a connection: ") + exception.what());
  }
}

Result<std::unique_ptr<HttpServer>> HttpServer::open(std::span<const Address> addresses,
                                                     ServerLimits limits) {
  auto state = std::make_unique<State>(limits);
  for (const Address& address : addresses) {
    VRAM_TRY(state->listen(address));
  }
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
}

HttpServer::HttpServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

void HttpServer::start(ServerHooks hooks) {
  state_->hub.hooks = std::move(hooks);
  state_->hub.slow.emplace(1);
  state_->hub.packer.emplace(1);
  state_->hub.gate.emplace(1);
  for (Listener& listener : state_->listeners) state_->accept(listener);
  state_->thread = std::thread([this] { state_->hub.context.run(); });
}

HttpServer::~HttpServer() {
  Hub& hub = state_->hub;
  hub.context.stop();
  if (state_->thread.joinable()) state_->thread.join();
  for (auto* const pool : {&hub.slow, &hub.packer, &hub.gate}) {
    if (!*pool) continue;
    (*pool)->stop();  // no client waits for what was not begun
    (*pool)->join();
  }
}

const std::vector<Address>& HttpServer::addresses() const { return state_->addresses; }

void HttpServer::post(std::function<void()> work) {
  asio::post(state_->hub.context, std::move(work));
}

}  // namespace vram::serve
