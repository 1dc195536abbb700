// vram serve: who uses which GPU's memory, for Prometheus and for programs, over HTTP.
#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "cli/command.hpp"
#include "cli/folders.hpp"
#include "cli/serving.hpp"
#include "serve/credentials.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

namespace vram::cli {
namespace {

class ServeCommand final : public Command {
 public:
  [[nodiscard]] const Manual& manual() const override;
  [[nodiscard]] std::vector<Option> options() override;
  [[nodiscard]] Result<int> run(Console& console) override;

 private:
  // Passwords or certificates say who it is.
  [[nodiscard]] bool has_users() const {
    return settings_.web && settings_.web->now()->has_authentication;
  }
  [[nodiscard]] Result<> check_token() const;
  void set_defaults();

  ServeSettings settings_;
  bool no_token_ = false;
  std::optional<watch::CommandLines> command_lines_;
  std::string history_;
};

const Manual& ServeCommand::manual() const {
  static const Manual kManual = {
      "serve",
      tr("serve GPU metrics to Prometheus, and an HTTP API"),
      "[--listen ADDRESS:PORT] [--token-file FILE] [--period TIME]",
      tr("Samples the GPUs every second and answers requests from the last sample, so that no "
         "request "
         "waits for a driver: / for browsers, /metrics for Prometheus, /api/v1/ for programs "
         "(described by /api/v1/openapi.json), /healthz for probes. Listens on this machine only, "
         "unless "
         "--listen "
         "names another address, which requires a token. SIGTERM and Ctrl-C end it; SIGUSR1 "
         "releases "
         "the drivers for 30 s; SIGHUP reloads its files. See docs/serve.md."),
      {{"vram serve", tr("at http://127.0.0.1:9877 and http://[::1]:9877")},
       {"vram serve --listen 0.0.0.0:9877 --token-file /etc/vram/token",
        tr("for other machines, with 'Authorization: Bearer TOKEN'")},
       {"vram serve --log-format json 2>> /var/log/vram.json",
        tr("a JSON log, for example for Logstash")},
       {"vram serve --gpu sim", tr("no GPU: plays a recording that comes with vram")}}};
  return kManual;
}

// "30d" is what people say of a retention.
Result<history::HistoryKeep> parse_retention(const std::string& text) {
  constexpr int kHoursOfADay = 24;
  const bool is_days = text.ends_with('d');
  const auto time_ns = parse_duration_ns(is_days ? text.substr(0, text.size() - 1) + "h" : text);
  if (!time_ns || *time_ns < 60 * kSignedSecondNs)
    return fail(Code::kBadInput, "expected at least one minute, such as 30d or 12h, found '{}'",
                text);
  const std::chrono::seconds longest(*time_ns / kSignedSecondNs * (is_days ? kHoursOfADay : 1));
  history::HistoryKeep keep;
  keep.hours = longest;  // the coarsest goes back farthest, be it for more than a year
  for (auto* const finer : {&keep.samples, &keep.minutes, &keep.processes})
    *finer = std::min(*finer, longest);
  return keep;
}

// Both name the option, or the file, in their errors.
Result<serve::Address> parse_listen(std::string_view, std::string_view text) {
  return serve::parse_address(text);
}
Result<std::shared_ptr<serve::WebAccess>> open_web(std::string_view, const std::string& path) {
  return serve::WebAccess::open(path);
}

Result<ReceiverUrl> parse_receiver(std::string_view option, const std::string& text) {
  auto url = serve::url_of(text);
  if (!url) return fail(url.error().code, "{}: {}", option, url.error().message);
  return ReceiverUrl{std::string(option), text, *std::move(url)};
}

std::vector<Option> ServeCommand::options() {
  return {
      {"--listen", "ADDRESS:PORT",
       tr("where to listen; may be repeated (127.0.0.1:9877 and [::1]:9877); port 0 selects a "
          "free port"),
       value(settings_.addresses, parse_listen)},
      {"--period", "TIME", tr("sampling period (1s)"), value(settings_.period, parse_period)},
      source_option(
          tr("which source to read: nvml (NVIDIA), drm (AMD, Intel), or sim[:RECORDING] (default: "
             "all sources of the machine)"),
          settings_.gpu),
      {"--token-file", "FILE",
       tr("require the token in this file, which must not be readable by others"),
       file(&settings_.token_file)},
      {"--web-config", "FILE",
       tr("TLS and users, in the format of Prometheus' exporter toolkit; reloaded when it changes"),
       file(value(settings_.web, open_web))},
      {"--no-token", "", tr("serve other machines without a token"), &no_token_},
      {"--host-name", "NAME",
       tr("another host name that clients use for this machine; may be repeated; without a token, "
          "requests with other names get 421"),
       &settings_.host_names},
      {"--command-lines", "HOW",
       tr("how much of processes' command lines to show, since they may contain secrets: off, "
          "name (only the program) or full (default: full with a token, else name)"),
       choice<watch::CommandLines>(command_lines_, {{"off", watch::CommandLines::kOff},
                                                    {"name", watch::CommandLines::kName},
                                                    {"full", watch::CommandLines::kFull}})},
      {"--dcgm-names", "", tr("also serve dcgm-exporter's metrics, for existing dashboards"),
       &settings_.dcgm_names},
      {"--process-series", "N", tr("serve metrics of the N processes with the most memory (none)"),
       value(settings_.process_series, parse_number<uint32_t>)},
      {"--history", "FILE",
       tr("the history file, or off ($XDG_STATE_HOME/vram/history.db, by default "
          "~/.local/state/vram/history.db)"),
       file(&history_)},
      {"--retention", "TIME",
       tr("maximum age of the history, such as 30d (samples: 1 day, minutes: 30 days, hours: 365 "
          "days)"),
       value(settings_.keep, parse_retention)},
      {"--rules", "FILE",
       tr("alert rules that extend or override the built-in ones (TOML, docs/alerts.md)"),
       file(&settings_.rules)},
      {"--webhook", "URL",
       tr("POST alerts to this URL as vram.alerts/1; @FILE: read the URL from a file, which must "
          "not be readable by others; may be repeated"),
       value(settings_.webhooks, parse_receiver)},
      {"--alertmanager", "URL",
       tr("send alerts to this Alertmanager; URL or @FILE; may be repeated"),
       value(settings_.alertmanagers, parse_receiver)},
      {"--recordings", "DIR",
       tr("folder of recordings for the dashboard, which shows their findings and reports, and "
          "writes new recordings there"),
       file(&settings_.recordings)},
      {"--log-format", "FORMAT", tr("format of the log on standard error: text or json (text)"),
       choice<serve::LogFormat>(settings_.log_format, {{"text", serve::LogFormat::kText},
                                                       {"json", serve::LogFormat::kJson}})}};
}

Result<> ServeCommand::check_token() const {
  if (no_token_ && !settings_.token_file.empty())
    return fail(Code::kBadInput, "--token-file and --no-token exclude each other: use one of them");
  const auto open = std::ranges::find_if(
      settings_.addresses, [](const auto& address) { return !serve::is_loopback(address.ip); });
  const bool is_safe = no_token_ || has_users() || !settings_.token_file.empty();
  if (open == settings_.addresses.end() || is_safe) return {};
  return fail(Code::kBadInput,
              "{} is reachable from other machines: require a token with --token-file FILE ('umask "
              "077; openssl rand -hex 32 > FILE' creates one), or passwords or certificates with "
              "--web-config FILE, or use --no-token",
              open->text());
}

// Where programs keep what they may lose; empty where the environment names no place.
std::string default_history() {
  const std::filesystem::path folder = user_folder("XDG_STATE_HOME", ".local/state");
  if (folder.empty()) return "";
  std::error_code error;
  std::filesystem::create_directories(folder, error);  // else opening it says why not
  return folder / "history.db";
}

void ServeCommand::set_defaults() {
  if (settings_.addresses.empty())
    settings_.addresses = {{.ip = "127.0.0.1", .port = serve::kDefaultPort},
                           {.ip = "::1", .port = serve::kDefaultPort, .may_be_missing = true}};
  // A client with a token or password may read what `ps` shows.
  const bool has_authentication = has_users() || !settings_.token_file.empty();
  settings_.commands = command_lines_.value_or(has_authentication ? watch::CommandLines::kFull
                                                                  : watch::CommandLines::kName);
  settings_.needs_history = !history_.empty();
  settings_.history = history_.empty() ? default_history() : history_ == "off" ? "" : history_;
}

Result<int> ServeCommand::run(Console& console) {
  VRAM_TRY(check_token());
  set_defaults();
  VRAM_TRY_ASSIGN(const auto token, settings_.token_file.empty()
                                        ? Result<std::string>("")
                                        : serve::read_token(settings_.token_file));
  auto code = serve_until_stopped(settings_, token);
  if (code || code.error().code != Code::kIo) return code;
  console.error(code.error().message);
  return kEnvironment;
}

}  // namespace

std::unique_ptr<Command> serve_command() { return std::make_unique<ServeCommand>(); }

}  // namespace vram::cli
