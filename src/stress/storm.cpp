#include "stress/storm.hpp"

#include "base/bytes.hpp"
#include "pool/shared_pool.hpp"
#include "stress/held.hpp"
#include "stress/samples.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string>
#include <utility>

namespace vram::stress {
namespace {

constexpr uint32_t kStreams = 4;
constexpr uint64_t kMinBytes = 512;
constexpr uint64_t kMarkBytes = 64;  // at each end of a block
constexpr uint64_t kWordsOfMark = kMarkBytes / sizeof(uint64_t);
constexpr uint64_t kRequestsBetweenChecks = 256;
constexpr size_t kMaxBlocks = 20'000;
constexpr double kLiveShare = 0.95;  // of what may be taken: what is live at most

struct SizeClass {
  uint64_t up_to_bytes;
  Samples allocate{};
  Samples free{};
};

pool::Options pool_options(Card& card) {
  return {.backing = can_map(card) ? pool::Backing::kVirtual : pool::Backing::kSegments};
}

class Storming {
 public:
  Storming(Card& card, const StormOptions& options, const Budget& budget, const Progress& progress,
           Ledger& ledger)
      : card_(card),
        budget_(budget),
        progress_(progress),
        ledger_(ledger),
        random_(options.seed),
        marks_(card, 2 * kMarkBytes),
        device_(card.memory(), card.ordinal()),
        pool_(device_, pool_options(card)) {
    for (uint32_t i = 0; i < kStreams; ++i) streams_.emplace_back(card);
    gpu::MemoryInfo info;
    const bool has_room = card.memory().memory_info(card.ordinal(), &info) == Status::kOk &&
                          info.free_bytes > options.leave_bytes;
    if (has_room) max_bytes_ = info.free_bytes - options.leave_bytes;
    pool_.limit(max_bytes_);
  }
  // Streams end before the pool does, which must not ask them any more.
  ~Storming() {
    for (const OwnStream& stream : streams_) pool_.forget(stream.get());
    (void)pool_.trim(UINT64_MAX);
  }
  Storming(const Storming&) = delete;
  Storming& operator=(const Storming&) = delete;

  Storm run() {
    const bool is_ready = pool_.is_ready() && marks_ && std::ranges::all_of(streams_, [](auto& s) {
                            return static_cast<bool>(s);
                          });
    while (is_ready && max_bytes_ >= kMinBytes && !is_over()) step();
    free_some(1.0);
    if (is_ready) check_progress();
    return finish();
  }

 private:
  struct Block {
    Address address = 0;
    uint64_t bytes = 0;
    size_t stream = 0;
    uint32_t tag = 0;
    bool is_marked = false;
  };

  [[nodiscard]] bool is_over() const { return budget_.is_over() || card_.is_lost(); }

  void step() {
    if (++steps_ % kRequestsBetweenChecks == 0) check_progress();
    const uint64_t bytes = random_size();
    const auto max_live = static_cast<uint64_t>(kLiveShare * static_cast<double>(max_bytes_));
    while (!blocks_.empty() && (live_bytes_ + bytes > max_live || blocks_.size() >= kMaxBlocks) &&
           !is_over()) {
      free_one(random_index());
    }
    allocate(bytes);
    // As at a step's end, when activations go.
    if (steps_ % (2 * kRequestsBetweenChecks) == 0) free_some(0.5);
  }

  // Each power of two is as likely as every other.
  [[nodiscard]] uint64_t random_size() {
    const uint64_t largest = std::clamp<uint64_t>(max_bytes_ / 8, kMinBytes, kGiB);
    std::uniform_real_distribution<double> power(std::log2(kMinBytes),
                                                 std::log2(static_cast<double>(largest)));
    return static_cast<uint64_t>(std::exp2(power(random_)));
  }
  [[nodiscard]] size_t random_index() {
    return std::uniform_int_distribution<size_t>(0, blocks_.size() - 1)(random_);
  }

  void allocate(uint64_t bytes) {
    const size_t stream = random_() % kStreams;
    const int64_t begin_ns = budget_.now_ns();
    const Address address = pool_.allocate(bytes, streams_[stream].get());
    const auto took_ns = static_cast<uint64_t>(budget_.now_ns() - begin_ns);
    if (address == 0) {
      // Others may have taken it: go on with less.
      ++report_.ooms;
      free_some(0.5);
      (void)pool_.trim(UINT64_MAX);
      return;
    }
    ++report_.allocations;
    class_of(bytes).allocate.add(took_ns);
    Block block{address, bytes, stream, static_cast<uint32_t>(random_())};
    block.is_marked = mark(block);
    blocks_.push_back(block);
    live_bytes_ += bytes;
  }

  [[nodiscard]] static Address tail_of(const Block& block) {
    return (block.address + block.bytes - kMarkBytes) / sizeof(uint64_t) * sizeof(uint64_t);
  }

  [[nodiscard]] bool mark(const Block& block) {
    const StreamHandle stream = streams_[block.stream].get();
    return std::ranges::all_of(std::array{block.address, tail_of(block)}, [&](Address at) {
      return card_.copies().fill(card_.ordinal(), stream, at, block.tag, kMarkBytes) == Status::kOk;
    });
  }

  void free_one(size_t index) {
    const Block block = blocks_[index];
    blocks_[index] = blocks_.back();
    blocks_.pop_back();
    live_bytes_ -= block.bytes;
    check(block);
    const int64_t begin_ns = budget_.now_ns();
    (void)pool_.free(block.address);
    class_of(block.bytes).free.add(static_cast<uint64_t>(budget_.now_ns() - begin_ns));
  }

  void free_some(double share) {
    const auto count = static_cast<size_t>(std::ceil(share * static_cast<double>(blocks_.size())));
    for (size_t i = 0; i < count; ++i) free_one(random_index());
  }

  // Once all is to end there is no time for it.
  void check(const Block& block) {
    if (!block.is_marked || card_.is_lost() || budget_.is_stopped()) return;
    const StreamHandle stream = streams_[block.stream].get();
    const std::array<Address, 2> ends = {block.address, tail_of(block)};
    Status status = Status::kOk;
    for (size_t i = 0; i < ends.size() && status == Status::kOk; ++i)
      status = card_.copies().copy_out(card_.ordinal(), stream, marks_.words() + i * kWordsOfMark,
                                       ends.at(i), kMarkBytes);
    if (card_.finish(stream) != Status::kOk || status != Status::kOk) return;
    ++report_.checked_blocks;
    for (size_t i = 0; i < ends.size(); ++i)
      compare(block, ends.at(i), marks_.words() + i * kWordsOfMark);
  }

  void compare(const Block& block, Address at, const uint64_t* words) {
    const uint64_t expected = uint64_t{block.tag} << 32 | block.tag;
    for (uint64_t i = 0; i < kWordsOfMark; ++i) {
      if (words[i] == expected) continue;
      const Address address = at + i * sizeof(uint64_t);
      ledger_.add({.address = address,
                   .offset_bytes = address - block.address,
                   .pattern = tr_later("marks of blocks"),
                   .expected = expected,
                   .found = words[i]});
    }
  }

  void check_progress() {
    budget_.report_progress(progress_);
    ++report_.validations;
    std::string why;
    if (!report_.invalid && !pool_.validate(&why)) report_.invalid = why;
  }

  [[nodiscard]] SizeClass& class_of(uint64_t bytes) {
    return *std::ranges::find_if(classes_,
                                 [bytes](const SizeClass& c) { return bytes <= c.up_to_bytes; });
  }

  Storm finish() {
    const pool::Stats stats = pool_.stats();
    report_.peak_requested_bytes = stats.requested_bytes.peak;
    report_.peak_reserved_bytes = stats.reserved_bytes.peak;
    Storm storm;
    storm.report = std::move(report_);
    for (const SizeClass& each : classes_) {
      storm.figures.push_back(
          each.allocate.figure(tr_later("pool allocate"), each.up_to_bytes, Unit::kNanoseconds));
      storm.figures.push_back(
          each.free.figure(tr_later("pool free"), each.up_to_bytes, Unit::kNanoseconds));
    }
    if (storm.report.peak_reserved_bytes != 0)
      storm.figures.push_back(share_figure(tr_later("pool utilization"),
                                           storm.report.peak_requested_bytes,
                                           storm.report.peak_reserved_bytes));
    return storm;
  }

  Card& card_;
  const Budget& budget_;
  const Progress& progress_;
  Ledger& ledger_;
  std::mt19937_64 random_;
  Pinned marks_;
  std::vector<OwnStream> streams_;
  pool::Device device_;
  pool::SharedPool pool_;
  uint64_t max_bytes_ = 0;
  std::vector<Block> blocks_;
  uint64_t live_bytes_ = 0;
  uint64_t steps_ = 0;
  std::array<SizeClass, 4> classes_ = {SizeClass{64 * kKiB}, {kMiB}, {32 * kMiB}, {2 * kGiB}};
  StormReport report_;
};

}  // namespace

Storm run_storm(Card& card, const StormOptions& options, const Budget& budget,
                const Progress& progress, Ledger& ledger) {
  return Storming(card, options, budget, progress, ledger).run();
}

}  // namespace vram::stress
