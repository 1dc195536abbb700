// vram doctor: what is wrong with this machine's GPUs, drivers and settings, and what repairs it.
#include "cli/command.hpp"
#include "cli/live.hpp"
#include "cli/options.hpp"
#include "cli/output.hpp"
#include "doctor/collect.hpp"
#include "doctor/examine.hpp"
#include "gpu/nvml/nvml.hpp"
#include "show/doctor_json.hpp"
#include "show/doctor_text.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <unistd.h>

namespace vram::cli {
namespace {

constexpr int kBadFound = 1;
constexpr int kEnvironment = 3;

class DoctorCommand final : public Command {
 public:
  [[nodiscard]] const Manual& manual() const override;
  [[nodiscard]] std::vector<Option> options() override;
  [[nodiscard]] Result<int> run(Console& console) override;

 private:
  [[nodiscard]] Result<doctor::Pid> pid() const;

  bool json_ = false;
  bool all_ = false;
  std::string pid_;
};

const Manual& DoctorCommand::manual() const {
  static const Manual kManual = {
      "doctor",
      "what is wrong with GPUs, drivers and settings, and what repairs it",
      "[--json] [--all] [--pid PID]",
      "Looks at the driver and its libraries, the GPUs' device files, the container, MPS and MIG, "
      "limits, the health of the GPUs, and at the variables that set up PyTorch's, TensorFlow's, "
      "JAX's, CUDA's and NCCL's memory. Each finding says what is, why it matters, and the command "
      "or setting that repairs it; nothing is changed and nothing is run. docs/doctor.md has them "
      "all. Exit code 1: something is to be repaired; 3: no GPU can be used.",
      {{"vram doctor", "what is wrong, the worst first"},
       {"vram doctor --all", "with what was found, and where"},
       {"vram doctor --pid 4711", "the environment and limits of a running process"},
       {"vram doctor --json | jq '.findings[] | select(.severity == \"bad\") | .id'",
        "for programs"}}};
  return kManual;
}

std::vector<Option> DoctorCommand::options() {
  return {
      {"--json", "", "print vram.doctor/1 (docs/json.md)", &json_},
      {"--all", "", "say why of notes, too, and what each finding was found by", &all_},
      {"--pid", "PID", "examine this process's environment and limits, not this shell's", &pid_}};
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
  const char* const cuda = std::getenv("VRAM_CUDA_DRIVER");  // NOLINT(concurrency-mt-unsafe)
  if (cuda != nullptr) libraries.cuda = cuda;
  return libraries;
}

Result<doctor::MachineFacts> collect_all(doctor::Pid pid) {
  doctor::MachineFacts facts = doctor::collect("/", pid);
  doctor::ask_libraries(facts, libraries());
  if (facts.nvidia.nvml.is_hanging) return facts;  // another look would hang as well
  auto live = Live::of("");
  if (!live) return tl::unexpected(live.error());
  facts.snapshot = live->look();
  facts.holders = live->reclaimable_of(*facts.snapshot);
  return facts;
}

Result<int> DoctorCommand::run(Console& console) {
  const auto pid = this->pid();
  if (!pid) return tl::unexpected(pid.error());
  const auto facts = collect_all(*pid);
  if (!facts) return tl::unexpected(facts.error());
  const doctor::Report report = doctor::examine(*facts);
  const auto printed =
      console.print(json_ ? show::doctor_json(report)
                          : show::draw_doctor(report, all_, text_options("", console)));
  if (!printed) return tl::unexpected(printed.error());
  if (report.usable_gpus == 0) return kEnvironment;
  const bool has_bad =
      std::ranges::count(report.findings, doctor::Severity::kBad, &doctor::Finding::severity) > 0;
  return has_bad ? kBadFound : 0;
}

}  // namespace

std::unique_ptr<Command> doctor_command() { return std::make_unique<DoctorCommand>(); }

}  // namespace vram::cli
