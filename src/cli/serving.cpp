#include "cli/serving.hpp"

#include "base/bytes.hpp"
#include "cli/live.hpp"
#include "cli/service_signals.hpp"
#include "serve/api.hpp"
#include "serve/guard.hpp"
#include "serve/http_server.hpp"
#include "serve/service_manager.hpp"
#include "watch/sampler.hpp"
#include "watch/take_snapshot.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>
#include <utility>

namespace vram::cli {
namespace {

using serve::LogEvent;
using serve::LogLevel;

// A connection takes a descriptor, and many systems begin with 1024.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  constexpr rlim_t kWanted = 8192;
  limit.rlim_cur = std::max(limit.rlim_cur, std::min(kWanted, limit.rlim_max));
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

std::string environment(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? "" : value;
}

// What the sampler's thread owns: a look that hangs may outlive everything else.
struct Looking {
  explicit Looking(Live&& given) : live(std::move(given)) {}
  watch::Snapshot look() {
    is_under_way = true;
    watch::Snapshot snapshot = live.look();
    is_under_way = false;
    return snapshot;
  }

  Live live;
  std::atomic<bool> is_under_way = false;
};

watch::SamplerHooks hooks_of(const std::shared_ptr<Looking>& looking) {
  return {.look = [looking] { return looking->look(); },
          .release = [looking] { looking->live.release(); }};
}

class Serving {
 public:
  Serving(const ServeSettings& settings, const std::string& secret, Live live)
      : settings_(settings),
        log_(settings.log_format, watch::here_and_now().host),
        token_(std::make_shared<serve::Token>(secret)),
        manager_(environment("NOTIFY_SOCKET"), environment("WATCHDOG_USEC")),
        looking_(std::make_shared<Looking>(std::move(live))) {}

  Result<int> run();

 private:
  [[nodiscard]] serve::Sights sights() const;
  [[nodiscard]] serve::Router router() const;
  [[nodiscard]] serve::ServerHooks server_hooks();
  void say_started() const;
  void wait_and_work();
  // False: it is to end.
  bool obey(Wish wish);
  void reload();
  void after_look();
  void end();

  const ServeSettings& settings_;
  mutable serve::Log log_;
  std::shared_ptr<serve::Token> token_;
  serve::ServiceManager manager_;
  ServiceSignals signals_;  // before there are threads
  std::shared_ptr<Looking> looking_;
  std::unique_ptr<serve::HttpServer> server_;
  std::unique_ptr<watch::Sampler> sampler_;
  std::vector<std::string> notes_;  // of the last look
};

serve::Sights Serving::sights() const {
  return {.latest = [this] { return sampler_->latest(); },
          .overdue_ns = [this] { return sampler_->overdue_ns(); },
          .now_ns = watch::monotonic_ns,
          .period = settings_.period};
}

serve::Router Serving::router() const {
  std::vector<serve::Route> routes = serve::live_routes(sights());
  routes.push_back(serve::openapi_route());
  routes.push_back(serve::index_page(routes, watch::here_and_now().host));
  return serve::Router(std::move(routes));
}

serve::ServerHooks Serving::server_hooks() {
  const auto refused = [this](const serve::Request& request, std::string_view why) {
    log_.write_seldom({.level = LogLevel::kWarning,
                       .action = "client-refused",
                       .message = fmt::format("{}: the request for {} {}", request.client,
                                              request.path.substr(0, 100), why),
                       .fields = {{"client.address", request.client}}});
  };
  serve::ServerHooks hooks;
  hooks.handle = serve::Guard{router(), token_, refused};
  hooks.incident = [this](std::string_view client, std::string_view what) {
    log_.write_seldom({.level = LogLevel::kWarning,
                       .action = "client-trouble",
                       .message = fmt::format("{}: {}", client, what),
                       .fields = {{"client.address", std::string(client)}}});
  };
  return hooks;
}

void Serving::say_started() const {
  std::vector<std::string> urls;
  for (const serve::Address& address : server_->addresses())
    urls.push_back("http://" + address.text());
  log_.write({.action = "started",
              .message = fmt::format("vram " VRAM_VERSION " serves at {}, a look each {}{}",
                                     fmt::join(urls, " and "),
                                     format_duration_ns(settings_.period.count()),
                                     token_->is_wanted() ? ", with a token" : ""),
              .fields = {{"url.full", urls.front()}}});
  const bool is_public = std::ranges::any_of(
      server_->addresses(), [](const auto& address) { return !serve::is_loopback(address.ip); });
  if (is_public && !token_->is_wanted())
    log_.write({.level = LogLevel::kWarning,
                .action = "no-token",
                .message = "WITHOUT A TOKEN: everybody who reaches this machine reads who runs "
                           "what on its GPUs, command lines too; --token-file FILE asks for one"});
}

void Serving::reload() {
  if (settings_.token_file.empty()) return;
  auto secret = serve::read_token(settings_.token_file);
  if (!secret)
    return log_.write({.level = LogLevel::kError,
                       .action = "reload-failed",
                       .message = secret.error().message + "; the old token stays"});
  token_->replace(*std::move(secret));
  log_.write({.action = "reloaded", .message = "the token was read again"});
}

bool Serving::obey(Wish wish) {
  if (wish == Wish::kEnd) return false;
  if (wish == Wish::kReload) {
    reload();
    return true;
  }
  sampler_->release();
  log_.write({.action = "released", .message = "lets go of all drivers for 30 s, as SIGUSR1 asks"});
  return true;
}

void Serving::after_look() {
  uint64_t count = 0;
  (void)!read(sampler_->wake_fd(), &count, sizeof count);
  const auto sampled = sampler_->latest();
  if (!sampled) return;
  const std::vector<std::string>& notes = sampled->snapshot.notes;
  for (const std::string& note : notes) {
    if (std::ranges::find(notes_, note) == notes_.end())
      log_.write_seldom({.level = LogLevel::kWarning, .action = "source-note", .message = note});
  }
  if (notes.empty() && !notes_.empty())
    log_.write_seldom({.action = "sources-well", .message = "all sources answer again"});
  notes_ = notes;
}

void Serving::wait_and_work() {
  const auto watchdog = manager_.watchdog();
  const int patience_ms = watchdog ? static_cast<int>(watchdog->count() / 3000) : -1;
  std::array<pollfd, 2> asked = {{{.fd = signals_.descriptor(), .events = POLLIN, .revents = 0},
                                  {.fd = sampler_->wake_fd(), .events = POLLIN, .revents = 0}}};
  while (true) {
    (void)poll(asked.data(), asked.size(), patience_ms);
    // The server's thread says so itself: if it hangs, nobody does.
    if (watchdog) server_->post([this] { manager_.tell("WATCHDOG=1"); });
    while (const auto wish = signals_.take()) {
      if (!obey(*wish)) return;
    }
    if ((asked[1].revents & POLLIN) != 0) after_look();
  }
}

void Serving::end() {
  manager_.tell("STOPPING=1");
  server_.reset();
  sampler_.reset();
  log_.write({.action = "stopped", .message = "ends, as it was asked to"});
  // The driver's library would be torn down below the feet of the call that hangs in it.
  if (looking_->is_under_way) _exit(0);
}

Result<int> Serving::run() {
  raise_descriptor_limit();
  auto server = serve::HttpServer::open(settings_.addresses);
  if (!server) return tl::unexpected(server.error());
  server_ = *std::move(server);
  sampler_ = std::make_unique<watch::Sampler>(hooks_of(looking_), settings_.period);
  server_->start(server_hooks());
  say_started();
  manager_.tell("READY=1");
  wait_and_work();
  end();
  return 0;
}

}  // namespace

Result<int> serve_until_told(const ServeSettings& settings, const std::string& token) {
  auto live = Live::of(settings.gpu);
  if (!live) return tl::unexpected(live.error());
  return Serving(settings, token, *std::move(live)).run();
}

}  // namespace vram::cli
