#include "record/flusher.hpp"

#include "record/process.hpp"
#include "record/threads.hpp"

#include <chrono>
#include <cstdio>
#include <unistd.h>
#include <utility>

namespace vram::record {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kCollectEvery{20};
constexpr milliseconds kFlushEvery{100};
constexpr milliseconds kWaitForLast{200};
constexpr size_t kBatch = size_t{1} << 16;

}  // namespace

Flusher::Flusher(RecordingOptions options, bool is_lazy, uint64_t first_sequence)
    : options_(std::move(options)), is_lazy_(is_lazy), next_(first_sequence) {}

Flusher::~Flusher() = default;

Result<> Flusher::open() { return is_lazy_ ? Result<>{} : make_file(); }

void Flusher::run() {
  thread_ = std::thread([this] { loop(); });
}

Result<> Flusher::make_file() {
  options_.must_be_new = is_lazy_;
  auto made = Recording::create(options_);
  if (!made && is_lazy_ && made.error().code == Code::kBadInput) {
    options_.path = path_with(options_.path, std::to_string(getpid()));
    options_.must_be_new = false;
    made = Recording::create(options_);
  }
  if (!made) return tl::unexpected(made.error());
  recording_ = std::move(*made);
  const std::lock_guard guard(lock_);
  path_ = options_.path;
  return {};
}

size_t Flusher::copy_path(std::span<char> room) {
  const std::lock_guard guard(lock_);
  (void)std::snprintf(room.data(), room.size(), "%s", path_.c_str());
  return path_.size();
}

void Flusher::add(Fact fact) {
  const std::lock_guard guard(lock_);
  new_facts_.push_back(std::move(fact));
}

void Flusher::loop() {
  auto flushed = Clock::now();
  for (bool is_stopping = false; !is_stopping;) {
    {
      std::unique_lock guard(lock_);
      if (!is_stopping_) (void)wake_.wait_for(guard, kCollectEvery);
      is_stopping = is_stopping_;
    }
    collect();
    const bool is_time = Clock::now() - flushed >= kFlushEvery;
    if (is_time) flushed = Clock::now();
    write(is_time);
  }
}

// Each ring is in order, and every number is in one of them, or about to be.
void Flusher::collect() {
  for (bool has_moved = true; has_moved && batch_.size() < kBatch;) {
    has_moved = false;
    Rings::for_each([&](Ring& ring) {
      const Record* record = ring.front();
      for (; record != nullptr && record->sequence <= next_; record = ring.front()) {
        if (record->sequence == next_) {  // an earlier number is a former recording's
          batch_.push_back(*record);
          ++next_;
          has_moved = true;
        }
        ring.drop();
      }
    });
  }
}

void Flusher::keep_failure(Result<> done) {
  if (!done && !failure_) failure_ = std::move(done.error());
}

void Flusher::write(bool is_time_to_flush) {
  if (recording_ == nullptr && !batch_.empty() && !failure_) keep_failure(make_file());
  std::vector<Fact> facts;
  if (recording_ != nullptr) {
    const std::lock_guard guard(lock_);
    facts.swap(new_facts_);
  }
  for (const Fact& fact : facts) recording_->add(fact);
  for (const Record& record : std::exchange(batch_, {})) {
    if (failure_) return;
    keep_failure(recording_->add(record));
  }
  if (recording_ == nullptr || failure_ || !is_time_to_flush) return;
  recording_->note_lost(lost());
  keep_failure(recording_->flush());
  events_.store(recording_->event_count(), std::memory_order_relaxed);
  bytes_.store(recording_->written_bytes(), std::memory_order_relaxed);
}

Result<> Flusher::finish(uint64_t end_sequence) {
  {
    const std::lock_guard guard(lock_);
    is_stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
  // A thread may still be about to put what it has numbered.
  for (const auto until = Clock::now() + kWaitForLast; next_ < end_sequence;) {
    collect();
    write(false);
    if (Clock::now() > until) break;
  }
  write(true);
  if (recording_ != nullptr && !failure_) keep_failure(recording_->finish());
  if (recording_ != nullptr) bytes_.store(recording_->written_bytes(), std::memory_order_relaxed);
  if (failure_) return tl::unexpected(*failure_);
  return {};
}

}  // namespace vram::record
