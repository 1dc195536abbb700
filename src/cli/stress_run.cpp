#include "cli/stress_run.hpp"

#include "cli/exit_codes.hpp"
#include "cli/live.hpp"
#include "cli/output.hpp"
#include "cli/progress.hpp"
#include "cli/stress_arguments.hpp"
#include "cli/stress_card.hpp"
#include "doctor/stress/compare.hpp"
#include "doctor/stress/stress.hpp"
#include "show/stress_json.hpp"
#include "show/stress_text.hpp"
#include "watch/take_snapshot.hpp"

#include <algorithm>
#include <csignal>
#include <unistd.h>
#include <utility>

namespace vram::cli {
namespace {

constexpr int64_t kNsPerSecond = 1'000'000'000;

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

std::vector<doctor::OtherUser> others_on(const watch::Snapshot& snapshot,
                                         const doctor::StressedDevice& device) {
  std::vector<doctor::OtherUser> others;
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
Result<> check_others(const std::vector<doctor::OtherUser>& others, bool force) {
  if (others.empty() || force) return {};
  return fail(Code::kBadInput,
              "expected a GPU that no other process uses, found {}: the test uses all free memory "
              "but a margin, so they may run out of memory; wait for them, or add --force",
              fmt::join(show::other_texts(others), "; "));
}

// Before a minute is spent on it.
Result<> check_comparable(const StressArguments& arguments, const doctor::StressedDevice& device) {
  if (!arguments.before) return {};
  doctor::StressReport now;
  now.device = device;
  const auto compared = doctor::compare(*arguments.before, now, arguments.limit);
  if (!compared) return fail(compared.error().code, "--compare: {}", compared.error().message);
  return {};
}

doctor::Progress progress_on(const Console& console) {
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
    const auto total_s = static_cast<uint64_t>(std::max<int64_t>(total_ns / kNsPerSecond, 1));
    const auto done_s = static_cast<uint64_t>(done_ns / kNsPerSecond);
    drawn->line->update_count(std::min(done_s, total_s), total_s, "s");
  };
}

doctor::ReadDevice device_reader(Live& live, const doctor::StressedDevice& device) {
  if (!device.index) return {};
  return [&live, &device]() -> std::optional<watch::Device> {
    const watch::Snapshot snapshot = live.take_sample();
    const watch::Device* const found = find_device(snapshot, device);
    return found == nullptr ? std::nullopt : std::optional(*found);
  };
}

Result<doctor::StressReport> stress_device(StressCard& opened, Live& live,
                                           const StressArguments& arguments,
                                           const Console& console) {
  gpu::MemoryInfo info;
  if (opened.card().memory().memory_info(opened.card().ordinal(), &info) != gpu::Status::kOk)
    return fail(
        Code::kUnsupported,
        "cannot read the GPU's free memory: cuMemGetInfo fails; check the GPU with nvidia-smi");
  doctor::StressOptions options;
  options.length_ns = arguments.length_ns;
  options.leave_bytes =
      arguments.leave_bytes.value_or(doctor::default_margin(info.free_bytes, info.total_bytes));
  options.seed = arguments.seed;
  options.stop = &should_stop;
  options.clock = [] { return static_cast<int64_t>(watch::monotonic_ns()); };
  options.progress = progress_on(console);
  options.read_device = device_reader(live, opened.device());
  const StopOnSignal signals;
  return doctor::run_stress(opened.card(), options);
}

int exit_code(const doctor::StressReport& report,
              const std::optional<doctor::Comparison>& comparison) {
  const bool is_worse = comparison && comparison->is_failing();
  return report.verdict() == doctor::Verdict::kPassed && !is_worse ? 0 : kFailed;
}

Result<int> print_result(const doctor::StressReport& report, const StressArguments& arguments,
                         const StressRequest& request, Console& console) {
  std::optional<doctor::Comparison> comparison;
  if (arguments.before) {
    auto compared = doctor::compare(*arguments.before, report, arguments.limit);
    if (!compared) return tl::unexpected(std::move(compared.error()));
    comparison = *std::move(compared);
  }
  const std::string text =
      request.json ? show::stress_json(report, comparison)
                   : show::draw_stress(report, comparison, text_options(request.output, console));
  if (const auto done = deliver(text, request.output, console); !done)
    return tl::unexpected(done.error());
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
  const auto arguments = parse_stress_arguments(request);
  if (!arguments) return tl::unexpected(arguments.error());
  // Looked at before this process has memory there itself.
  auto live = Live::of("nvml");
  if (!live) return tl::unexpected(live.error());
  const watch::Snapshot snapshot =
      arguments->simulated_bytes ? watch::Snapshot{} : live->take_sample();
  auto opened = open_card(*arguments, snapshot);
  if (!opened) {
    console.error(opened.error().message);
    return kEnvironment;
  }
  const doctor::StressedDevice& device = (*opened)->device();
  const std::vector<doctor::OtherUser> others = others_on(snapshot, device);
  if (const auto checked = check_others(others, request.force); !checked)
    return tl::unexpected(checked.error());
  if (const auto checked = check_comparable(*arguments, device); !checked)
    return tl::unexpected(checked.error());
  const watch::Moment moment = watch::current_moment();
  auto report = stress_device(**opened, *live, *arguments, console);
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
  return print_result(*report, *arguments, request, console);
}

}  // namespace vram::cli
