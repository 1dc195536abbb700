// vram free: who could give GPU memory back; and asking them to.
#include "base/bytes.hpp"
#include "base/result.hpp"
#include "cli/command.hpp"
#include "cli/live.hpp"
#include "cli/options.hpp"
#include "cli/output.hpp"
#include "show/live/free.hpp"
#include "watch/reclaim.hpp"

#include <algorithm>
#include <limits>

namespace vram::cli {
namespace {

constexpr int64_t kMaxWaitNs = 3'600'000'000'000;

class FreeCommand final : public Command {
 public:
  [[nodiscard]] const Manual& manual() const override;
  [[nodiscard]] std::vector<Option> options() override;
  [[nodiscard]] Result<int> run(Console& console) override;

 private:
  [[nodiscard]] bool has_targets() const { return all_ || !pids_.empty(); }
  [[nodiscard]] Result<> check() const;
  [[nodiscard]] Result<watch::TrimChoice> choice() const;
  [[nodiscard]] Result<uint64_t> timeout_ns() const;
  [[nodiscard]] Result<int> list(const watch::Reclaimable& found, Console& console) const;
  [[nodiscard]] Result<int> request(const watch::Reclaimable& found,
                                    const watch::TrimChoice& choice, uint64_t timeout_ns,
                                    Console& console) const;

  std::vector<std::string> pids_;
  bool all_ = false;
  std::string device_;
  std::string bytes_;
  std::string timeout_ = "10s";
  bool json_ = false;
  std::string gpu_;
};

const Manual& FreeCommand::manual() const {
  static const Manual kManual = {
      "free",
      "ask processes to release GPU memory",
      "[PID...|--all] [--device N] [--bytes SIZE] [--timeout TIME] [--json]",
      "Without PID and --all, lists what each process holds and could release (memory that its "
      "framework caches and no tensor uses), idle processes that hold memory, and status pages "
      "that dead processes left behind. Processes with a status page (vram.Board(), "
      "docs/measure.md) "
      "can be asked by their own user and by root: each one empties its cache when it next updates "
      "the page, at the end of a step or region, and answers with the released amount. No process "
      "is stopped or harmed; its next steps are slower until the cache has grown again. Exit code "
      "1: a process did not answer, or less than --bytes was released.",
      {{"vram free", "list only"},
       {"vram free --all", "ask all processes that cache memory"},
       {"vram free --all --bytes 4GiB", "ask as few processes as needed"},
       {"vram free 4711 --timeout 60s", "ask one process with long steps"}}};
  return kManual;
}

std::vector<Option> FreeCommand::options() {
  return {{"PID", "", "the processes to ask", &pids_, true},
          {"--all", "", "ask all processes that cache memory; also removes dead processes' pages",
           &all_},
          {"--device", "N", "only memory of this GPU, by its number in vram status", &device_},
          {"--bytes", "SIZE", "stop when this much is released, such as 2GiB", &bytes_},
          {"--timeout", "TIME", "maximum wait for answers (10s)", &timeout_},
          {"--json", "", "print vram.free/1 (docs/json.md)", &json_},
          {"--gpu", "SOURCE", "source of the used memory: nvml or drm (default: both)", &gpu_}};
}

Result<> FreeCommand::check() const {
  if (all_ && !pids_.empty())
    return fail(Code::kBadInput, "--all and PID exclude each other: use one of them");
  if (!has_targets() && (!device_.empty() || !bytes_.empty()))
    return fail(Code::kBadInput, "{} requires PID or --all",
                device_.empty() ? "--bytes" : "--device");
  return {};
}

Result<uint32_t> number_of(std::string_view option, std::string_view text) {
  VRAM_TRY_ASSIGN(const auto number, parse_number(option, text));
  if (number > std::numeric_limits<uint32_t>::max())
    return fail(Code::kBadInput, "{}: invalid number {}", option, text);
  return static_cast<uint32_t>(number);
}

Result<watch::TrimChoice> FreeCommand::choice() const {
  watch::TrimChoice choice;
  for (const std::string& pid : pids_) {
    VRAM_TRY_ASSIGN(const auto number, number_of("PID", pid));
    const bool is_new = std::ranges::count(choice.pids, number) == 0;
    if (is_new) choice.pids.push_back(number);
  }
  if (!device_.empty()) {
    VRAM_TRY_ASSIGN(const auto number, number_of("--device", device_));
    choice.device = number;
  }
  if (!bytes_.empty()) {
    const auto bytes = parse_bytes(bytes_);
    if (!bytes) return fail(Code::kBadInput, "--bytes: {}", bytes.error().message);
    choice.bytes = *bytes;
  }
  return choice;
}

Result<uint64_t> FreeCommand::timeout_ns() const {
  const auto timeout = parse_duration_ns(timeout_);
  if (!timeout) return fail(Code::kBadInput, "--timeout: {}", timeout.error().message);
  if (*timeout < 0 || *timeout > kMaxWaitNs)
    return fail(Code::kBadInput, "--timeout: expected at most 1h, found '{}'", timeout_);
  return static_cast<uint64_t>(*timeout);
}

Result<int> FreeCommand::list(const watch::Reclaimable& found, Console& console) const {
  VRAM_TRY(console.print(json_ ? show::free_json(found)
                               : show::draw_reclaimable(found, text_options({}, console))));
  return 0;
}

Result<int> FreeCommand::request(const watch::Reclaimable& found, const watch::TrimChoice& choice,
                                 uint64_t timeout_ns, Console& console) const {
  VRAM_TRY_ASSIGN(const auto orders, watch::choose(found, choice));
  const std::vector<watch::TrimAnswer> answers = watch::request_trim(orders, timeout_ns);
  const size_t swept = all_ ? watch::sweep(board_folders()) : 0;
  const auto printed =
      console.print(json_ ? show::free_json(found, answers, swept)
                          : show::draw_answers(found, answers, swept, text_options({}, console)));
  if (!printed) return tl::unexpected(printed.error());
  const bool all_answered = std::ranges::all_of(answers, [](const watch::TrimAnswer& answer) {
    return answer.outcome == watch::TrimOutcome::kAnswered;
  });
  const bool is_enough = watch::sum_of(answers) >= choice.bytes.value_or(0);
  return all_answered && is_enough ? 0 : kFailed;
}

Result<int> FreeCommand::run(Console& console) {
  VRAM_TRY(check());
  VRAM_TRY_ASSIGN(const auto choice, this->choice());
  VRAM_TRY_ASSIGN(const auto timeout, timeout_ns());
  VRAM_TRY_ASSIGN(auto live, Live::of(gpu_));
  const watch::Reclaimable found = live.read_reclaimable();
  return has_targets() ? request(found, choice, timeout, console) : list(found, console);
}

}  // namespace

std::unique_ptr<Command> free_command() { return std::make_unique<FreeCommand>(); }

}  // namespace vram::cli
