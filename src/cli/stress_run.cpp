#include "cli/stress_run.hpp"

#include "base/bytes.hpp"
#include "base/file.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "cli/command.hpp"
#include "cli/live.hpp"
#include "cli/options.hpp"
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
#include <limits>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace vram::cli {
namespace {

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
Result<> check_comparable(const StressArguments& arguments, const stress::StressedDevice& device) {
  if (!arguments.before) return {};
  stress::StressReport now;
  now.device = device;
  const auto compared = stress::compare(*arguments.before, now, arguments.limit);
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
                                           const StressArguments& arguments,
                                           const Console& console) {
  gpu::MemoryInfo info;
  if (opened.card().memory().memory_info(opened.card().ordinal(), &info) != gpu::Status::kOk)
    return fail(
        Code::kUnsupported,
        "cannot read the GPU's free memory: cuMemGetInfo fails; check the GPU with nvidia-smi");
  stress::StressOptions options;
  options.length_ns = arguments.length_ns;
  options.leave_bytes =
      arguments.leave_bytes.value_or(stress::default_margin(info.free_bytes, info.total_bytes));
  options.seed = arguments.seed;
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

Result<int> print_result(const stress::StressReport& report, const StressArguments& arguments,
                         const StressRequest& request, Console& console) {
  std::optional<stress::Comparison> comparison;
  if (arguments.before) {
    VRAM_TRY_ASSIGN(auto compared, stress::compare(*arguments.before, report, arguments.limit));
    comparison = std::move(compared);
  }
  const std::string text =
      request.json ? show::stress_json(report, comparison)
                   : show::draw_stress(report, comparison, text_options(request.output, console));
  VRAM_TRY(deliver(text, request.output, console));
  return exit_code(report, comparison);
}

Result<std::unique_ptr<StressCard>> open_card(const StressArguments& arguments,
                                              const watch::Snapshot& snapshot) {
  if (arguments.simulated_bytes) return simulated_card(*arguments.simulated_bytes);
  return cuda_card(snapshot, arguments.device);
}

}  // namespace

std::vector<Option> stress_options(StressRequest& request) {
  return {{"--stress", "TIME",
           "test a GPU's memory for this time, such as 60s: patterns, random requests, speed",
           &request.length},
          {"--leave", "SIZE",
           "memory to leave free for others (2 % of the memory, at least 512 MiB)", &request.leave},
          {"--seed", "N", "seed of the random patterns and requests", &request.seed},
          {"--compare", "FILE", "compare with an earlier report of the same GPU (--json)",
           &request.compare},
          {"--fail-above", "SHARE",
           "exit with code 1 if a value became worse by more than this (10%)", &request.fail_above},
          {"--force", "", "test a GPU even if other processes use it", &request.force}};
}

bool is_of_no_test(const StressRequest& request) {
  const bool has_words =
      !(request.device + request.gpu + request.leave + request.seed + request.compare).empty();
  const bool has_limit = request.fail_above != StressRequest().fail_above;
  return request.length.empty() && (has_words || has_limit || request.force);
}

Result<int> run_stress_request(const StressRequest& request, Console& console) {
  VRAM_TRY_ASSIGN(const auto arguments, parse_stress_arguments(request));
  // Looked at before this process has memory there itself.
  VRAM_TRY_ASSIGN(auto live, Live::of("nvml"));
  const watch::Snapshot snapshot =
      arguments.simulated_bytes ? watch::Snapshot{} : live.take_sample();
  auto opened = open_card(arguments, snapshot);
  if (!opened) {
    console.error(opened.error().message);
    return kEnvironment;
  }
  const stress::StressedDevice& device = (*opened)->device();
  const std::vector<stress::OtherUser> others = others_on(snapshot, device);
  VRAM_TRY(check_others(others, request.force));
  VRAM_TRY(check_comparable(arguments, device));
  const watch::Moment moment = watch::current_moment();
  auto report = stress_device(**opened, live, arguments, console);
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
  return print_result(*report, arguments, request, console);
}

namespace {

constexpr int64_t kMinStressNs = kSignedSecondNs;
constexpr int64_t kMaxStressNs = 24 * 3600 * kSignedSecondNs;
constexpr uint64_t kSimulatedBytes = 2 * kGiB;
constexpr uint64_t kMinSimulatedBytes = 16 * kMiB;
constexpr uint64_t kMaxReportBytes = 16 * kMiB;
constexpr std::string_view kSim = "sim";

Result<double> parse_limit(std::string text) {
  if (text.ends_with('%')) text.pop_back();
  double percent = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, percent);
  if (error != std::errc() || stopped != end || !(percent >= 0 && percent <= 1000))
    return fail(Code::kBadInput, "--fail-above: expected a percentage such as 10%, found '{}'",
                text);
  return percent / 100;
}

Result<stress::StressReport> read_report(const std::string& path) {
  const auto text = read_whole(path, kMaxReportBytes);
  if (!text) return fail(text.error().code, "--compare: {}", text.error().message);
  return show::read_stress_json(*text);
}

Result<> parse_gpu(const std::string& gpu, StressArguments& arguments) {
  if (gpu.empty() || gpu == "cuda") return {};
  if (!gpu.starts_with(kSim) || (gpu.size() > kSim.size() && gpu[kSim.size()] != ':'))
    return fail(Code::kBadInput, "--gpu: expected cuda, sim or sim:SIZE for a test, found '{}'",
                gpu);
  arguments.simulated_bytes = kSimulatedBytes;
  if (gpu.size() == kSim.size()) return {};
  const auto bytes = parse_bytes(gpu.substr(kSim.size() + 1));
  if (!bytes) return fail(Code::kBadInput, "--gpu: {}", bytes.error().message);
  if (*bytes < kMinSimulatedBytes || *bytes >= gpu::kUnlimited)
    return fail(Code::kBadInput, "--gpu: a simulated GPU has at least {}, found '{}'",
                format_bytes(kMinSimulatedBytes), gpu);
  arguments.simulated_bytes = *bytes;
  return {};
}

Result<> parse_numbers(const StressRequest& request, StressArguments& arguments) {
  const auto length = parse_duration_ns(request.length);
  if (!length) return fail(Code::kBadInput, "--stress: {}", length.error().message);
  if (*length < kMinStressNs || *length > kMaxStressNs)
    return fail(Code::kBadInput, "--stress: expected 1s to 24h, found '{}'", request.length);
  arguments.length_ns = *length;
  if (!request.device.empty()) {
    VRAM_TRY_ASSIGN(const auto device, parse_number("--device", request.device));
    if (device > std::numeric_limits<uint32_t>::max())
      return fail(Code::kBadInput, "--device: invalid number {}", request.device);
    arguments.device = static_cast<uint32_t>(device);
  }
  arguments.seed = watch::monotonic_ns() % 1'000'000;
  if (!request.seed.empty()) {
    VRAM_TRY_ASSIGN(const auto seed, parse_number("--seed", request.seed));
    arguments.seed = seed;
  }
  if (request.leave.empty()) return {};
  const auto leave = parse_bytes(request.leave);
  if (!leave) return fail(Code::kBadInput, "--leave: {}", leave.error().message);
  arguments.leave_bytes = *leave;
  return {};
}

}  // namespace

Result<StressArguments> parse_stress_arguments(const StressRequest& request) {
  StressArguments arguments;
  VRAM_TRY(parse_numbers(request, arguments));
  VRAM_TRY(parse_gpu(request.gpu, arguments));
  VRAM_TRY_ASSIGN(const auto limit, parse_limit(request.fail_above));
  arguments.limit = limit;
  if (request.compare.empty()) return arguments;
  auto before = read_report(request.compare);
  if (!before) return fail(before.error().code, "--compare: {}", before.error().message);
  arguments.before = *std::move(before);
  return arguments;
}

}  // namespace vram::cli
