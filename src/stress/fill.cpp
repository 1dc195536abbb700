#include "stress/fill.hpp"

#include "base/bytes.hpp"
#include "stress/held.hpp"
#include "stress/patterns.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace vram::stress {
namespace {

// Of so many chunks one is read back during the first round of patterns.
constexpr uint64_t kSampleStride = 8;
// Bad words are reported by piece: on small devices pieces are small, too.
constexpr uint64_t kMaxPieceBytes = 256 * kMiB;
constexpr uint64_t kMinPieces = 16;

uint64_t piece_bytes(Card& card) {
  gpu::MemoryInfo info;
  if (card.memory().memory_info(card.ordinal(), &info) != Status::kOk)
    return card.memory().granularity_bytes();
  return std::min(kMaxPieceBytes, info.free_bytes / kMinPieces);
}

class Filler {
 public:
  Filler(Card& card, const FillOptions& options, const Budget& budget, const Progress& progress,
         Ledger& ledger)
      : card_(card),
        copies_(card.copies()),
        ordinal_(card.ordinal()),
        options_(options),
        budget_(budget),
        progress_(progress),
        ledger_(ledger),
        held_(card, piece_bytes(card)),
        lanes_(card) {}

  FillReport run() {
    gpu::MemoryInfo info;
    if (card_.memory().memory_info(ordinal_, &info) != Status::kOk || lanes_.empty())
      return std::move(report_);
    report_.free_bytes = info.free_bytes;
    budget_.report_progress(progress_);
    held_.take_all_but(options_.leave_bytes, [&] { return budget_.is_over(); });
    report_.obtained_bytes = held_.bytes();
    report_.handles = held_.count();
    chunks_ = held_.chunks();
    covered_.assign(chunks_.size(), 0);
    for (uint64_t round = 0; !is_over(); ++round) run_round(round);
    count_covered();
    return std::move(report_);
  }

 private:
  [[nodiscard]] bool is_over() const {
    return chunks_.empty() || budget_.is_over() || card_.is_lost();
  }

  void run_round(uint64_t round) {
    for (const Pattern pattern : kPatterns) {
      make_room_for_others();
      if (is_over()) return;
      run_pass(pattern, options_.seed + round, round == 0);
    }
  }

  // Others may need more memory than was left to them.
  void make_room_for_others() {
    const uint64_t given = held_.give_back_for(options_.leave_bytes / 2);
    if (given == 0) return;
    report_.released_bytes += given;
    chunks_ = held_.chunks();
    count_covered();
    covered_.resize(chunks_.size());
  }

  void run_pass(Pattern pattern, uint64_t seed, bool is_sampled) {
    const int64_t begin_ns = budget_.now_ns();
    const uint64_t bad_before = ledger_.count();
    pattern_ = pattern;
    seed_ = seed;
    written_bytes_ = compared_bytes_ = 0;
    Pass pass{.pattern = std::string(to_string(pattern)), .is_sampled = is_sampled};
    set_expected(word_of(pattern, seed).value_or(0));
    pass.is_complete = write_all() && (pattern == Pattern::kMovingInversions
                                           ? invert_all(*word_of(pattern, seed))
                                           : read_back(is_sampled ? kSampleStride : 1));
    pass.is_sampled = is_sampled && pattern != Pattern::kMovingInversions;
    pass.written_bytes = written_bytes_;
    pass.compared_bytes = compared_bytes_;
    pass.bad_words = ledger_.count() - bad_before;
    pass.duration_ns = budget_.now_ns() - begin_ns;
    report_.written_bytes += pass.written_bytes;
    report_.compared_bytes += pass.compared_bytes;
    report_.passes.push_back(std::move(pass));
  }

  // What a chunk is compared with: nothing for the address pattern.
  void set_expected(uint32_t half) {
    expected_.clear();
    if (pattern_ == Pattern::kAddress) return;
    expected_.resize(kChunkBytes / sizeof(uint64_t));
    if (word_of(pattern_, seed_)) {
      std::ranges::fill(expected_, uint64_t{half} << 32 | half);
    } else {
      write_pattern(pattern_, seed_, 0, expected_);
    }
  }

  [[nodiscard]] bool write_all() {
    const auto half = word_of(pattern_, seed_);
    if (half)
      return write_each([this, half = *half](Lane& lane, const Chunk& chunk, size_t) {
        return copies_.fill(ordinal_, lane.stream(), chunk.address, half, chunk.bytes);
      });
    if (pattern_ == Pattern::kAddress || !write_prototype())
      return write_each(
          [this](Lane& lane, const Chunk& chunk, size_t) { return write_from_host(lane, chunk); });
    return write_each([this](Lane& lane, const Chunk& chunk, size_t index) {
      if (index == prototype_) return Status::kOk;
      return copies_.copy(ordinal_, lane.stream(), chunk.address, chunks_[prototype_].address,
                          chunk.bytes);
    });
  }

  [[nodiscard]] bool write_each(const ChunkWork& work) {
    return for_each(false, [&](Lane& lane, const Chunk& chunk, size_t index) {
      const Status status = work(lane, chunk, index);
      if (status == Status::kOk) written_bytes_ += chunk.bytes;
      return status;
    });
  }

  [[nodiscard]] Status write_from_host(Lane& lane, const Chunk& chunk) {
    const std::span words = lane.buffer(chunk.bytes);
    write_pattern(pattern_, seed_, chunk.address, words);
    const Status status =
        copies_.copy_in(ordinal_, lane.stream(), chunk.address, words.data(), chunk.bytes);
    return status == Status::kOk ? lane.finish() : status;
  }

  // One whole chunk that is as it should be, to be copied all over. Bad memory there would be
  // blamed on every other place.
  [[nodiscard]] bool write_prototype() {
    prototype_ =
        static_cast<size_t>(std::ranges::max_element(chunks_, {}, &Chunk::bytes) - chunks_.begin());
    const Chunk& chunk = chunks_[prototype_];
    Lane& lane = lanes_.first();
    if (write_from_host(lane, chunk) != Status::kOk) return false;
    const std::span words = lane.buffer(chunk.bytes);
    std::ranges::fill(words, 0);
    if (copies_.copy_out(ordinal_, lane.stream(), words.data(), chunk.address, chunk.bytes) !=
            Status::kOk ||
        lane.finish() != Status::kOk) {
      return false;
    }
    const uint64_t bad_before = ledger_.count();
    note_bad_words(words, chunk);
    return ledger_.count() == bad_before;
  }

  [[nodiscard]] bool read_back(uint64_t stride) {
    return for_each(false, [&](Lane& lane, const Chunk& chunk, size_t index) {
      return (index + seed_) % stride == 0 ? compare(lane, chunk, index) : Status::kOk;
    });
  }

  // The word becomes its complement chunk by chunk, upwards, and itself again on the way down: what
  // is read has been written next to its opposite.
  [[nodiscard]] bool invert_all(uint32_t half) {
    if (!invert_each(false, ~half)) return false;
    set_expected(~half);
    return invert_each(true, half);
  }

  [[nodiscard]] bool invert_each(bool is_backward, uint32_t next) {
    return for_each(is_backward, [&](Lane& lane, const Chunk& chunk, size_t index) {
      const Status status = compare(lane, chunk, index);
      if (status != Status::kOk) return status;
      written_bytes_ += chunk.bytes;
      return copies_.fill(ordinal_, lane.stream(), chunk.address, next, chunk.bytes);
    });
  }

  [[nodiscard]] Status compare(Lane& lane, const Chunk& chunk, size_t index) {
    const std::span words = lane.buffer(chunk.bytes);
    Status status =
        copies_.copy_out(ordinal_, lane.stream(), words.data(), chunk.address, chunk.bytes);
    if (status == Status::kOk) status = lane.finish();
    if (status != Status::kOk) return status;
    note_bad_words(words, chunk);
    covered_[index] = 1;
    compared_bytes_ += chunk.bytes;
    return status;
  }

  void note_bad_words(std::span<const uint64_t> words, const Chunk& chunk) {
    const std::span expected =
        expected_.empty() ? std::span<uint64_t>() : std::span(expected_).first(words.size());
    find_bad_words(words, expected, chunk.address, [&](uint64_t at, uint64_t wanted) {
      const uint64_t bytes = at * sizeof(uint64_t);
      ledger_.add({.address = chunk.address + bytes,
                   .handle = chunk.handle,
                   .offset_bytes = chunk.offset_bytes + bytes,
                   .pattern = std::string(to_string(pattern_)),
                   .expected = wanted,
                   .found = words[at]});
    });
  }

  [[nodiscard]] bool for_each(bool is_backward, const ChunkWork& work) {
    return lanes_.for_each(chunks_, is_backward, budget_, progress_, work);
  }

  void count_covered() {
    report_.covered_bytes = 0;
    for (size_t i = 0; i < chunks_.size(); ++i)
      report_.covered_bytes += covered_[i] != 0 ? chunks_[i].bytes : 0;
  }

  Card& card_;
  gpu::Copies& copies_;
  uint32_t ordinal_;
  const FillOptions& options_;
  const Budget& budget_;
  const Progress& progress_;
  Ledger& ledger_;
  Held held_;
  Lanes lanes_;
  std::vector<Chunk> chunks_;
  std::vector<uint8_t> covered_;  // by chunk; each is one lane's at a time
  FillReport report_;

  // Of the pass.
  Pattern pattern_ = Pattern::kZeros;
  uint64_t seed_ = 0;
  std::vector<uint64_t> expected_;
  size_t prototype_ = 0;
  std::atomic<uint64_t> written_bytes_{0};
  std::atomic<uint64_t> compared_bytes_{0};
};

}  // namespace

FillReport run_fill(Card& card, const FillOptions& options, const Budget& budget,
                    const Progress& progress, Ledger& ledger) {
  return Filler(card, options, budget, progress, ledger).run();
}

namespace {

constexpr auto kBetweenTellings = std::chrono::milliseconds(100);

// What the lanes of one round share.
struct Round {
  std::span<const Chunk> chunks;
  bool is_backward = false;
  const Budget& budget;
  const ChunkWork& work;
  std::atomic<size_t> next{0};
  std::atomic<size_t> done{0};
  std::mutex mutex{};
  std::condition_variable ended{};
  size_t running = 0;  // by mutex

  void run(Lane& lane) {
    while (!budget.is_over()) {
      const size_t turn = next.fetch_add(1);
      if (turn >= chunks.size()) break;
      const size_t index = is_backward ? chunks.size() - 1 - turn : turn;
      if (work(lane, chunks[index], index) != Status::kOk) break;
      ++done;
    }
    (void)lane.finish();
    const std::lock_guard guard(mutex);
    --running;
    ended.notify_all();
  }
  void wait(const Progress& progress) {
    std::unique_lock lock(mutex);
    while (!ended.wait_for(lock, kBetweenTellings, [&] { return running == 0; })) {
      lock.unlock();
      budget.report_progress(progress);
      lock.lock();
    }
  }
};

// False: the system gives no more threads.
bool start(std::vector<std::thread>& threads, Round& round, Lane& lane) {
  {
    const std::lock_guard guard(round.mutex);
    ++round.running;
  }
  try {
    threads.emplace_back([&round, &lane] { round.run(lane); });
    return true;
  } catch (const std::system_error&) {
    const std::lock_guard guard(round.mutex);
    --round.running;
    return false;
  }
}

}  // namespace

Lanes::Lanes(Card& card) {
  for (uint32_t i = 0; i < card.lanes(); ++i) {
    Lane lane(card);
    if (!lane.is_usable()) return;
    lanes_.push_back(std::move(lane));
  }
}

bool Lanes::for_each(std::span<const Chunk> chunks, bool is_backward, const Budget& budget,
                     const Progress& progress, const ChunkWork& work) {
  Round round{.chunks = chunks, .is_backward = is_backward, .budget = budget, .work = work};
  std::vector<std::thread> threads;
  for (Lane& lane : lanes_) {
    if (!start(threads, round, lane)) break;
  }
  round.wait(progress);
  for (std::thread& thread : threads) thread.join();
  return round.done == chunks.size();
}

}  // namespace vram::stress
