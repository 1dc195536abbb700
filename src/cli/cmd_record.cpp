// vram record: a recording of a running process.
#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "cli/command.hpp"
#include "cli/live.hpp"
#include "cli/output.hpp"
#include "cli/record_attach.hpp"
#include "watch/record_request.hpp"

#include <fmt/format.h>

namespace vram::cli {
namespace {

class RecordCommand final : public Command {
 public:
  [[nodiscard]] const Manual& manual() const override;
  [[nodiscard]] std::vector<Option> options() override;
  [[nodiscard]] Result<int> run(Console& console) override;

 private:
  [[nodiscard]] Result<> check() const;
  [[nodiscard]] uint64_t timeout_ns() const;

  std::optional<uint32_t> pid_;
  watch::RecordOrder order_;
  std::optional<uint64_t> timeout_ns_;
  bool python_stacks_ = false;
  Output output_;
};

const Manual& RecordCommand::manual() const {
  static const Manual kManual = {
      "record",
      tr("record a running process for some steps or seconds"),
      "--pid N [--steps K | --seconds S] [--stacks python] -o FILE [--force] [--timeout TIME]",
      tr("Asks the flight recorder of a process of this user (root: of any user) for a recording "
         "of "
         "the next K steps or S seconds, preceded by what it has retained, and writes it to FILE. "
         "Without --steps and --seconds, it answers at once. A process without a flight recorder "
         "(vram.flight_recorder(), VRAM_FLIGHT, vram run --flight; docs/flight-recorder.md) needs "
         "no "
         "preparation if it uses PyTorch for CUDA: vram attaches to the probes of PyTorch's "
         "allocator, until S seconds have passed, Ctrl-C, or the end of the process. That requires "
         "root, or CAP_BPF and CAP_PERFMON (docs/attach.md). To record a program from its start, "
         "use "
         "vram run --record."),
      {{"vram record --pid 4711 --steps 3 -o run.vtrace", tr("the next three steps")},
       {"vram record --pid 4711 --seconds 10 -o run.vtrace", tr("the next ten seconds")},
       {"vram record --pid 4711 -o run.vtrace", tr("what its flight recorder has retained")},
       {"sudo vram record --pid 4711 --seconds 10 --stacks python -o run.vtrace",
        tr("attach to a PyTorch program that knows nothing of vram")}}};
  return kManual;
}

Result<uint64_t> parse_seconds(std::string_view option, std::string_view text) {
  VRAM_TRY_ASSIGN(const auto period, parse_period(option, text));
  return static_cast<uint64_t>(period.count());
}

std::vector<Option> RecordCommand::options() {
  Option output = output_option(output_);
  output.help = tr("the recording to write: run.vtrace");
  return {{"--pid", "N", tr("the process to record"), value(pid_, parse_number<uint32_t>)},
          {"--steps", "K", tr("record the next K steps (vram.step())"),
           value(order_.steps, parse_number<uint64_t>)},
          {"--seconds", "S", tr("record for this time"), value(order_.duration_ns, parse_seconds)},
          {"--timeout", "TIME", tr("maximum wait for the process (60s, after --seconds)"),
           value(timeout_ns_, parse_seconds)},
          {"--stacks", "KIND", tr("attach, and record the stack of each allocation: python"),
           choice<bool>(python_stacks_, {{"python", true}})},
          std::move(output),
          force_option(output_)};
}

Result<> RecordCommand::check() const {
  if (!pid_) return fail(Code::kBadInput, "expected --pid N, the process to record, found none");
  if (output_.path.empty())
    return fail(Code::kBadInput, "expected -o FILE, the recording to write, found none");
  if (order_.steps && order_.duration_ns)
    return fail(Code::kBadInput, "--steps and --seconds exclude each other: use one of them");
  if (order_.steps == 0U)
    return fail(Code::kBadInput, "--steps: expected at least 1 step, found 0");
  return check_output(output_);
}

uint64_t RecordCommand::timeout_ns() const {
  return timeout_ns_.value_or(60 * kSecondNs) + order_.duration_ns.value_or(0);
}

Result<int> RecordCommand::run(Console& console) {
  VRAM_TRY(check());
  if (python_stacks_) return record_by_attaching(*pid_, order_, true, output_, console);
  const auto recorded = watch::request_recording(board_folders(), *pid_, order_, timeout_ns());
  if (!recorded) {
    if (recorded.error().code != Code::kNotFound) return tl::unexpected(recorded.error());
    return record_by_attaching(*pid_, order_, false, output_, console);
  }
  VRAM_TRY(watch::save_recording(*recorded, output_.path, replace_for(output_.is_forced)));
  return 0;
}

}  // namespace

std::unique_ptr<Command> record_command() { return std::make_unique<RecordCommand>(); }

}  // namespace vram::cli
