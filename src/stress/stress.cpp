#include "stress/stress.hpp"

#include "base/bytes.hpp"
#include "stress/budget.hpp"
#include "stress/figures.hpp"
#include "stress/fill.hpp"
#include "stress/samples.hpp"
#include "stress/storm.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace vram::stress {
namespace {

// What of the whole time each phase gets.
constexpr int64_t kFiguresPercent = 15;
constexpr int64_t kFillPercent = 50;
constexpr int64_t kStormPercent = 100 - kFiguresPercent - kFillPercent;

void append(std::vector<Figure>& figures, std::vector<Figure> more) {
  std::erase_if(more, [](const Figure& figure) { return figure.count == 0; });
  std::ranges::move(more, std::back_inserter(figures));
}

// The phases, on a card of which nothing is held yet.
class Phases {
 public:
  Phases(Card& card, const StressOptions& options, StressReport& report)
      : card_(card), options_(options), report_(report) {}

  void run() {
    measure();
    fill();
    storm();
    report_.bad = ledger_.take();
    report_.failures = card_.failures();
  }

 private:
  [[nodiscard]] Budget enter(const char* phase, int64_t percent) {
    card_.enter(phase);
    return {phase, options_.clock, options_.stop, options_.length_ns / 100 * percent};
  }

  void measure() {
    const Budget budget = enter("figures", kFiguresPercent);
    append(report_.figures,
           measure_figures(card_, options_.leave_bytes, budget, options_.progress));
  }

  void fill() {
    const Budget budget = enter("fill", kFillPercent);
    if (budget.is_stopped() || card_.is_lost()) return;
    report_.fill =
        run_fill(card_, {options_.leave_bytes, options_.seed}, budget, options_.progress, ledger_);
    if (report_.fill.free_bytes != 0)
      report_.figures.push_back(
          share_figure("obtained of free", report_.fill.obtained_bytes, report_.fill.free_bytes));
  }

  void storm() {
    const Budget budget = enter("storm", kStormPercent);
    if (budget.is_stopped() || card_.is_lost()) return;
    Storm storm =
        run_storm(card_, {options_.leave_bytes, options_.seed}, budget, options_.progress, ledger_);
    report_.storm = std::move(storm.report);
    append(report_.figures, std::move(storm.figures));
  }

  Card& card_;
  const StressOptions& options_;
  StressReport& report_;
  Ledger ledger_;
};

}  // namespace

uint64_t default_margin(uint64_t free_bytes, uint64_t total_bytes) {
  return std::min(std::max(512 * kMiB, total_bytes / 50), free_bytes / 2);
}

StressReport run_stress(Card& card, const StressOptions& options) {
  StressReport report;
  report.requested_ns = options.length_ns;
  report.seed = options.seed;
  report.leave_bytes = options.leave_bytes;
  const int64_t begin_ns = options.clock();
  gpu::MemoryInfo info;
  if (card.memory().memory_info(card.ordinal(), &info) == Status::kOk)
    report.device.total_bytes = info.total_bytes;
  DeviceMonitor monitor(options.read_device);
  Phases(card, options, report).run();
  report.health = monitor.finish();
  report.duration_ns = options.clock() - begin_ns;
  report.was_cut_short = options.stop != nullptr && options.stop->load();
  return report;
}

}  // namespace vram::stress
