#include "cli/stress_run.hpp"

#include "base/bytes.hpp"
#include "base/file.hpp"
#include "base/language.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "cli/command.hpp"
#include "cli/live.hpp"
#include "cli/output.hpp"
#include "cli/stress_card.hpp"
#include "gpu/sim/sim_gpu.hpp"
#include "show/doctor/stress_json.hpp"
#include "show/doctor/stress_text.hpp"
#include "stress/report.hpp"
#include "stress/stress.hpp"
#include "watch/sources.hpp"
#include "watch/take_snapshot.hpp"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <optional>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace vram::cli {
namespace {

using EarlierReport = std::optional<stress::StressReport>;  // none: nothing to compare with

constexpr uint64_t kMaxReportBytes = 16 * kMiB;
constexpr double kDefaultLimit = 0.1;

Result<int64_t> parse_length(std::string_view text) {
  constexpr int64_t kMaxHours = 24;
  VRAM_TRY_ASSIGN(const auto length_ns, parse_duration_ns(text));
  if (length_ns >= kSignedSecondNs && length_ns <= kMaxHours * 3600 * kSignedSecondNs)
    return length_ns;
  return fail(Code::kBadInput, "expected 1s to {}h, found '{}'", kMaxHours, text);
}

// "10%", "10" -> 0.1
Result<double> parse_share(std::string_view text) {
  const std::string_view number = text.substr(0, text.size() - (text.ends_with('%') ? 1 : 0));
  double percent = 0;
  const char* const end = number.data() + number.size();
  const auto [stopped, error] = std::from_chars(number.data(), end, percent);
  if (error == std::errc() && stopped == end && percent >= 0 && percent <= 1000)
    return percent / 100;
  return fail(Code::kBadInput, "expected a percentage such as 10%, found '{}'", text);
}

Result<TestedGpu> parse_gpu(std::string_view text) {
  constexpr std::string_view kSim = "sim";
  constexpr uint64_t kSimulatedBytes = 2 * kGiB;
  constexpr uint64_t kMinSimulatedBytes = 16 * kMiB;
  if (text == "cuda") return TestedGpu{};
  if (text == kSim) return TestedGpu{kSimulatedBytes};
  if (!text.starts_with(kSim) || text[kSim.size()] != ':')
    return fail(Code::kBadInput, "expected cuda, sim or sim:SIZE for a test, found '{}'", text);
  VRAM_TRY_ASSIGN(const auto bytes, parse_bytes(text.substr(kSim.size() + 1)));
  if (bytes >= kMinSimulatedBytes && bytes < gpu::kUnlimited) return TestedGpu{bytes};
  return fail(Code::kBadInput, "a simulated GPU has at least {}, found '{}'",
              format_bytes(kMinSimulatedBytes), text);
}

Result<EarlierReport> read_report(const std::string& path) {
  if (path.empty()) return std::nullopt;
  const auto text = read_whole(path, kMaxReportBytes);
  auto report = text ? show::read_stress_json(*text) : tl::unexpected(text.error());
  if (!report) return fail(report.error().code, "--compare: {}", report.error().message);
  return *std::move(report);
}

std::atomic<bool> should_stop = false;
extern "C" void stop_stress(int) { should_stop.store(true); }

// While this lives, Ctrl-C and SIGTERM end the test in order; the second one, the program.
class StopOnSignal {
 public:
  StopOnSignal() {
    should_stop.store(false);
    struct sigaction action{};
    action.sa_handler = stop_stress;
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
    sigaction(SIGINT, &action, &interrupt_);
    sigaction(SIGTERM, &action, &terminate_);
  }
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;
  ~StopOnSignal() {
    sigaction(SIGINT, &interrupt_, nullptr);
    sigaction(SIGTERM, &terminate_, nullptr);
  }

 private:
  struct sigaction interrupt_{};
  struct sigaction terminate_{};
};

std::vector<stress::OtherUser> others_on(const watch::Snapshot& snapshot,
                                         const stress::StressedDevice& device) {
  std::vector<stress::OtherUser> others;
  for (const watch::Process& process : snapshot.processes) {
    if (static_cast<pid_t>(process.facts->pid) == getpid()) continue;
    for (const watch::Use& use : process.uses) {
      if (!device.index || use.device != *device.index) continue;
      others.push_back({process.facts->pid, process.facts->user, process.facts->command,
                        use.process.used_bytes});
    }
  }
  return others;
}

// Whose programs may run out of memory, unless that is wanted.
Result<> check_others(const std::vector<stress::OtherUser>& others, bool force) {
  if (others.empty() || force) return {};
  return fail(Code::kBadInput,
              "expected a GPU that no other process uses, found {}: the test uses all free memory "
              "but a margin, so they may run out of memory; wait for them, or add --force",
              fmt::join(show::other_texts(others), "; "));
}

// Before a minute is spent on it.
Result<> check_comparable(const EarlierReport& before, const stress::StressedDevice& device) {
  if (!before) return {};
  stress::StressReport now;
  now.device = device;
  const auto compared = stress::compare(*before, now, kDefaultLimit);
  if (!compared) return fail(compared.error().code, "--compare: {}", compared.error().message);
  return {};
}

stress::Progress progress_on(const Console& console) {
  struct Drawn {
    std::string phase;
    std::optional<Progress> line;
  };
  return [&console, drawn = std::make_shared<Drawn>()](const char* phase, int64_t done_ns,
                                                       int64_t total_ns) {
    if (drawn->phase != phase) {
      drawn->phase = phase;
      drawn->line.emplace(console, drawn->phase);
    }
    const auto total_s = static_cast<uint64_t>(std::max<int64_t>(total_ns / kSignedSecondNs, 1));
    const auto done_s = static_cast<uint64_t>(done_ns / kSignedSecondNs);
    drawn->line->update_count(std::min(done_s, total_s), total_s, "s");
  };
}

stress::ReadDevice device_reader(Live& live, const stress::StressedDevice& device) {
  if (!device.index) return {};
  return [&live, &device]() -> std::optional<watch::Device> {
    const watch::Snapshot snapshot = live.take_sample();
    const watch::Device* const found = find_device(snapshot, device);
    return found == nullptr ? std::nullopt : std::optional(*found);
  };
}

Result<stress::StressReport> stress_device(StressCard& opened, Live& live,
                                           const StressRequest& request, const Console& console) {
  gpu::MemoryInfo info;
  if (opened.card().memory().memory_info(opened.card().ordinal(), &info) != gpu::Status::kOk)
    return fail(
        Code::kUnsupported,
        "cannot read the GPU's free memory: cuMemGetInfo fails; check the GPU with nvidia-smi");
  stress::StressOptions options;
  options.length_ns = *request.length_ns;
  options.leave_bytes =
      request.leave_bytes.value_or(stress::default_margin(info.free_bytes, info.total_bytes));
  options.seed = request.seed.value_or(watch::monotonic_ns() % 1'000'000);
  options.stop = &should_stop;
  options.clock = [] { return static_cast<int64_t>(watch::monotonic_ns()); };
  options.progress = progress_on(console);
  options.read_device = device_reader(live, opened.device());
  const StopOnSignal signals;
  return stress::run_stress(opened.card(), options);
}

int exit_code(const stress::StressReport& report,
              const std::optional<stress::Comparison>& comparison) {
  const bool is_worse = comparison && comparison->is_failing();
  return report.verdict() == stress::Verdict::kPassed && !is_worse ? 0 : kFailed;
}

Result<int> print_result(const stress::StressReport& report, const EarlierReport& before,
                         const StressRequest& request, Console& console) {
  std::optional<stress::Comparison> comparison;
  if (before) {
    VRAM_TRY_ASSIGN(auto compared,
                    stress::compare(*before, report, request.limit.value_or(kDefaultLimit)));
    comparison = std::move(compared);
  }
  const std::string text =
      request.json ? show::stress_json(report, comparison)
                   : show::draw_stress(report, comparison, text_options(request.output, console));
  VRAM_TRY(deliver(text, request.output, console));
  return exit_code(report, comparison);
}

bool is_simulated(const StressRequest& request) {
  return request.gpu && request.gpu->simulated_bytes;
}

Result<std::unique_ptr<StressCard>> open_card(const StressRequest& request,
                                              const watch::Snapshot& snapshot) {
  if (is_simulated(request)) return simulated_card(*request.gpu->simulated_bytes);
  return cuda_card(snapshot, request.device);
}

}  // namespace

std::vector<Option> stress_options(StressRequest& request) {
  return {{"--stress", "TIME",
           tr("test a GPU's memory for this time, such as 60s: patterns, random requests, speed"),
           value(request.length_ns, parse_length)},
          {"--leave", "SIZE",
           tr("memory to leave free for others (2 % of the memory, at least 512 MiB)"),
           value(request.leave_bytes, parse_bytes)},
          {"--seed", "N", tr("seed of the random patterns and requests"),
           value(request.seed, parse_number<>)},
          {"--compare", "FILE", tr("compare with an earlier report of the same GPU (--json)"),
           file(&request.compare)},
          {"--fail-above", "SHARE",
           tr("exit with code 1 if a value became worse by more than this (10%)"),
           value(request.limit, parse_share)},
          {"--force", "", tr("test a GPU even if other processes use it"), &request.force},
          {"--device", "N", tr("--stress: this GPU, by its number in vram status"),
           value(request.device, parse_number<uint32_t>)},
          {"--gpu", "SOURCE",
           tr("--stress: cuda, or sim[:SIZE], a simulated GPU in host memory (2GiB)"),
           with_choices(value(request.gpu, parse_gpu), {"cuda", "sim"})}};
}

bool is_of_no_test(const StressRequest& request) {
  const bool has_any = request.device || request.gpu || request.leave_bytes || request.seed ||
                       request.limit || request.force || !request.compare.empty();
  return has_any && !request.length_ns;
}

Result<int> run_stress_request(const StressRequest& request, Console& console) {
  VRAM_TRY_ASSIGN(const auto before, read_report(request.compare));
  // Looked at before this process has memory there itself.
  VRAM_TRY_ASSIGN(auto live, Live::of({.driver = "nvml"}));
  const watch::Snapshot snapshot = is_simulated(request) ? watch::Snapshot{} : live.take_sample();
  auto opened = open_card(request, snapshot);
  if (!opened) {
    console.error(opened.error().message);
    return kEnvironment;
  }
  const stress::StressedDevice& device = (*opened)->device();
  const std::vector<stress::OtherUser> others = others_on(snapshot, device);
  VRAM_TRY(check_others(others, request.force));
  VRAM_TRY(check_comparable(before, device));
  const watch::Moment moment = watch::current_moment();
  auto report = stress_device(**opened, live, request, console);
  if (!report) {
    console.error(report.error().message);
    return kEnvironment;
  }
  const uint64_t total_bytes = report->device.total_bytes;
  report->device = device;
  report->device.total_bytes = total_bytes;
  report->time_ns = moment.time_ns;
  report->host = moment.host;
  report->others = others;
  return print_result(*report, before, request, console);
}

}  // namespace vram::cli
