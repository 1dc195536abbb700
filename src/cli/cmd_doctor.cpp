// vram doctor: what is wrong with this machine's GPUs, drivers and settings, and what repairs it;
// with --stress what a GPU's memory does under pressure (stress_run).
#include "base/environment.hpp"
#include "cli/command.hpp"
#include "cli/exit_codes.hpp"
#include "cli/live.hpp"
#include "cli/options.hpp"
#include "cli/output.hpp"
#include "cli/stress_run.hpp"
#include "doctor/collect.hpp"
#include "doctor/examine.hpp"
#include "gpu/nvml/nvml.hpp"
#include "show/doctor_json.hpp"
#include "show/doctor_text.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
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
  [[nodiscard]] Result<doctor::Pid> pid() const;
  [[nodiscard]] Result<int> examine(Console& console) const;

  bool all_ = false;
  std::string pid_;
  StressRequest stress_;  // and what both share: --json, --output
};

const Manual& DoctorCommand::manual() const {
  static const Manual kManual = {
      "doctor",
      "what is wrong with GPUs, drivers and settings, and what repairs it",
      "[--json] [--all] [--pid PID] | --stress TIME [OPTIONS]",
      "Looks at the driver and its libraries, the GPUs' device files, the container, MPS and MIG, "
      "limits, the health of the GPUs, and at the variables that set up PyTorch's, TensorFlow's, "
      "JAX's, CUDA's and NCCL's memory. Each finding says what is, why it matters, and the command "
      "or setting that repairs it; nothing is changed and nothing is run. docs/doctor.md has them "
      "all. Exit code 1: something is to be repaired; 3: no GPU can be used. --stress presses one "
      "GPU's memory for that long instead (docs/stress.md): fills all that is free but a margin "
      "with "
      "patterns and reads them back, allocates and frees blocks of every size through the pool, "
      "measures bandwidth and what the driver's calls take, and watches temperature, power and "
      "error "
      "counters meanwhile. Exit code 1 then: errors, something worse than in the report to compare "
      "with, cut short, or nothing compared.",
      {{"vram doctor", "what is wrong, the worst first"},
       {"vram doctor --all", "with what was found, and where"},
       {"vram doctor --pid 4711", "the environment and limits of a running process"},
       {"vram doctor --json | jq '.findings[].id'", "for programs"},
       {"vram doctor --stress 60s", "the memory of the GPU that CUDA calls 0 under pressure"},
       {"vram doctor --stress 60s --json -o today.json --compare yesterday.json",
        "has it become slower or worse?"},
       {"vram doctor --stress 10s --gpu sim:256MiB", "no GPU: on simulated memory"}}};
  return kManual;
}

std::vector<Option> DoctorCommand::options() {
  std::vector<Option> options = {
      {"--json", "", "print vram.doctor/1, or vram.stress/1 (docs/json.md)", &stress_.json},
      output_option(stress_.output),
      {"--all", "", "say why of notes, too, and what each finding was found by", &all_},
      {"--pid", "PID", "examine this process's environment and limits, not this shell's", &pid_}};
  std::ranges::move(stress_options(stress_), std::back_inserter(options));
  options.push_back(
      {"--device", "N", "--stress: this GPU, by its number in vram status", &stress_.device});
  options.push_back({"--gpu", "SOURCE",
                     "--stress: cuda, or sim or sim:SIZE: a simulated GPU of real bytes (2GiB)",
                     &stress_.gpu});
  return options;
}

Result<doctor::Pid> DoctorCommand::pid() const {
  if (pid_.empty()) return std::nullopt;
  const auto number = parse_number("--pid", pid_);
  if (!number) return tl::unexpected(number.error());
  const bool is_there = *number > 0 && *number <= std::numeric_limits<uint32_t>::max() &&
                        access(("/proc/" + std::to_string(*number)).c_str(), F_OK) == 0;
  if (!is_there)
    return fail(Code::kBadInput, "--pid: expected a process that runs, found none of number {}",
                *number);
  return static_cast<uint32_t>(*number);
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
  auto live = Live::of("");
  if (!live) return tl::unexpected(live.error());
  facts.snapshot = live->take_sample();
  facts.holders = live->reclaimable_of(*facts.snapshot);
  return facts;
}

Result<> DoctorCommand::check() const {
  const bool is_stress = !stress_.length.empty();
  if (is_stress && (all_ || !pid_.empty()))
    return fail(Code::kBadInput, "--stress tests a GPU's memory and nothing else: leave {} out",
                all_ ? "--all" : "--pid");
  if (is_of_no_test(stress_))
    return fail(Code::kBadInput,
                "--device, --gpu, --leave, --seed, --compare, --fail-above and --force are of the "
                "test: expected --stress TIME as well, as in vram doctor --stress 60s");
  return {};
}

Result<int> DoctorCommand::run(Console& console) {
  if (const auto checked = check(); !checked) return tl::unexpected(checked.error());
  if (const auto checked = check_output(stress_.output); !checked)
    return tl::unexpected(checked.error());
  return stress_.length.empty() ? examine(console) : run_stress_request(stress_, console);
}

Result<int> DoctorCommand::examine(Console& console) const {
  const auto pid = this->pid();
  if (!pid) return tl::unexpected(pid.error());
  const auto facts = collect_all(*pid);
  if (!facts) return tl::unexpected(facts.error());
  const doctor::Report report = doctor::examine(*facts);
  const std::string text =
      stress_.json ? show::doctor_json(report)
                   : show::draw_doctor(report, all_, text_options(stress_.output, console));
  if (const auto done = deliver(text, stress_.output, console); !done)
    return tl::unexpected(done.error());
  if (report.usable_gpus == 0) return kEnvironment;
  const bool has_bad =
      std::ranges::count(report.findings, doctor::Severity::kBad, &doctor::Finding::severity) > 0;
  return has_bad ? kFailed : 0;
}

}  // namespace

std::unique_ptr<Command> doctor_command() { return std::make_unique<DoctorCommand>(); }

}  // namespace vram::cli
