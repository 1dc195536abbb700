// vram free: who could give GPU memory back; and asking them to.
#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/result.hpp"
#include "cli/command.hpp"
#include "cli/live.hpp"
#include "cli/output.hpp"
#include "show/live/free.hpp"
#include "watch/reclaim.hpp"

#include <algorithm>

namespace vram::cli {
namespace {

constexpr int64_t kMaxWaitNs = 3'600'000'000'000;

class FreeCommand final : public Command {
 public:
  [[nodiscard]] const Manual& manual() const override;
  [[nodiscard]] std::vector<Option> options() override;
  [[nodiscard]] Result<int> run(Console& console) override;

 private:
  [[nodiscard]] bool has_targets() const { return all_ || !choice_.pids.empty(); }
  [[nodiscard]] Result<> check() const;
  [[nodiscard]] Result<int> list(const watch::Reclaimable& found, Console& console) const;
  [[nodiscard]] Result<int> request(const watch::Reclaimable& found, Console& console) const;

  watch::TrimChoice choice_;
  bool all_ = false;
  uint64_t timeout_ns_ = 10'000'000'000;
  bool json_ = false;
  LiveSource gpu_;
};

const Manual& FreeCommand::manual() const {
  static const Manual kManual = {
      "free",
      tr("ask processes to release GPU memory"),
      "[PID...|--all] [--device N] [--bytes SIZE] [--timeout TIME] [--json]",
      tr("Without PID and --all, lists what each process holds and could release (memory that its "
         "framework caches and no tensor uses), idle processes that hold memory, and status pages "
         "that dead processes left behind. Processes with a status page (vram.Board(), "
         "docs/measure.md) "
         "can be asked by their own user and by root: each one empties its cache when it next "
         "updates "
         "the page, at the end of a step or region, and answers with the released amount. No "
         "process "
         "is stopped or harmed; its next steps are slower until the cache has grown again. Exit "
         "code "
         "1: a process did not answer, or less than --bytes was released."),
      {{"vram free", tr("list only")},
       {"vram free --all", tr("ask all processes that cache memory")},
       {"vram free --all --bytes 4GiB", tr("ask as few processes as needed")},
       {"vram free 4711 --timeout 60s", tr("ask one process with long steps")}}};
  return kManual;
}

Result<uint64_t> parse_timeout(std::string_view text) {
  VRAM_TRY_ASSIGN(const auto timeout, parse_duration_ns(text));
  if (timeout < 0 || timeout > kMaxWaitNs)
    return fail(Code::kBadInput, "expected at most 1h, found '{}'", text);
  return static_cast<uint64_t>(timeout);
}

std::vector<Option> FreeCommand::options() {
  return {
      {"PID", "", tr("the processes to ask"), value(choice_.pids, parse_number<uint32_t>), true},
      {"--all", "", tr("ask all processes that cache memory; also removes dead processes' pages"),
       &all_},
      {"--device", "N", tr("only memory of this GPU, by its number in vram status"),
       value(choice_.device, parse_number<uint32_t>)},
      {"--bytes", "SIZE", tr("stop when this much is released, such as 2GiB"),
       value(choice_.bytes, parse_bytes)},
      {"--timeout", "TIME", tr("maximum wait for answers (10s)"),
       value(timeout_ns_, parse_timeout)},
      {"--json", "", tr("print vram.free/1 (docs/json.md)"), for_programs(&json_)},
      source_option(tr("source of the used memory: nvml or drm (default: both)"), gpu_)};
}

Result<> FreeCommand::check() const {
  if (all_ && !choice_.pids.empty())
    return fail(Code::kBadInput, "--all and PID exclude each other: use one of them");
  if (!has_targets() && (choice_.device || choice_.bytes))
    return fail(Code::kBadInput, "{} requires PID or --all",
                choice_.device ? "--device" : "--bytes");
  return {};
}

Result<int> FreeCommand::list(const watch::Reclaimable& found, Console& console) const {
  VRAM_TRY(console.print(json_ ? show::free_json(found)
                               : show::draw_reclaimable(found, text_options({}, console))));
  return 0;
}

Result<int> FreeCommand::request(const watch::Reclaimable& found, Console& console) const {
  VRAM_TRY_ASSIGN(const auto orders, watch::choose(found, choice_));
  const std::vector<watch::TrimAnswer> answers = watch::request_trim(orders, timeout_ns_);
  const size_t swept = all_ ? watch::sweep(board_folders()) : 0;
  VRAM_TRY(
      console.print(json_ ? show::free_json(found, answers, swept)
                          : show::draw_answers(found, answers, swept, text_options({}, console))));
  const bool all_answered = std::ranges::all_of(answers, [](const watch::TrimAnswer& answer) {
    return answer.outcome == watch::TrimOutcome::kAnswered;
  });
  const bool is_enough = watch::sum_of(answers) >= choice_.bytes.value_or(0);
  return all_answered && is_enough ? 0 : kFailed;
}

Result<int> FreeCommand::run(Console& console) {
  VRAM_TRY(check());
  std::ranges::sort(choice_.pids);
  const auto repeated = std::ranges::unique(choice_.pids);
  choice_.pids.erase(repeated.begin(), repeated.end());
  VRAM_TRY_ASSIGN(auto live, Live::of(gpu_));
  const watch::Reclaimable found = live.read_reclaimable();
  return has_targets() ? request(found, console) : list(found, console);
}

}  // namespace

std::unique_ptr<Command> free_command() { return std::make_unique<FreeCommand>(); }

}  // namespace vram::cli
