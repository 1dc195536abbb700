#include "record/flusher.hpp"

#include "base/result.hpp"
#include "base/threads.hpp"
#include "record/process.hpp"
#include "record/signal_guard.hpp"
#include "record/threads.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <unistd.h>
#include <utility>

namespace vram::record {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kCollectEvery{20};
constexpr milliseconds kFlushEvery{100};
// For a record whose number is taken.
constexpr milliseconds kMaxWaitForRecord{1000};
constexpr milliseconds kMaxWaitForLast{200};
constexpr size_t kBatch = size_t{1} << 16;
constexpr uint64_t kNone = UINT64_MAX;
constexpr uint64_t kNoteEvery = 64;
constexpr int kMaxNames = 10'000;

}  // namespace

// Where memory runs out, the recording ends; the program continues.
template <typename Work>
void Flusher::guard(const Work& work) {
  try {
    work();
  } catch (const std::exception& error) {
    keep_failure(fail(Code::kIo, "{}", error.what()));
  }
}

Result<std::shared_ptr<Flusher>> Flusher::start(FlusherOptions options, void (*on_failure)()) {
  std::shared_ptr<Flusher> flusher(new Flusher(std::move(options), on_failure));
  VRAM_TRY_ASSIGN(auto thread, start_background_thread([flusher] { flusher->run(); }));
  flusher->thread_ = std::move(thread);
  std::unique_lock guard(flusher->lock_);
  flusher->changed_.wait(guard, [&] { return flusher->phase_ != Phase::kOpening; });
  if (flusher->phase_ != Phase::kEnded) return flusher;
  guard.unlock();
  flusher->thread_.join();
  return tl::unexpected(*flusher->failure_);
}

void Flusher::enter(Phase phase) {
  const std::lock_guard guard(lock_);
  phase_ = phase;
  changed_.notify_all();
}

void Flusher::begin(uint64_t first_number) {
  next_ = first_number;
  first_ = first_number;
  enter(Phase::kRunning);
}

Result<> Flusher::stop(uint64_t end_number) {
  end_ = end_number;
  enter(Phase::kStopping);
  traffic().flush_soon();
  {
    std::unique_lock guard(lock_);
    const auto has_ended = [this] { return phase_ == Phase::kEnded; };
    for (uint64_t seen = traffic().progress(); !changed_.wait_for(guard, kMaxStall, has_ended);) {
      if (seen == traffic().progress()) return abandon();
      seen = traffic().progress();
    }
  }
  thread_.join();
  if (failure_) return tl::unexpected(*failure_);
  return {};
}

// The thread may hang in the kernel for good. It keeps what it uses, and touches no ring again.
Result<> Flusher::abandon() {
  {
    const std::lock_guard guard(Rings::lock());
    is_abandoned_ = true;
  }
  has_failed_ = true;
  thread_.detach();
  return fail(Code::kIo, "{}: the disk has taken nothing for {} s: gave it up", path_,
              kMaxStall.count());
}

Result<> Flusher::make_file() {
  RecordingOptions& options = options_.recording;
  if (options_.flight) {
    VRAM_TRY_ASSIGN(auto window, FlightWindow::create(options, *options_.flight));
    flight_ = window.get();
    recording_ = std::move(window);
    const std::lock_guard guard(lock_);
    path_ = options.path;
    return {};
  }
  const std::string path = options.path;
  auto made = Recording::create(options);
  const auto is_taken = [&] { return !made && made.error().code == Code::kBadInput; };
  for (int i = 1; options_.is_lazy && is_taken() && i <= kMaxNames; ++i) {
    const std::string pid = std::to_string(getpid());
    options.path = path_with(path, i == 1 ? pid : fmt::format("{}-{}", pid, i));
    made = Recording::create(options);
  }
  if (!made) return tl::unexpected(made.error());
  recording_ = std::move(*made);
  const std::lock_guard guard(lock_);
  path_ = options.path;
  return {};
}

std::string Flusher::path() {
  const SignalGuard no_signals;
  const std::lock_guard guard(lock_);
  return path_;
}

void Flusher::add(Fact fact) {
  const SignalGuard no_signals;
  const std::lock_guard guard(lock_);
  new_facts_.push_back(std::move(fact));
}

RecordCounts Flusher::counts() const {
  RecordCounts counts{.written = written_, .lost = traffic().given_up.counted() + skipped_};
  const uint64_t handled = is_abandoned_ ? end_ - first_ : handled_.load();
  if (has_failed_) counts.lost = traffic().given_up.counted() + handled - counts.written;
  return counts;
}

void Flusher::run() {
  if (!options_.is_lazy) guard([this] { keep_failure(make_file()); });
  if (failure_) return enter(Phase::kEnded);
  enter(Phase::kOpen);
  {
    std::unique_lock guard(lock_);
    changed_.wait(guard, [this] { return phase_ != Phase::kOpen; });
  }
  moved_ = Clock::now();
  if (options_.flight) DumpSignals::note_flusher();
  go_on_until_stopped();
  write_last();
  if (!is_abandoned_) enter(Phase::kEnded);
}

void Flusher::go_on_until_stopped() {
  auto cycle = Clock::now();
  auto flushed = cycle;
  const auto is_stopping = [this] { return phase_.load() == Phase::kStopping; };
  while (!is_stopping() && !is_abandoned_) {
    traffic().sleep(kCollectEvery, is_stopping);
    skip_if_stuck(collect(), kMaxWaitForRecord);
    const bool is_time = Clock::now() - flushed >= kFlushEvery;
    if (is_time) flushed = Clock::now();
    if (is_time && flight_ != nullptr) DumpSignals::keep_installed();
    write(is_time);
    if (flight_ != nullptr) dump_if_requested();
    traffic().note_progress();
    traffic().note_cycle(Clock::now() - std::exchange(cycle, Clock::now()));
  }
}

// A thread may still be about to put what it has numbered.
void Flusher::write_last() {
  moved_ = Clock::now();
  while (next_ < end_ && !is_abandoned_) {
    const bool has_moved = collect();
    skip_if_stuck(has_moved, kMaxWaitForLast);
    write(false);
    traffic().note_progress();
    if (!has_moved) std::this_thread::sleep_for(milliseconds(1));
  }
  if (is_abandoned_) return;
  write(true);
  if (flight_ != nullptr) dump_if_requested();
  if (recording_ == nullptr || is_abandoned_) return;
  if (!failure_) guard([this] { keep_failure(recording_->finish()); });
  bytes_ = recording_->written_bytes();
  recording_.reset();
  flight_ = nullptr;
}

// Those that were put before the request, whichever thread put them.
void Flusher::collect_until_now() {
  const uint64_t end = Traffic::numbers.counted();
  const auto deadline = Clock::now() + kMaxWaitForLast;
  while (next_ < end && Clock::now() < deadline && !failure_) {
    const bool has_moved = collect();
    write(false);
    if (!has_moved) std::this_thread::sleep_for(milliseconds(1));
  }
}

// A dump that fails, as on a full disk, ends no recording.
void Flusher::dump_if_requested() {
  if (is_abandoned_) return;  // the requests are another one's
  const auto fired = flight_->take_fired();
  const auto taken = dumps().take();
  const std::string wanted =
      options_.page.wanted != nullptr ? options_.page.wanted() : std::string();
  if (!fired && !taken && wanted.empty()) return;
  collect_until_now();
  const auto dump = [&](DumpReason reason, const std::string& to,
                        const std::string& rule = "") -> Result<std::string> {
    try {
      flight_->note_lost(counts().lost);
      if (failure_) return tl::unexpected(*failure_);
      return flight_->dump(reason, to, rule);
    } catch (const std::exception& error) {
      return fail(Code::kIo, "{}", error.what());
    }
  };
  if (fired) (void)dump(fired->reason, "", fired->text);
  if (!wanted.empty()) {
    const auto done = dump(DumpReason::kRequest, wanted);
    std::error_code error;
    const uint64_t bytes = done ? std::filesystem::file_size(*done, error) : 0;
    options_.page.answer(done && !error ? std::optional(bytes) : std::nullopt);
  }
  if (!taken) return;
  auto done = dump(taken->reason, "");
  {
    const std::lock_guard guard(lock_);
    last_dump_ = std::move(done);
    last_ticket_ = taken->ticket;
  }
  dumps().finish(taken->ticket);
}

std::optional<Result<std::string>> Flusher::dump_since(uint64_t ticket) {
  const SignalGuard no_signals;
  const std::lock_guard guard(lock_);
  return last_ticket_ >= ticket ? last_dump_ : std::nullopt;
}

// Each ring is in order, and every number is in one of them, or about to be.
bool Flusher::collect() {
  const uint64_t before = next_;
  clock_.note(TickClock::Pair::now());
  guard([this] { collect_in_order(); });
  handled_ = next_ - first_;
  return next_ != before;
}

// At most a batch: a thread that puts records as fast as they are taken would never let it end.
void Flusher::collect_in_order() {
  size_t taken = 0;
  for (bool has_moved = true; has_moved && taken < kBatch;) {
    has_moved = false;
    first_put_ = kNone;
    Rings::for_each([&](Ring& ring) {
      if (is_abandoned_) return;
      const Record* record = ring.front();
      for (; record != nullptr && record->sequence <= next_ && taken < kBatch;
           record = ring.front()) {
        // An earlier number is a former recording's, or was skipped.
        if (record->sequence == next_) {
          if (!failure_) add_to_batch(*record);
          ++next_;
          has_moved = true;
        }
        ring.drop();
        ++taken;
        if (next_ % kNoteEvery == 0) traffic().note_progress();
      }
      if (record != nullptr) first_put_ = std::min(first_put_, record->sequence);
    });
  }
}

void Flusher::add_to_batch(const Record& record) {
  Record& added = batch_.emplace_back(record);
  if (!added.is_time_stated) added.time_ns = clock_.unix_ns(static_cast<uint64_t>(added.time_ns));
}

void Flusher::skip() {
  uint64_t to = first_put_;
  if (phase_ == Phase::kStopping) to = std::min(to, end_);
  if (to == kNone || to <= next_) return;
  skipped_ += to - next_;
  next_ = to;
}

void Flusher::skip_if_stuck(bool has_moved, milliseconds timeout) {
  const auto now = Clock::now();
  const bool is_waiting = first_put_ != kNone || phase_ == Phase::kStopping;
  if (has_moved || !is_waiting) {
    moved_ = now;
  } else if (now - moved_ > timeout) {
    skip();
  }
}

void Flusher::keep_failure(Result<> done) {
  if (done || failure_) return;
  failure_ = std::move(done.error());
  has_failed_ = true;
  const std::lock_guard guard(Rings::lock());  // against abandon(): another recording may run then
  if (!is_abandoned_) on_failure_();
}

void Flusher::write(bool is_time_to_flush) {
  guard([&] {
    if (recording_ == nullptr && !batch_.empty() && !failure_) keep_failure(make_file());
    if (recording_ != nullptr) add_facts();
    for (const Record& record : std::exchange(batch_, {})) {
      if (failure_ || is_abandoned_) return;
      keep_failure(recording_->add(record));
      ++added_;
    }
    if (recording_ != nullptr && !failure_ && is_time_to_flush) flush();
  });
}

void Flusher::add_facts() {
  std::vector<Fact> facts;
  {
    const std::lock_guard guard(lock_);
    facts.swap(new_facts_);
  }
  for (const Fact& fact : facts) recording_->add(fact);
}

void Flusher::flush() {
  recording_->note_lost(counts().lost);
  keep_failure(recording_->flush());
  if (failure_ || is_abandoned_) return;
  written_ = added_;
  events_.store(recording_->event_count(), std::memory_order_relaxed);
  bytes_.store(recording_->written_bytes(), std::memory_order_relaxed);
}

}  // namespace vram::record
