#include "cli/serving.hpp"

#include "base/bytes.hpp"
#include "base/capabilities.hpp"
#include "base/detachable_thread.hpp"
#include "base/environment.hpp"
#include "cli/live.hpp"
#include "cli/reloading.hpp"
#include "cli/rights.hpp"
#include "cli/service_signals.hpp"
#include "serve/alert_desk.hpp"
#include "serve/api.hpp"
#include "serve/file_watch.hpp"
#include "serve/guard.hpp"
#include "serve/history_api.hpp"
#include "serve/http_server.hpp"
#include "serve/metrics_route.hpp"
#include "serve/secret_file.hpp"
#include "serve/service_manager.hpp"
#include "watch/reclaim.hpp"
#include "watch/sampler.hpp"
#include "watch/take_snapshot.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <future>
#include <iterator>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>
#include <utility>

// size: the order in which a server starts, changes and ends is in one place.
namespace vram::cli {
namespace {

using serve::LogLevel;

// A connection takes a descriptor, and many systems begin with 1024.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  constexpr rlim_t kWanted = 8192;
  limit.rlim_cur = std::max(limit.rlim_cur, std::min(kWanted, limit.rlim_max));
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

// Where people who are told of an alert can look; empty: nowhere but on this machine.
std::string link_for_others(const std::vector<serve::Address>& addresses, const std::string& host) {
  const auto open = std::ranges::find_if(
      addresses, [](const auto& address) { return !serve::is_loopback(address.ip); });
  if (open == addresses.end() || host.empty()) return "";
  return fmt::format("http://{}:{}/", host, open->port);
}

class Serving {
 public:
  Serving(const ServeSettings& settings, const std::string& secret, Live live)
      : settings_(settings),
        log_(std::make_shared<serve::Log>(settings.log_format, watch::here_and_now().host)),
        token_(std::make_shared<serve::Token>(secret)),
        manager_(environment("NOTIFY_SOCKET"), environment("WATCHDOG_USEC")),
        live_(std::make_shared<Live>(std::move(live))) {}

  Result<int> run();

 private:
  // Whether it was told to end while this work went on.
  [[nodiscard]] bool ends_before(DetachableThread& work) const;
  // What the sampler waits for before it looks.
  struct Start {
    bool is_to_look = false;
    std::shared_ptr<watch::History> history;  // null: none is kept
  };

  void give_up_rights();
  [[nodiscard]] Result<bool> open_history();
  [[nodiscard]] Result<> open_alerts();
  [[nodiscard]] watch::SamplerHooks sampler_hooks();
  [[nodiscard]] serve::Sights sights() const;
  [[nodiscard]] serve::Router router() const;
  [[nodiscard]] serve::ServerHooks server_hooks();
  [[nodiscard]] std::vector<std::string> host_names() const;
  [[nodiscard]] std::string url_of(const serve::Address& address) const;
  [[nodiscard]] bool asks_who_it_is() const;
  void say_started() const;
  void wait_and_work();
  // False: it is to end.
  bool obey(Wish wish);
  void reload();
  void reload_receivers();
  void reload_receiver(size_t number, const ReceiverUrl& receiver);
  void after_look();
  void tell_of_notes(const std::vector<std::string>& notes);
  void end();

  const ServeSettings& settings_;
  std::shared_ptr<serve::Log> log_;
  std::shared_ptr<serve::Token> token_;
  serve::ServiceManager manager_;
  ServiceSignals signals_;      // before there are threads
  std::shared_ptr<Live> live_;  // the sampler's: a look that hangs may outlive everything else
  std::shared_ptr<serve::Tally> tally_ = std::make_shared<serve::Tally>();
  std::shared_ptr<watch::History> history_;  // null: none is kept
  std::shared_ptr<serve::AlertDesk> desk_;
  std::unique_ptr<serve::HttpServer> server_;
  std::promise<Start> start_;
  std::unique_ptr<watch::Sampler> sampler_;
  std::vector<std::string> notes_;  // of the last look
  std::optional<serve::FileWatch> file_watch_;
};

// Opening a file on a mount whose server is gone may take for ever.
bool Serving::ends_before(DetachableThread& work) const {
  constexpr auto kSlice = std::chrono::milliseconds(100);
  while (!work.join_for(kSlice)) {
    while (const auto wish = signals_.take()) {
      if (*wish == Wish::kEnd) return true;
    }
  }
  return false;
}

// False: the program is to end instead.
Result<bool> Serving::open_history() {
  if (settings_.history.empty()) return true;
  watch::HistoryOptions options;
  options.keep = settings_.keep;
  options.tell = [log = log_](const std::string& what) {
    log->write({.level = LogLevel::kWarning, .action = "history", .message = what});
  };
  const auto found = std::make_shared<std::optional<Result<watch::History>>>();
  DetachableThread opening(
      [found, path = settings_.history, options] { *found = watch::History::open(path, options); });
  if (ends_before(opening)) return false;
  auto& opened = **found;
  if (opened) {
    history_ = std::make_shared<watch::History>(*std::move(opened));
    return true;
  }
  if (settings_.needs_history) return fail(Code::kIo, "--history: {}", opened.error().message);
  log_->write({.level = LogLevel::kWarning,
               .action = "no-history",
               .message = "no history is kept: " + opened.error().message});
  return true;
}

Result<> Serving::open_alerts() {
  serve::notify::NotifierOptions receivers;
  const bool is_json = settings_.log_format == serve::LogFormat::kJson;
  receivers.log = is_json ? serve::notify::LogForm::kJson : serve::notify::LogForm::kText;
  receivers.write = [log = log_](std::string_view line) { log->write_line(line); };
  receivers.complain = [log = log_](std::string_view what) {
    log->write({.level = LogLevel::kWarning, .action = "notify", .message = std::string(what)});
  };
  for (const ReceiverUrl& each : settings_.webhooks) receivers.webhooks.push_back(each.url);
  for (const ReceiverUrl& each : settings_.alertmanagers)
    receivers.alertmanagers.push_back(each.url);
  const watch::Moment moment = watch::here_and_now();
  receivers.link = link_for_others(server_->addresses(), moment.host);
  auto desk = serve::AlertDesk::open({.rules_file = settings_.rules,
                                      .judge = {.sees_all_processes = watch::sees_all_processes()},
                                      .receivers = std::move(receivers),
                                      .host = moment.host,
                                      .history = history_,
                                      .now = {.now_ns = watch::monotonic_ns(),
                                              .unix_ns = moment.time_ns,
                                              .boot = watch::this_boot()}});
  if (!desk) return tl::unexpected(desk.error());
  desk_ = *std::move(desk);
  return {};
}

watch::SamplerHooks Serving::sampler_hooks() {
  const std::shared_future<Start> start = start_.get_future();
  return {.look = [live = live_,
                   start] { return start.get().is_to_look ? live->look() : watch::Snapshot(); },
          .release = [live = live_] { live->release(); },
          .seen =
              [tally = tally_, start](const watch::Sampled& sampled) {
                tally->count_look(sampled);
                if (const auto& history = start.get().history) history->add(sampled);
              }};
}

// All threads but the sampler's, which is there already.
void Serving::give_up_rights() {
  for (const auto& done : {refuse_dangerous_calls(), drop_capabilities()}) {
    if (!done)
      log_->write(
          {.level = LogLevel::kWarning, .action = "rights", .message = done.error().message});
  }
}

serve::Sights Serving::sights() const {
  return {.latest = [this] { return sampler_->latest(); },
          .overdue_ns = [this] { return sampler_->overdue_ns(); },
          .now_ns = watch::monotonic_ns,
          .period = settings_.period};
}

serve::Router Serving::router() const {
  std::vector<serve::Route> routes = serve::live_routes(sights());
  const auto add = [&](std::vector<serve::Route> more) {
    std::ranges::move(more, std::back_inserter(routes));
  };
  routes.push_back(serve::metrics_route(
      sights(), tally_,
      {.dcgm_names = settings_.dcgm_names, .process_series = settings_.process_series}));
  add(serve::history_routes(
      history_, [] { return watch::here_and_now().time_ns; }, settings_.commands));
  add(serve::alert_routes(desk_));
  routes.push_back(serve::openapi_route());
  routes.push_back(serve::index_page(routes, watch::here_and_now().host));
  return serve::Router(std::move(routes));
}

std::vector<std::string> Serving::host_names() const {
  std::vector<std::string> names = settings_.host_names;
  const std::string host = watch::here_and_now().host;
  if (!host.empty()) names.insert(names.end(), {host, host.substr(0, host.find('.'))});
  return names;
}

serve::ServerHooks Serving::server_hooks() {
  const auto refused = [this](const serve::Request& request, std::string_view why) {
    log_->write_seldom({.level = LogLevel::kWarning,
                        .action = "client-refused",
                        .message = fmt::format("{}: the request for {} {}", request.client,
                                               request.path.substr(0, 100), why),
                        .fields = {{"client.address", request.client}}});
  };
  serve::ServerHooks hooks;
  const auto guard = std::make_shared<const serve::Guard>(
      serve::Guard{router(), token_, settings_.web, host_names(), refused});
  hooks.handle = [guard](const serve::Request& request) { return (*guard)(request); };
  hooks.needs_password_check = [guard](const serve::Request& request) {
    return guard->needs_password_check(request);
  };
  hooks.check_password = [guard](const serve::Request& request) {
    return guard->check_password(request);
  };
  hooks.is_slow = serve::is_about_history;
  if (settings_.web) hooks.tls = [web = settings_.web] { return web->now()->tls; };
  hooks.incident = [this](std::string_view client, std::string_view what) {
    log_->write_seldom({.level = LogLevel::kWarning,
                        .action = "client-trouble",
                        .message = fmt::format("{}: {}", client, what),
                        .fields = {{"client.address", std::string(client)}}});
  };
  return hooks;
}

std::string Serving::url_of(const serve::Address& address) const {
  const bool is_tls = settings_.web && settings_.web->now()->tls;
  return fmt::format("{}://{}", is_tls ? "https" : "http", address.text());
}

bool Serving::asks_who_it_is() const {
  return token_->is_wanted() || (settings_.web && settings_.web->now()->asks_who_it_is);
}

void Serving::say_started() const {
  std::vector<std::string> urls;
  for (const serve::Address& address : server_->addresses()) urls.push_back(url_of(address));
  log_->write({.action = "started",
               .message = fmt::format("vram " VRAM_VERSION " serves at {}, a look each {}{}",
                                      fmt::join(urls, " and "),
                                      format_duration_ns(settings_.period.count()),
                                      token_->is_wanted() ? ", with a token" : ""),
               .fields = {{"url.full", urls.front()}}});
  const bool is_public = std::ranges::any_of(
      server_->addresses(), [](const auto& address) { return !serve::is_loopback(address.ip); });
  if (is_public && !asks_who_it_is())
    log_->write({.level = LogLevel::kWarning,
                 .action = "no-token",
                 .message =
                     "WITHOUT A TOKEN: everybody who reaches this machine reads who runs "
                     "what on its GPUs; --token-file FILE asks for one, and --web-config FILE for "
                     "passwords"});
  if (settings_.commands == watch::CommandLines::kFull && !asks_who_it_is())
    log_->write({.level = LogLevel::kWarning,
                 .action = "no-token",
                 .message = "--command-lines full without a token: everybody who can log in here, "
                            "or reaches the address, reads all arguments of all processes"});
}

void Serving::reload() {
  if (!settings_.token_file.empty()) reload_token(settings_.token_file, *token_, *log_);
  if (settings_.web) reload_web(*settings_.web, *log_);
  reload_receivers();
  if (const auto rules = desk_->reload(); !rules)
    return log_->write({.level = LogLevel::kError,
                        .action = "reload-failed",
                        .message = rules.error().message + "; the old rules stay"});
  log_->write({.action = "reloaded", .message = "the rules were read again"});
}

// By the numbers that notify::Notifier gives them.
void Serving::reload_receivers() {
  size_t number = 0;
  for (const auto* const kind : {&settings_.webhooks, &settings_.alertmanagers}) {
    for (const ReceiverUrl& receiver : *kind) reload_receiver(number++, receiver);
  }
}

void Serving::reload_receiver(size_t number, const ReceiverUrl& receiver) {
  if (!receiver.given.starts_with('@')) return;
  const auto url = serve::url_of(receiver.given);
  const auto done = url ? desk_->readdress(number, *url) : tl::unexpected(url.error());
  if (!done)
    return log_->write({.level = LogLevel::kError,
                        .action = "reload-failed",
                        .message = fmt::format("{} {}: {}; the old URL stays", receiver.option,
                                               receiver.given, done.error().message)});
  log_->write({.action = "reloaded",
               .message = fmt::format("{} {} was read again", receiver.option, receiver.given)});
}

bool Serving::obey(Wish wish) {
  if (wish == Wish::kEnd) return false;
  if (wish == Wish::kReload) {
    reload();
    return true;
  }
  sampler_->release();
  log_->write(
      {.action = "released", .message = "lets go of all drivers for 30 s, as SIGUSR1 asks"});
  return true;
}

void Serving::after_look() {
  uint64_t count = 0;
  (void)!read(sampler_->wake_fd(), &count, sizeof count);
  const auto sampled = sampler_->latest();
  if (!sampled) return;
  desk_->judge(*sampled);
  tell_of_notes(sampled->snapshot.notes);
}

void Serving::tell_of_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) {
    if (std::ranges::find(notes_, note) == notes_.end())
      log_->write_seldom({.level = LogLevel::kWarning, .action = "source-note", .message = note});
  }
  if (notes.empty() && !notes_.empty())
    log_->write_seldom({.action = "sources-well", .message = "all sources answer again"});
  notes_ = notes;
}

void Serving::wait_and_work() {
  constexpr int kPatienceMs = 1000;  // looks that do not end are looked after, too
  const auto watchdog = manager_.watchdog();
  const int patience_ms =
      watchdog ? static_cast<int>(std::clamp<int64_t>(watchdog->count() / 3000, 1, kPatienceMs))
               : kPatienceMs;
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
    if (const uint64_t overdue_ns = sampler_->overdue_ns(); overdue_ns > 0)
      desk_->judge_overdue(watch::monotonic_ns(), watch::here_and_now().time_ns, overdue_ns);
  }
}

void Serving::end() {
  manager_.tell("STOPPING=1");
  file_watch_.reset();
  server_.reset();
  desk_.reset();
  const bool has_ended = sampler_->end();
  if (history_) (void)history_->flush();
  log_->write({.action = "stopped", .message = "ends, as it was asked to"});
  // The driver's library would be torn down below the feet of the look that hangs in it.
  if (!has_ended) _exit(0);
}

Result<int> Serving::run() {
  raise_descriptor_limit();
  auto server = serve::HttpServer::open(settings_.addresses);
  if (!server) return tl::unexpected(server.error());
  server_ = *std::move(server);
  // The one thread that keeps the right to see other users' processes.
  sampler_ = std::make_unique<watch::Sampler>(sampler_hooks(), settings_.period);
  give_up_rights();
  const auto history = open_history();
  if (history && !*history) {
    log_->write({.action = "stopped", .message = "ends, as it was asked to while it started"});
    _exit(0);  // the history is still being opened, and uses what would be torn down
  }
  const Result<> opened = history ? open_alerts() : tl::unexpected(history.error());
  start_.set_value({.is_to_look = opened.has_value(), .history = history_});
  if (!opened) return tl::unexpected(opened.error());
  server_->start(server_hooks());
  if (auto rotated = rotated_files(settings_, token_, log_); !rotated.empty())
    file_watch_.emplace(std::move(rotated));
  say_started();
  manager_.tell("READY=1");
  wait_and_work();
  end();
  return 0;
}

}  // namespace

Result<int> serve_until_told(const ServeSettings& settings, const std::string& token) {
  auto live = Live::of(settings.gpu, settings.commands);
  if (!live) return tl::unexpected(live.error());
  return Serving(settings, token, *std::move(live)).run();
}

}  // namespace vram::cli
