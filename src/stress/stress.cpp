#include "stress/stress.hpp"

#include "base/bytes.hpp"
#include "stress/budget.hpp"
#include "stress/card.hpp"
#include "stress/fill.hpp"
#include "stress/held.hpp"
#include "stress/report.hpp"
#include "stress/samples.hpp"
#include "stress/storm.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace vram::stress {
namespace {

constexpr uint64_t kMaxCopyBytes = 128 * kMiB;
constexpr uint64_t kMeasurements = 40;  // of each figure, if there is time
constexpr uint64_t kMinCount = 3;       // of each figure, even if there is none
constexpr std::array<uint64_t, 4> kCallSizes = {2 * kMiB, 20 * kMiB, 128 * kMiB, kGiB};
// Parts of the time: copies first, then calls.
constexpr double kCopiesShare = 0.5;

// How fast bytes move between host and device, and what the driver's calls for memory take,
// measured one at a time on an otherwise idle card. What there is no memory for is left out.
class Measuring {
 public:
  Measuring(Card& card, uint64_t leave_bytes, const Budget& budget, const Progress& progress)
      : card_(card),
        memory_(card.memory()),
        copies_(card.copies()),
        ordinal_(card.ordinal()),
        budget_(budget),
        progress_(progress) {
    gpu::MemoryInfo info;
    if (memory_.memory_info(ordinal_, &info) == Status::kOk && info.free_bytes > leave_bytes)
      room_bytes_ = info.free_bytes - leave_bytes;
  }

  std::vector<Figure> run() {
    measure_copies();
    measure_calls();
    return std::move(figures_);
  }

 private:
  // Measures until there are enough, or that share of the time is over.
  void repeat(double until, const std::function<Status()>& once) {
    for (uint64_t i = 0; i < kMeasurements; ++i) {
      const bool is_enough = i >= kMinCount && budget_.is_over_after(until);
      if (is_enough || budget_.is_stopped() || once() != Status::kOk) return;
      budget_.report_progress(progress_);
    }
  }

  void add(const Samples& samples, std::string name, uint64_t bytes, Unit unit) {
    if (samples.count() != 0) figures_.push_back(samples.figure(std::move(name), bytes, unit));
  }

  void measure_copies() {
    const uint64_t bytes = std::min(kMaxCopyBytes, room_bytes_ / 4) / kMiB * kMiB;
    if (bytes == 0) return;
    const OwnStream stream(card_);
    const Pinned pinned(card_, bytes);
    const std::unique_ptr<std::byte[]> pageable(new (std::nothrow) std::byte[bytes]());
    Held memory(card_, 2 * bytes);
    memory.take_all_but(0, [&] { return memory.count() != 0; });
    const auto chunks = memory.chunks();
    if (!stream || !pinned || pageable == nullptr || memory.count() != 1 ||
        memory.bytes() < 2 * bytes) {
      return;
    }
    const Address one = chunks.front().address;
    const Address other = one + bytes;
    const StreamHandle s = stream.get();
    std::fill_n(pinned.words(), bytes / sizeof(uint64_t), 0);
    const std::array<std::pair<const char*, std::function<Status()>>, 6> copies = {{
        {tr_later("host to device, pinned"),
         [&] { return copies_.copy_in(ordinal_, s, one, pinned.words(), bytes); }},
        {tr_later("device to host, pinned"),
         [&] { return copies_.copy_out(ordinal_, s, pinned.words(), one, bytes); }},
        {tr_later("device to device"),
         [&] { return copies_.copy(ordinal_, s, other, one, bytes); }},
        {tr_later("fill"), [&] { return copies_.fill(ordinal_, s, one, 0, bytes); }},
        {tr_later("host to device, pageable"),
         [&] { return copies_.copy_in(ordinal_, s, one, pageable.get(), bytes); }},
        {tr_later("device to host, pageable"),
         [&] { return copies_.copy_out(ordinal_, s, pageable.get(), one, bytes); }},
    }};
    for (size_t i = 0; i < copies.size(); ++i)
      measure_copy(copies.at(i).first, bytes, s, kCopiesShare * static_cast<double>(i + 1) / 6,
                   copies.at(i).second);
  }

  void measure_copy(const char* name, uint64_t bytes, StreamHandle stream, double until,
                    const std::function<Status()>& copy) {
    const auto once = [&] {
      const Status status = copy();
      const Status finished = card_.finish(stream);
      return status == Status::kOk ? finished : status;
    };
    if (once() != Status::kOk) return;  // the first pays for what is made on first use
    Samples samples;
    repeat(until, [&] {
      const int64_t begin_ns = budget_.now_ns();
      const Status status = once();
      const uint64_t speed = bytes_per_second(bytes, budget_.now_ns() - begin_ns);
      if (status == Status::kOk && speed != 0) samples.add(speed);
      return status;
    });
    add(samples, name, bytes, Unit::kBytesPerSecond);
  }

  void measure_calls() {
    const bool maps = can_map(card_);
    for (size_t i = 0; i < kCallSizes.size(); ++i) {
      const uint64_t bytes = round_up(kCallSizes.at(i), memory_.granularity_bytes());
      const double step = (1.0 - kCopiesShare) / static_cast<double>(kCallSizes.size());
      const double begin = kCopiesShare + step * static_cast<double>(i);
      if (bytes > room_bytes_ / 2) return;
      if (maps) measure_mapping(bytes, begin + step / 2);
      measure_segments(bytes, begin + step);
    }
  }

  template <typename Call>
  [[nodiscard]] Status timed(Samples& samples, Call call) {
    const int64_t begin_ns = budget_.now_ns();
    const Status status = call();
    if (status == Status::kOk) samples.add(static_cast<uint64_t>(budget_.now_ns() - begin_ns));
    return status;
  }

  // Every call of one life of a handle; what has succeeded is taken back, whatever comes after.
  void measure_mapping(uint64_t bytes, double until) {
    std::array<Samples, 7> took;
    repeat(until, [&] {
      Address at = 0;
      gpu::Handle handle = 0;
      Status status = timed(took[0], [&] { return memory_.reserve(bytes, &at); });
      if (status != Status::kOk) return status;
      status = timed(took[1], [&] { return memory_.create(ordinal_, bytes, &handle); });
      if (status == Status::kOk) {
        status = timed(took[2], [&] { return memory_.map(at, bytes, handle); });
        if (status == Status::kOk) {
          status = timed(took[3], [&] { return memory_.set_access(at, bytes, ordinal_); });
          (void)timed(took[4], [&] { return memory_.unmap(at, bytes); });
        }
        (void)timed(took[5], [&] { return memory_.release(handle); });
      }
      (void)timed(took[6], [&] { return memory_.unreserve(at, bytes); });
      return status;
    });
    constexpr std::array<const char*, 7> kNames = {
        "cuMemAddressReserve", "cuMemCreate",  "cuMemMap",        "cuMemSetAccess",
        "cuMemUnmap",          "cuMemRelease", "cuMemAddressFree"};
    for (size_t i = 0; i < took.size(); ++i)
      add(took.at(i), kNames.at(i), bytes, Unit::kNanoseconds);
  }

  void measure_segments(uint64_t bytes, double until) {
    Samples allocs;
    Samples frees;
    repeat(until, [&] {
      Address at = 0;
      const Status status =
          timed(allocs, [&] { return memory_.alloc_segment(ordinal_, bytes, &at); });
      return status != Status::kOk
                 ? status
                 : timed(frees, [&] { return memory_.free_segment(ordinal_, at); });
    });
    add(allocs, "cuMemAlloc", bytes, Unit::kNanoseconds);
    add(frees, "cuMemFree", bytes, Unit::kNanoseconds);
  }

  Card& card_;
  gpu::Memory& memory_;
  gpu::Copies& copies_;
  uint32_t ordinal_;
  const Budget& budget_;
  const Progress& progress_;
  uint64_t room_bytes_ = 0;
  std::vector<Figure> figures_;
};

std::vector<Figure> measure_figures(Card& card, uint64_t leave_bytes, const Budget& budget,
                                    const Progress& progress) {
  return Measuring(card, leave_bytes, budget, progress).run();
}

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
    const Budget budget = enter(tr_later("fill"), kFillPercent);
    if (budget.is_stopped() || card_.is_lost()) return;
    report_.fill =
        run_fill(card_, {options_.leave_bytes, options_.seed}, budget, options_.progress, ledger_);
    if (report_.fill.free_bytes != 0)
      report_.figures.push_back(share_figure(tr_later("obtained of free"),
                                             report_.fill.obtained_bytes, report_.fill.free_bytes));
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
