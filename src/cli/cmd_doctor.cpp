// vram doctor: what is wrong with a machine's GPUs; under pressure, too.
#include "cli/command.hpp"
#include "cli/stress_run.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace vram::cli {
namespace {

class DoctorCommand final : public Command {
 public:
  [[nodiscard]] const Manual& manual() const override;
  [[nodiscard]] std::vector<Option> options() override;
  [[nodiscard]] Result<int> run(Console& console) override;

 private:
  StressRequest stress_;
};

const Manual& DoctorCommand::manual() const {
  static const Manual kManual = {
      "doctor",
      "what is wrong with a GPU's memory",
      "--stress TIME [OPTIONS]",
      "--stress presses one GPU's memory for that long (docs/stress.md): fills all that is free "
      "but "
      "a margin with patterns and reads them back, allocates and frees blocks of every size "
      "through "
      "the pool, measures bandwidth and what the driver's calls take, and watches temperature, "
      "power and error counters meanwhile. Exit code 1: errors were found, something became worse "
      "than in the report to compare with, it was cut short, or compared nothing; 3: there is no "
      "GPU.",
      {{"vram doctor --stress 60s", "the GPU that CUDA calls 0"},
       {"vram doctor --stress 60s --json -o today.json --compare yesterday.json",
        "has it become slower or worse?"},
       {"vram doctor --stress 10s --gpu sim:256MiB", "no GPU: on simulated memory"}}};
  return kManual;
}

std::vector<Option> DoctorCommand::options() {
  std::vector<Option> options = stress_options(stress_);
  std::vector<Option> shared = {
      {"--device", "N", "this GPU, by its number in vram status", &stress_.device},
      {"--gpu", "SOURCE", "cuda, or sim or sim:SIZE: a simulated GPU of real bytes (2GiB)",
       &stress_.gpu},
      {"--json", "", "print vram.stress/1 (docs/json.md)", &stress_.json},
      {"-o,--output", "FILE",
       "write there instead of standard output; the file appears when it is complete",
       &stress_.output}};
  std::ranges::move(shared, std::back_inserter(options));
  return options;
}

Result<int> DoctorCommand::run(Console& console) {
  if (stress_.length.empty())
    return fail(Code::kBadInput, "expected --stress TIME, as in vram doctor --stress 60s");
  return run_stress_request(stress_, console);
}

}  // namespace

std::unique_ptr<Command> doctor_command() { return std::make_unique<DoctorCommand>(); }

}  // namespace vram::cli
