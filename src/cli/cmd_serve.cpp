// vram serve: who uses which GPU's memory, for Prometheus and for programs, over HTTP.
#include "base/bytes.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "cli/command.hpp"
#include "cli/folders.hpp"
#include "cli/options.hpp"
#include "cli/serving.hpp"
#include "serve/token.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>

namespace vram::cli {
namespace {

class ServeCommand final : public Command {
 public:
  [[nodiscard]] const Manual& manual() const override;
  [[nodiscard]] std::vector<Option> options() override;
  [[nodiscard]] Result<int> run(Console& console) override;

 private:
  [[nodiscard]] Result<std::vector<serve::Address>> addresses() const;
  // has_users: passwords or certificates say who it is.
  [[nodiscard]] Result<> check_token(const std::vector<serve::Address>& addresses,
                                     bool has_users) const;
  [[nodiscard]] Result<ServeSettings> settings() const;

  std::vector<std::string> listen_;
  std::string period_ = "1s";
  std::string gpu_;
  std::string token_file_;
  bool no_token_ = false;
  std::string web_config_;
  std::vector<std::string> host_names_;
  std::string command_lines_;
  bool dcgm_names_ = false;
  std::string process_series_;
  std::string history_;
  std::string retention_;
  std::string rules_;
  std::vector<std::string> webhooks_;
  std::vector<std::string> alertmanagers_;
  std::string log_format_ = "text";
};

const Manual& ServeCommand::manual() const {
  static const Manual kManual = {
      "serve",
      "serve GPU metrics to Prometheus, and an HTTP API",
      "[--listen ADDRESS:PORT] [--token-file FILE] [--period TIME]",
      "Samples the GPUs every second and answers requests from the last sample, so that no request "
      "waits for a driver: /metrics for Prometheus, /api/v1/ for programs (described by "
      "/api/v1/openapi.json), /healthz for probes. Listens on this machine only, unless --listen "
      "names another address, which requires a token. SIGTERM and Ctrl-C end it; SIGUSR1 releases "
      "the drivers for 30 s; SIGHUP reloads its files. See docs/serve.md.",
      {{"vram serve", "at http://127.0.0.1:9877 and http://[::1]:9877"},
       {"vram serve --listen 0.0.0.0:9877 --token-file /etc/vram/token",
        "for other machines, with 'Authorization: Bearer TOKEN'"},
       {"vram serve --log-format json 2>> /var/log/vram.json",
        "a JSON log, for example for Logstash"},
       {"vram serve --gpu sim", "no GPU: plays a recording that comes with vram"}}};
  return kManual;
}

std::vector<Option> ServeCommand::options() {
  return {{"--listen", "ADDRESS:PORT",
           "where to listen; may be repeated (127.0.0.1:9877 and [::1]:9877); port 0 selects a "
           "free port",
           &listen_},
          {"--period", "TIME", "sampling period (1s)", &period_},
          {"--gpu", "SOURCE",
           "which source to read: nvml (NVIDIA), drm (AMD, Intel), or sim[:RECORDING] (default: "
           "all sources of the machine)",
           &gpu_},
          {"--token-file", "FILE",
           "require the token in this file, which must not be readable by others", &token_file_},
          {"--web-config", "FILE",
           "TLS and users, in the format of Prometheus' exporter toolkit; reloaded when it changes",
           &web_config_},
          {"--no-token", "", "serve other machines without a token", &no_token_},
          {"--host-name", "NAME",
           "another host name that clients use for this machine; may be repeated; without a token, "
           "requests with other names get 421",
           &host_names_},
          {"--command-lines", "HOW",
           "how much of processes' command lines to show, since they may contain secrets: off, "
           "name (only the program) or full (default: full with a token, else name)",
           &command_lines_},
          {"--dcgm-names", "", "also serve dcgm-exporter's metrics, for existing dashboards",
           &dcgm_names_},
          {"--process-series", "N", "serve metrics of the N processes with the most memory (none)",
           &process_series_},
          {"--history", "FILE",
           "the history file, or off ($XDG_STATE_HOME/vram/history.db, by default "
           "~/.local/state/vram/history.db)",
           &history_},
          {"--retention", "TIME",
           "maximum age of the history, such as 30d (samples: 1 day, minutes: 30 days, hours: 365 "
           "days)",
           &retention_},
          {"--rules", "FILE",
           "alert rules that extend or override the built-in ones (TOML, docs/alerts.md)", &rules_},
          {"--webhook", "URL",
           "POST alerts to this URL as vram.alerts/1; @FILE: read the URL from a file, which must "
           "not be readable by others; may be repeated",
           &webhooks_},
          {"--alertmanager", "URL",
           "send alerts to this Alertmanager; URL or @FILE; may be repeated", &alertmanagers_},
          {"--log-format", "FORMAT", "format of the log on standard error: text or json (text)",
           &log_format_}};
}

Result<std::vector<serve::Address>> ServeCommand::addresses() const {
  if (listen_.empty())
    return std::vector<serve::Address>{
        {.ip = "127.0.0.1", .port = serve::kDefaultPort},
        {.ip = "::1", .port = serve::kDefaultPort, .may_be_missing = true}};
  std::vector<serve::Address> found;
  for (const std::string& text : listen_) {
    VRAM_TRY_ASSIGN(auto address, serve::parse_address(text));
    found.push_back(std::move(address));
  }
  return found;
}

Result<> ServeCommand::check_token(const std::vector<serve::Address>& addresses,
                                   bool has_users) const {
  if (no_token_ && !token_file_.empty())
    return fail(Code::kBadInput, "--token-file and --no-token exclude each other: use one of them");
  const auto open = std::ranges::find_if(
      addresses, [](const auto& address) { return !serve::is_loopback(address.ip); });
  if (open == addresses.end() || no_token_ || has_users || !token_file_.empty()) return {};
  return fail(Code::kBadInput,
              "{} is reachable from other machines: require a token with --token-file FILE ('umask "
              "077; openssl rand -hex 32 > FILE' creates one), or passwords or certificates with "
              "--web-config FILE, or use --no-token",
              open->text());
}

Result<serve::LogFormat> log_format_of(const std::string& text) {
  if (text == "text") return serve::LogFormat::kText;
  if (text == "json") return serve::LogFormat::kJson;
  return fail(Code::kBadInput, "--log-format: expected text or json, found '{}'", text);
}

// Whoever has shown a token or password may read what `ps` shows.
Result<watch::CommandLines> commands_of(const std::string& text, bool has_authentication) {
  if (text == "off") return watch::CommandLines::kOff;
  if (text == "name" || (text.empty() && !has_authentication)) return watch::CommandLines::kName;
  if (text == "full" || text.empty()) return watch::CommandLines::kFull;
  return fail(Code::kBadInput, "--command-lines: expected off, name or full, found '{}'", text);
}

Result<std::optional<uint32_t>> process_series_of(const std::string& text) {
  if (text.empty()) return std::nullopt;
  VRAM_TRY_ASSIGN(const auto number, parse_number("--process-series", text));
  return static_cast<uint32_t>(std::min<uint64_t>(number, std::numeric_limits<uint32_t>::max()));
}

Result<std::vector<ReceiverUrl>> urls_of(const std::string& option,
                                         const std::vector<std::string>& given) {
  std::vector<ReceiverUrl> urls;
  for (const std::string& each : given) {
    auto url = serve::url_of(each);
    if (!url) return fail(url.error().code, "{}: {}", option, url.error().message);
    urls.push_back({option, each, *std::move(url)});
  }
  return urls;
}

// "30d" is what people say of a retention.
Result<history::HistoryKeep> keep_of(const std::string& text) {
  constexpr int kHoursOfADay = 24;
  history::HistoryKeep keep;
  if (text.empty()) return keep;
  const bool is_days = text.ends_with('d');
  const auto time_ns = parse_duration_ns(is_days ? text.substr(0, text.size() - 1) + "h" : text);
  if (!time_ns || *time_ns < 60 * kSignedSecondNs)
    return fail(Code::kBadInput,
                "--retention: expected at least one minute, such as 30d or 12h, found '{}'", text);
  const std::chrono::seconds longest(*time_ns / kSignedSecondNs * (is_days ? kHoursOfADay : 1));
  keep.hours = longest;  // the coarsest goes back farthest, be it for more than a year
  for (auto* const finer : {&keep.samples, &keep.minutes, &keep.processes})
    *finer = std::min(*finer, longest);
  return keep;
}

// Where programs keep what they may lose; empty where the environment names no place.
std::string default_history() {
  const std::filesystem::path folder = user_folder("XDG_STATE_HOME", ".local/state");
  if (folder.empty()) return "";
  std::error_code error;
  std::filesystem::create_directories(folder, error);  // else opening it says why not
  return folder / "history.db";
}

Result<ServeSettings> ServeCommand::settings() const {
  VRAM_TRY_ASSIGN(auto addresses, this->addresses());
  VRAM_TRY_ASSIGN(auto web, web_config_.empty() ? Result<std::shared_ptr<serve::WebAccess>>(nullptr)
                                                : serve::WebAccess::open(web_config_));
  const bool has_users = web && web->now()->has_authentication;
  VRAM_TRY(check_token(addresses, has_users));
  VRAM_TRY_ASSIGN(const auto period, parse_period("--period", period_));
  VRAM_TRY_ASSIGN(const auto log_format, log_format_of(log_format_));
  VRAM_TRY_ASSIGN(const auto commands,
                  commands_of(command_lines_, has_users || !token_file_.empty()));
  VRAM_TRY_ASSIGN(const auto process_series, process_series_of(process_series_));
  VRAM_TRY_ASSIGN(auto webhooks, urls_of("--webhook", webhooks_));
  VRAM_TRY_ASSIGN(auto alertmanagers, urls_of("--alertmanager", alertmanagers_));
  VRAM_TRY_ASSIGN(const auto keep, keep_of(retention_));
  return ServeSettings{.addresses = std::move(addresses),
                       .period = period,
                       .gpu = gpu_,
                       .token_file = token_file_,
                       .web = std::move(web),
                       .host_names = host_names_,
                       .commands = commands,
                       .dcgm_names = dcgm_names_,
                       .process_series = process_series,
                       .history = history_.empty()    ? default_history()
                                  : history_ == "off" ? ""
                                                      : history_,
                       .needs_history = !history_.empty(),
                       .keep = keep,
                       .rules = rules_,
                       .webhooks = std::move(webhooks),
                       .alertmanagers = std::move(alertmanagers),
                       .log_format = log_format};
}

Result<int> ServeCommand::run(Console& console) {
  VRAM_TRY_ASSIGN(const auto settings, this->settings());
  VRAM_TRY_ASSIGN(const auto token,
                  token_file_.empty() ? Result<std::string>("") : serve::read_token(token_file_));
  auto code = serve_until_stopped(settings, token);
  if (code || code.error().code != Code::kIo) return code;
  console.error(code.error().message);
  return kEnvironment;
}

}  // namespace

std::unique_ptr<Command> serve_command() { return std::make_unique<ServeCommand>(); }

}  // namespace vram::cli
