#include "cli/serving.hpp"

#include "alerts/alert_engine.hpp"
#include "base/bytes.hpp"
#include "base/environment.hpp"
#include "base/result.hpp"
#include "base/rights.hpp"
#include "base/threads.hpp"
#include "base/time.hpp"
#include "cli/live.hpp"
#include "cli/reloading.hpp"
#include "cli/signals.hpp"
#include "pages/html.hpp"
#include "serve/actions.hpp"
#include "serve/api.hpp"
#include "serve/credentials.hpp"
#include "serve/file_watch.hpp"
#include "serve/guard.hpp"
#include "serve/history_api.hpp"
#include "serve/http_server.hpp"
#include "serve/jobs.hpp"
#include "serve/live_segments.hpp"
#include "serve/metrics_route.hpp"
#include "serve/recording_routes.hpp"
#include "serve/recordings.hpp"
#include "serve/service_manager.hpp"
#include "watch/reclaim.hpp"
#include "watch/sampler.hpp"
#include "watch/segments_request.hpp"
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

// When it ends: for answers that are being made, and for what receivers and the history wait for.
constexpr auto kAnswersTimeout = std::chrono::seconds(1);
constexpr auto kSavingTimeout = std::chrono::seconds(4);
// In which a process is to list its segments. A longer step is met by one of the next requests.
constexpr uint64_t kSegmentsNs = 5 * kSecondNs;

// A connection takes a descriptor, and many systems begin with 1024. Half of them stay for drivers,
// the history and what is read of processes.
serve::ServerLimits limits_of_descriptors() {
  serve::ServerLimits limits;
  rlimit descriptors{};
  if (getrlimit(RLIMIT_NOFILE, &descriptors) != 0) return limits;
  constexpr rlim_t kWanted = 8192;
  descriptors.rlim_cur = std::max(descriptors.rlim_cur, std::min(kWanted, descriptors.rlim_max));
  (void)setrlimit(RLIMIT_NOFILE, &descriptors);
  if (getrlimit(RLIMIT_NOFILE, &descriptors) == 0)
    limits.connections = std::min<size_t>(limits.connections, descriptors.rlim_cur / 2);
  return limits;
}

// The address for readers of an alert; empty: none outside this machine.
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
        log_(std::make_shared<serve::Log>(settings.log_format, watch::current_moment().host)),
        token_(std::make_shared<serve::Token>(secret)),
        manager_(environment("NOTIFY_SOCKET"), environment("WATCHDOG_USEC")),
        live_(std::make_shared<Live>(std::move(live))) {}

  Result<int> run();

 private:
  // Whether it was asked to end during this work.
  [[nodiscard]] bool ends_before(DetachableThread& work);
  // What the sampler waits for before it looks.
  struct Start {
    bool samples_devices = false;
    std::shared_ptr<history::History> history;  // null: none is kept
  };

  void drop_privileges();
  [[nodiscard]] Result<bool> open_history();
  [[nodiscard]] Result<> open_alerts();
  [[nodiscard]] watch::SamplerHooks sampler_hooks();
  [[nodiscard]] Result<> open_recordings();
  [[nodiscard]] serve::SampleFeed feed() const;
  [[nodiscard]] serve::Router router() const;
  [[nodiscard]] serve::ServerHooks server_hooks();
  [[nodiscard]] std::vector<std::string> host_names() const;
  [[nodiscard]] std::string url_of(const serve::Address& address) const;
  [[nodiscard]] bool has_authentication() const;
  void log_started() const;
  void wait_and_work();
  // False: it is to end.
  bool execute(ServiceRequest service_request);
  void reload();
  void reload_receivers();
  void reload_receiver(size_t number, const ReceiverUrl& receiver);
  void after_sample();
  void log_notes(const std::vector<std::string>& notes);
  void end();

  const ServeSettings& settings_;
  std::shared_ptr<serve::Log> log_;
  std::shared_ptr<serve::Token> token_;
  serve::ServiceManager manager_;
  ServiceSignals signals_;      // before there are threads
  std::shared_ptr<Live> live_;  // the sampler's: a sample that hangs may outlive everything else
  std::shared_ptr<serve::Tally> tally_ = std::make_shared<serve::Tally>();
  std::shared_ptr<history::History> history_;  // null: none is kept
  std::shared_ptr<alerts::AlertEngine> alert_engine_;
  std::shared_ptr<serve::Recordings> recordings_;  // null: there is no folder
  std::shared_ptr<serve::Jobs> jobs_ =
      std::make_shared<serve::Jobs>([] { return watch::current_moment().time_ns; });
  std::shared_ptr<serve::LiveSegments> segments_ = std::make_shared<serve::LiveSegments>(
      [](uint32_t pid) { return watch::request_segments(board_folders(), pid, kSegmentsNs); },
      [] { return watch::current_moment().time_ns; }, watch::monotonic_ns);
  std::unique_ptr<serve::HttpServer> server_;
  std::promise<Start> start_;
  std::unique_ptr<watch::Sampler> sampler_;
  std::vector<ServiceRequest> early_requests_;  // received while it started
  std::vector<std::string> notes_;              // of the last sample
  std::optional<serve::FileWatch> file_watch_;
};

// Opening a file on a mount whose server is gone may take for ever.
bool Serving::ends_before(DetachableThread& work) {
  constexpr auto kSlice = std::chrono::milliseconds(100);
  while (!work.join_for(kSlice)) {
    while (const auto service_request = signals_.take()) {
      if (*service_request == ServiceRequest::kEnd) return true;
      early_requests_.push_back(*service_request);
    }
  }
  return false;
}

// False: the program is to end instead.
Result<bool> Serving::open_history() {
  if (settings_.history.empty()) return true;
  history::HistoryOptions options;
  options.keep = settings_.keep;
  options.report = [log = log_](const std::string& what) {
    log->write({.level = LogLevel::kWarning, .action = "history", .message = what});
  };
  const auto found = std::make_shared<std::optional<Result<history::History>>>();
  DetachableThread opening([found, path = settings_.history, options] {
    *found = history::History::open(path, options);
  });
  if (ends_before(opening)) return false;
  auto& opened = **found;
  if (opened) {
    history_ = std::make_shared<history::History>(*std::move(opened));
    return true;
  }
  if (settings_.needs_history) return fail(Code::kIo, "--history: {}", opened.error().message);
  log_->write({.level = LogLevel::kWarning,
               .action = "no-history",
               .message = log_->trf("no history is kept: {}", opened.error().message)});
  return true;
}

Result<> Serving::open_alerts() {
  alerts::NotifierOptions receivers;
  const bool is_json = settings_.log_format == serve::LogFormat::kJson;
  receivers.log = is_json ? alerts::LogForm::kJson : alerts::LogForm::kText;
  receivers.write = [log = log_](std::string_view line) { log->write_line(line); };
  receivers.warn = [log = log_](std::string_view what) {
    log->write({.level = LogLevel::kWarning, .action = "notify", .message = std::string(what)});
  };
  for (const ReceiverUrl& each : settings_.webhooks) receivers.webhooks.push_back(each.url);
  for (const ReceiverUrl& each : settings_.alertmanagers)
    receivers.alertmanagers.push_back(each.url);
  const watch::Moment moment = watch::current_moment();
  receivers.link = link_for_others(server_->addresses(), moment.host);
  auto alert_engine =
      alerts::AlertEngine::open({.rules_file = settings_.rules,
                                 .judge = {.sees_all_processes = watch::sees_all_processes()},
                                 .receivers = std::move(receivers),
                                 .host = moment.host,
                                 .history = history_,
                                 .now = {.now_ns = watch::monotonic_ns(),
                                         .unix_ns = moment.time_ns,
                                         .boot = history::this_boot()}});
  if (!alert_engine) return tl::unexpected(alert_engine.error());
  alert_engine_ = *std::move(alert_engine);
  return {};
}

Result<> Serving::open_recordings() {
  if (settings_.recordings.empty()) return {};
  VRAM_TRY_ASSIGN(recordings_, serve::Recordings::open(settings_.recordings));
  return {};
}

watch::SamplerHooks Serving::sampler_hooks() {
  const std::shared_future<Start> start = start_.get_future();
  return {.take_sample =
              [live = live_, start] {
                return start.get().samples_devices ? live->take_sample() : watch::Snapshot();
              },
          .release = [live = live_] { live->release(); },
          .seen =
              [tally = tally_, start](const watch::Sampled& sampled) {
                tally->count_sample(sampled);
                if (const auto& history = start.get().history) history->add(sampled);
              }};
}

// All threads but the sampler's, which is there already.
void Serving::drop_privileges() {
  for (const auto& done : {refuse_dangerous_calls(), drop_capabilities()}) {
    if (!done)
      log_->write(
          {.level = LogLevel::kWarning, .action = "rights", .message = done.error().message});
  }
}

serve::SampleFeed Serving::feed() const {
  return {.latest = [this] { return sampler_->latest(); },
          .overdue_ns = [this] { return sampler_->overdue_ns(); },
          .now_ns = watch::monotonic_ns,
          .period = settings_.period};
}

serve::Router Serving::router() const {
  std::vector<serve::Route> routes = serve::live_routes(feed());
  const auto add = [&](std::vector<serve::Route> more) {
    std::ranges::move(more, std::back_inserter(routes));
  };
  routes.push_back(serve::metrics_route(
      feed(), tally_,
      {.dcgm_names = settings_.dcgm_names, .process_series = settings_.process_series}));
  const auto now_unix_ns = [] { return watch::current_moment().time_ns; };
  add(serve::history_routes(history_, now_unix_ns, settings_.commands));
  add(serve::alert_routes(alert_engine_));
  add(serve::silence_routes(alert_engine_, now_unix_ns));
  add(serve::action_routes({.feed = feed(),
                            .now_unix_ns = now_unix_ns,
                            .board_folders = board_folders,
                            .commands = settings_.commands,
                            .recordings = settings_.recordings},
                           jobs_, segments_));
  add(serve::recording_routes(recordings_));
  routes.push_back(serve::openapi_route());
  routes.push_back(serve::dashboard_route(pages::dashboard_page()));
  routes.push_back(serve::index_page(routes, watch::current_moment().host));
  return serve::Router(std::move(routes));
}

std::vector<std::string> Serving::host_names() const {
  std::vector<std::string> names = settings_.host_names;
  const std::string host = watch::current_moment().host;
  if (!host.empty()) names.insert(names.end(), {host, host.substr(0, host.find('.'))});
  return names;
}

serve::ServerHooks Serving::server_hooks() {
  const auto refused = [this](const serve::Request& request, std::string_view why) {
    log_->write_rate_limited({.level = LogLevel::kWarning,
                              .action = "client-refused",
                              .message = log_->trf("{}: the request for {} {}", request.client,
                                                   request.path.substr(0, 100), log_->tr(why)),
                              .fields = {{"client.address", request.client}}});
  };
  serve::ServerHooks hooks;
  const auto guard = std::make_shared<const serve::Guard>(
      serve::Guard{.inner = router(),
                   .token = token_,
                   .web = settings_.web,
                   .host_names = host_names(),
                   .is_public =
                       [](const serve::Request& request) {
                         return request.path == "/" || serve::is_page_of_recording(request);
                       },
                   .refused = refused});
  hooks.handle = [guard](const serve::Request& request) { return (*guard)(request); };
  hooks.needs_password_check = [guard](const serve::Request& request) {
    return guard->needs_password_check(request);
  };
  hooks.check_password = [guard](const serve::Request& request) {
    return guard->check_password(request);
  };
  // Refused clients take no place among those that wait for files.
  hooks.is_slow = [guard](const serve::Request& request) {
    const bool reads_files = serve::is_about_history(request) || serve::is_about_actions(request) ||
                             serve::is_about_recordings(request);
    return reads_files && guard->accepts_authorization(request);
  };
  if (settings_.web) hooks.tls = [web = settings_.web] { return web->now()->tls; };
  hooks.incident = [this](std::string_view client, std::string_view what) {
    log_->write_rate_limited({.level = LogLevel::kWarning,
                              .action = "client-error",
                              .message = fmt::format("{}: {}", client, log_->tr(what)),
                              .fields = {{"client.address", std::string(client)}}});
  };
  return hooks;
}

std::string Serving::url_of(const serve::Address& address) const {
  const bool is_tls = settings_.web && settings_.web->now()->tls;
  return fmt::format("{}://{}", is_tls ? "https" : "http", address.text());
}

bool Serving::has_authentication() const {
  return token_->is_wanted() || (settings_.web && settings_.web->now()->has_authentication);
}

void Serving::log_started() const {
  std::vector<std::string> urls;
  for (const serve::Address& address : server_->addresses()) urls.push_back(url_of(address));
  log_->write({.action = "started",
               .message = log_->trf(
                   "vram {} serves at {}, a sample every {}{}", VRAM_VERSION,
                   fmt::join(urls, log_->tr(" and ")), format_duration_ns(settings_.period.count()),
                   token_->is_wanted() ? log_->tr(", with a token") : std::string_view()),
               .fields = {{"url.full", urls.front()}}});
  const bool is_public = std::ranges::any_of(
      server_->addresses(), [](const auto& address) { return !serve::is_loopback(address.ip); });
  if (is_public && !has_authentication())
    log_->write({.level = LogLevel::kWarning,
                 .action = "no-token",
                 .message = std::string(log_->tr(
                     "WITHOUT A TOKEN: everybody who reaches this machine reads who runs "
                     "what on its GPUs; --token-file FILE asks for one, and --web-config FILE for "
                     "passwords"))});
  if (settings_.commands == watch::CommandLines::kFull && !has_authentication())
    log_->write({.level = LogLevel::kWarning,
                 .action = "no-token",
                 .message = std::string(log_->tr(
                     "--command-lines full without a token: everybody who can log in here, "
                     "or reaches the address, reads all arguments of all processes"))});
}

void Serving::reload() {
  if (!settings_.token_file.empty()) reload_token(settings_.token_file, *token_, *log_);
  if (settings_.web) reload_web(*settings_.web, *log_);
  reload_receivers();
  if (const auto rules = alert_engine_->reload(); !rules)
    return log_->write({.level = LogLevel::kError,
                        .action = "reload-failed",
                        .message = log_->trf("{}; the old rules stay", rules.error().message)});
  log_->write(
      {.action = "reloaded", .message = std::string(log_->tr("the rules were read again"))});
}

// By the numbers that alerts::Notifier gives them.
void Serving::reload_receivers() {
  size_t number = 0;
  for (const auto* const kind : {&settings_.webhooks, &settings_.alertmanagers}) {
    for (const ReceiverUrl& receiver : *kind) reload_receiver(number++, receiver);
  }
}

void Serving::reload_receiver(size_t number, const ReceiverUrl& receiver) {
  if (!receiver.given.starts_with('@')) return;
  const auto url = serve::url_of(receiver.given);
  const auto done = url ? alert_engine_->change_url(number, *url) : tl::unexpected(url.error());
  if (!done)
    return log_->write({.level = LogLevel::kError,
                        .action = "reload-failed",
                        .message = log_->trf("{} {}: {}; the old URL stays", receiver.option,
                                             receiver.given, done.error().message)});
  log_->write({.action = "reloaded",
               .message = log_->trf("{} {} was read again", receiver.option, receiver.given)});
}

bool Serving::execute(ServiceRequest service_request) {
  if (service_request == ServiceRequest::kEnd) return false;
  if (service_request == ServiceRequest::kReload) {
    reload();
    return true;
  }
  sampler_->release();
  log_->write({.action = "released",
               .message = std::string(log_->tr("releases all drivers for 30 s (SIGUSR1)"))});
  return true;
}

void Serving::after_sample() {
  uint64_t count = 0;
  (void)!read(sampler_->wake_fd(), &count, sizeof count);
  const auto sampled = sampler_->latest();
  if (!sampled) return;
  alert_engine_->judge(*sampled);
  log_notes(sampled->snapshot.notes);
}

void Serving::log_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) {
    if (std::ranges::find(notes_, note) == notes_.end())
      log_->write_rate_limited(
          {.level = LogLevel::kWarning, .action = "source-note", .message = note});
  }
  if (notes.empty() && !notes_.empty())
    log_->write_rate_limited(
        {.action = "sources-well", .message = std::string(log_->tr("all sources answer again"))});
  notes_ = notes;
}

void Serving::wait_and_work() {
  constexpr int kTimeoutMs = 1000;  // looks that do not end are looked after, too
  const auto watchdog = manager_.watchdog();
  const int timeout_ms =
      watchdog ? static_cast<int>(std::clamp<int64_t>(watchdog->count() / 3000, 1, kTimeoutMs))
               : kTimeoutMs;
  std::array<pollfd, 2> polled = {{{.fd = signals_.descriptor(), .events = POLLIN, .revents = 0},
                                   {.fd = sampler_->wake_fd(), .events = POLLIN, .revents = 0}}};
  for (const ServiceRequest service_request : early_requests_) (void)execute(service_request);
  while (true) {
    (void)poll(polled.data(), polled.size(), timeout_ms);
    // The server's thread says so itself: if it hangs, no other thread does.
    if (watchdog) server_->post([this] { manager_.notify("WATCHDOG=1"); });
    while (const auto service_request = signals_.take()) {
      if (!execute(*service_request)) return;
    }
    if ((polled[1].revents & POLLIN) != 0) after_sample();
    if (const uint64_t overdue_ns = sampler_->overdue_ns(); overdue_ns > 0)
      alert_engine_->judge_overdue(watch::monotonic_ns(), watch::current_moment().time_ns,
                                   overdue_ns);
  }
}

void Serving::end() {
  manager_.notify("STOPPING=1");
  file_watch_.reset();
  // Each may wait for a file that hangs. What is left behind then uses the members.
  DetachableThread answers([this] { server_.reset(); });
  bool has_ended = answers.join_for(kAnswersTimeout);
  const auto deadline = DetachableThread::Clock::now() + kSavingTimeout;
  DetachableThread saving([this] {
    alert_engine_->close();
    if (history_) (void)history_->flush();
  });
  has_ended = saving.join_until(deadline) && has_ended;
  recordings_.reset();  // ends vram report, if it is running
  has_ended = jobs_->end(kAnswersTimeout) && has_ended;
  has_ended = segments_->end(kAnswersTimeout) && has_ended;
  has_ended = sampler_->end() && has_ended;
  if (has_ended) {
    // The last owner of the history waits for its thread and closes the file.
    DetachableThread closing([this] {
      sampler_.reset();
      start_ = {};
      alert_engine_.reset();
      history_.reset();
    });
    has_ended = closing.join_until(deadline);
  }
  log_->write({.action = "stopped", .message = std::string(log_->tr("ends, as it was asked to"))});
  // The driver's library would be torn down under the sample that hangs in it.
  if (!has_ended) _exit(0);
}

Result<int> Serving::run() {
  VRAM_TRY_ASSIGN(auto server,
                  serve::HttpServer::open(settings_.addresses, limits_of_descriptors()));
  server_ = std::move(server);
  // The one thread that keeps the right to see other users' processes.
  sampler_ = std::make_unique<watch::Sampler>(sampler_hooks(), settings_.period);
  drop_privileges();
  VRAM_TRY(open_recordings());
  const auto history = open_history();
  if (history && !*history) {
    log_->write({.action = "stopped",
                 .message = std::string(log_->tr("stops, as requested during its start"))});
    _exit(0);  // the history is still being opened, and uses what would be torn down
  }
  const Result<> opened = history ? open_alerts() : tl::unexpected(history.error());
  start_.set_value({.samples_devices = opened.has_value(), .history = history_});
  if (!opened) return tl::unexpected(opened.error());
  server_->start(server_hooks());
  if (auto rotated = rotated_files(settings_, token_, log_); !rotated.empty())
    file_watch_.emplace(std::move(rotated));
  log_started();
  manager_.notify("READY=1");
  wait_and_work();
  end();
  return 0;
}

}  // namespace

Result<int> serve_until_stopped(const ServeSettings& settings, const std::string& token) {
  VRAM_TRY_ASSIGN(auto live, Live::of(settings.gpu, settings.commands));
  return Serving(settings, token, std::move(live)).run();
}

}  // namespace vram::cli
