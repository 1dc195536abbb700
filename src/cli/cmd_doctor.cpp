// vram doctor: what is wrong with this machine's GPUs, drivers and settings, and what repairs it;
// with --stress what a GPU's memory does under pressure (stress_run).
#include "base/environment.hpp"
#include "base/language.hpp"
#include "base/result.hpp"
#include "cli/command.hpp"
#include "cli/live.hpp"
#include "cli/output.hpp"
#include "cli/stress_run.hpp"
#include "doctor/collect.hpp"
#include "doctor/examine.hpp"
#include "gpu/nvml/nvml.hpp"
#include "show/doctor/doctor.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <unistd.h>

namespace vram::cli {
namespace {

class DoctorCommand final : public Command {
 public:
  [[nodiscard]] const Manual& manual() const override;
  [[nodiscard]] std::vector<Option> options() override;
  [[nodiscard]] Result<int> run(Console& console) override;

 private:
  [[nodiscard]] Result<> check() const;
  [[nodiscard]] Result<int> examine(Console& console) const;

  bool all_ = false;
  doctor::Pid pid_;
  StressRequest stress_;  // and what both share: --json, --output
};

const Manual& DoctorCommand::manual() const {
  static const Manual kManual = {
      "doctor",
      tr("find problems of GPUs, drivers and settings, and how to repair them"),
      "[--json] [--all] [--pid PID] | --stress TIME [OPTIONS]",
      tr("Checks the driver and its libraries, the GPUs' device files, the container, MPS and MIG, "
         "limits, the health of the GPUs, and the variables that configure the memory of PyTorch, "
         "TensorFlow, JAX, CUDA and NCCL. Each finding states the problem, its consequence, and "
         "the "
         "command or setting that repairs it; vram changes nothing and runs nothing. "
         "docs/doctor.md "
         "lists all findings. Exit code 1: something needs a repair; 3: no GPU is usable. --stress "
         "tests one GPU's memory for the given time instead (docs/stress.md): it fills all free "
         "memory but a margin with patterns and reads them back, allocates and frees blocks of "
         "every "
         "size through the pool, measures bandwidth and the duration of driver calls, and monitors "
         "temperature, power and error counters. Exit code 1 then: errors, a value worse than in "
         "the "
         "compared report, an incomplete test, or nothing to compare."),
      {{"vram doctor", tr("all problems, the worst first")},
       {"vram doctor --all", tr("with all values, and where they were found")},
       {"vram doctor --pid 4711", tr("the environment and limits of a running process")},
       {"vram doctor --json | jq '.findings[].id'", tr("for programs")},
       {"vram doctor --stress 60s", tr("test the memory of CUDA's GPU 0")},
       {"vram doctor --stress 60s --json -o today.json --compare yesterday.json",
        tr("compare with an earlier test")},
       {"vram doctor --stress 10s --gpu sim:256MiB", tr("no GPU: tests simulated memory")}}};
  return kManual;
}

Result<uint32_t> parse_running(std::string_view option, std::string_view text) {
  auto pid = parse_number<uint32_t>(option, text);
  if (!pid || (*pid > 0 && access(fmt::format("/proc/{}", *pid).c_str(), F_OK) == 0)) return pid;
  return fail(Code::kBadInput, "{}: expected a running process, found none with pid {}", option,
              *pid);
}

std::vector<Option> DoctorCommand::options() {
  std::vector<Option> options = {
      {"--json", "", tr("print vram.doctor/1, or vram.stress/1 (docs/json.md)"),
       for_programs(&stress_.json)},
      output_option(stress_.output),
      {"--all", "", tr("also explain notes, and show the values behind each finding"), &all_},
      {"--pid", "PID",
       tr("check the environment and limits of this process instead of the shell's"),
       value(pid_, parse_running)}};
  std::ranges::move(stress_options(stress_), std::back_inserter(options));
  return options;
}

doctor::Libraries libraries() {
  doctor::Libraries libraries{.nvml = gpu::nvml::Nvml::library()};
  if (std::string cuda = trusted_environment("VRAM_CUDA_DRIVER"); !cuda.empty())
    libraries.cuda = std::move(cuda);
  return libraries;
}

Result<doctor::MachineFacts> collect_all(doctor::Pid pid) {
  doctor::MachineFacts facts = doctor::collect("/", pid);
  doctor::query_libraries(facts, libraries());
  if (facts.nvidia.nvml.is_hanging) return facts;  // another look would hang as well
  VRAM_TRY_ASSIGN(auto live, Live::of());
  facts.snapshot = live.take_sample();
  facts.holders = live.reclaimable_of(*facts.snapshot);
  return facts;
}

Result<> DoctorCommand::check() const {
  if (stress_.length_ns && (all_ || pid_))
    return fail(Code::kBadInput, "--stress and {} exclude each other: use one of them",
                all_ ? "--all" : "--pid");
  if (is_of_no_test(stress_))
    return fail(Code::kBadInput,
                "--device, --gpu, --leave, --seed, --compare, --fail-above and --force require "
                "--stress TIME, as in vram doctor --stress 60s");
  return {};
}

Result<int> DoctorCommand::run(Console& console) {
  VRAM_TRY(check());
  VRAM_TRY(check_output(stress_.output));
  return stress_.length_ns ? run_stress_request(stress_, console) : examine(console);
}

Result<int> DoctorCommand::examine(Console& console) const {
  VRAM_TRY_ASSIGN(const auto facts, collect_all(pid_));
  const doctor::Report report = doctor::examine(facts);
  const std::string text =
      stress_.json ? show::doctor_json(report)
                   : show::draw_doctor(report, all_, text_options(stress_.output, console));
  VRAM_TRY(deliver(text, stress_.output, console));
  if (report.usable_gpus == 0) return kEnvironment;
  const bool has_bad =
      std::ranges::count(report.findings, doctor::Severity::kBad, &doctor::Finding::severity) > 0;
  return has_bad ? kFailed : 0;
}

}  // namespace

std::unique_ptr<Command> doctor_command() { return std::make_unique<DoctorCommand>(); }

}  // namespace vram::cli
