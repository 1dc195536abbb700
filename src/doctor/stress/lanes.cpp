#include "doctor/stress/lanes.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

namespace vram::doctor {
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

}  // namespace vram::doctor
