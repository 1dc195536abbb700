#include "history/history.hpp"

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "history/fold.hpp"
#include "history/prune_clock.hpp"
#include "history/query.hpp"
#include "history/store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <pthread.h>
#include <sys/stat.h>
#include <thread>
#include <utility>

namespace vram::history {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kClock = "clock";  // the name of what PruneClock saves

std::string text_in(const TextCache& texts, const std::string& name) {
  const auto found = texts.find(name);
  return found == texts.end() ? "" : found->second;
}

uint64_t size_of(const std::string& path) {
  struct stat status{};
  return stat(path.c_str(), &status) == 0 ? static_cast<uint64_t>(status.st_size) : 0;
}

}  // namespace

class History::State {
 public:
  struct Begin {
    FoldStart fold;
    Store::Span span;
    TextCache kept;
  };
  State(std::string path, HistoryOptions options, Store store, Begin begin);
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State();

  void add(const watch::Sampled& sampled);
  void keep(TextCache texts, std::chrono::milliseconds timeout);
  std::string kept(const std::string& name) const;
  Result<> flush();
  HistoryFacts facts() const;
  QueryScope scope() const;
  template <typename Chunks>
  Unwritten unwritten(Chunks chunks) const;
  void note(uint64_t unreadable) const { unreadable_ += unreadable; }
  // What a question met: it may be that the file is broken, which the writer finds out.
  Error not_read(const Error& error) const;
  const std::string& path() const { return path_; }

 private:
  void run();
  bool wait();
  void keep_clock();
  Result<> write_once(bool all);
  Result<> write_rows(const ChunkRows& rows, const TextCache& texts);
  Result<> prune_if_due();
  void report_result(const Result<>& done);
  void report_result(const ClockLeap& leap) const;

  const std::string path_;
  const HistoryOptions options_;
  Store store_;  // the thread's, once it runs
  mutable std::atomic<uint64_t> unreadable_{0};
  mutable std::atomic<bool> is_suspect_{false};

  mutable std::mutex memory_mutex_;  // guards what follows; never held while the file is touched
  Fold fold_;
  PruneClock prune_clock_;
  std::optional<ClockLeap> new_leap_;  // not reported yet
  std::optional<int64_t> oldest_ns_;
  std::optional<int64_t> newest_ns_;
  uint64_t added_ = 0;
  std::optional<std::string> last_error_;
  const TextCache kept_before_;
  TextCache texts_;      // all that there are
  TextCache new_texts_;  // of these what is not in the file

  std::mutex work_mutex_;  // guards what follows
  std::condition_variable changed_;
  bool must_end_ = false;
  uint64_t flushes_wanted_ = 0;
  uint64_t flushes_done_ = 0;
  uint64_t keeps_wanted_ = 0;
  uint64_t keeps_done_ = 0;
  Result<> flushed_;
  std::thread thread_;
};

History::State::State(std::string path, HistoryOptions options, Store store, Begin begin)
    : path_(std::move(path)),
      options_(std::move(options)),
      store_(std::move(store)),
      fold_(std::move(begin.fold), options_.unwritten_bytes),
      prune_clock_(options_.prune_period, text_in(begin.kept, kClock), begin.span.newest_s),
      kept_before_(std::move(begin.kept)),
      texts_(kept_before_) {
  if (begin.span.oldest_s) oldest_ns_ = *begin.span.oldest_s * kSignedSecondNs;
  if (begin.span.newest_s) newest_ns_ = *begin.span.newest_s * kSignedSecondNs;
  thread_ = std::thread([this] { run(); });
}

History::State::~State() {
  {
    const std::lock_guard guard(work_mutex_);
    must_end_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void History::State::add(const watch::Sampled& sampled) {
  const int64_t time_ns = sampled.snapshot.time_ns;
  const std::lock_guard guard(memory_mutex_);
  fold_.add(sampled);
  if (const auto leap = prune_clock_.see(time_ns, static_cast<int64_t>(sampled.begin_ns))) {
    new_leap_ = leap;
    keep_clock();
  }
  newest_ns_ = time_ns;  // not the latest of all: a clock that went ahead once may have come back
  oldest_ns_ = std::min(oldest_ns_.value_or(time_ns), time_ns);
  ++added_;
}

void History::State::keep(TextCache texts, std::chrono::milliseconds timeout) {
  {
    const std::lock_guard guard(memory_mutex_);
    for (auto& [name, text] : texts) new_texts_[name] = texts_[name] = std::move(text);
  }
  std::unique_lock lock(work_mutex_);
  const uint64_t mine = ++keeps_wanted_;
  changed_.notify_all();
  changed_.wait_for(lock, timeout, [this, mine] { return keeps_done_ >= mine; });
}

std::string History::State::kept(const std::string& name) const {
  return text_in(kept_before_, name);
}

// With what is written next.
void History::State::keep_clock() { new_texts_[kClock] = texts_[kClock] = prune_clock_.save(); }

// True: there is more to come.
bool History::State::wait() {
  std::unique_lock lock(work_mutex_);
  const auto is_wanted = [this] {
    return must_end_ || flushes_wanted_ > flushes_done_ || keeps_wanted_ > keeps_done_;
  };
  changed_.wait_for(lock, options_.write_period, is_wanted);
  return !must_end_;
}

void History::State::run() {
  (void)pthread_setname_np(pthread_self(), "history");  // so that a hanging thread has a name
  bool goes_on = true;
  while (goes_on) {
    goes_on = wait();
    uint64_t wanted = 0;
    uint64_t keeps_wanted = 0;
    {
      const std::lock_guard guard(work_mutex_);
      wanted = flushes_wanted_;
      keeps_wanted = keeps_wanted_;
    }
    auto done = write_once(!goes_on || wanted > flushes_done_);
    const std::lock_guard guard(work_mutex_);
    flushed_ = std::move(done);
    flushes_done_ = wanted;
    keeps_done_ = keeps_wanted;
    changed_.notify_all();
  }
}

Result<> History::State::write_once(bool all) {
  ChunkRows rows;
  TextCache texts;
  std::optional<ClockLeap> leap;
  {
    const std::lock_guard guard(memory_mutex_);
    rows = fold_.take(all);
    texts = std::exchange(new_texts_, {});
    leap = std::exchange(new_leap_, std::nullopt);
  }
  if (leap) report_result(*leap);
  auto done = write_rows(rows, texts);
  {
    const std::lock_guard guard(memory_mutex_);
    if (done)
      fold_.written();
    else
      fold_.not_written();
    if (!done) new_texts_.merge(texts);  // newer ones stay
  }
  if (done) done = prune_if_due();
  report_result(done);
  return done;
}

Result<> History::State::write_rows(const ChunkRows& rows, const TextCache& texts) {
  const bool is_broken = is_suspect_.exchange(false) && store_.is_broken();
  auto done = is_broken ? fail(Code::kBadInput, "its pages disagree") : store_.write(rows, texts);
  if (done || done.error().code != Code::kBadInput) return done;
  if (auto begun = store_.restart_file(done.error().message); !begun) return begun;
  TextCache all_texts;
  {
    const std::lock_guard guard(memory_mutex_);
    fold_.restart_file();
    oldest_ns_ = newest_ns_;
    all_texts = texts_;
  }
  return store_.write(rows, all_texts);
}

Result<> History::State::prune_if_due() {
  std::optional<int64_t> now_ns;
  ClockLeaps leaps;
  {
    const std::lock_guard guard(memory_mutex_);
    now_ns = prune_clock_.take();
    if (!now_ns) return {};
    leaps = prune_clock_.leaps();
    keep_clock();
  }
  if (auto pruned = store_.prune(*now_ns / kSignedSecondNs, leaps, options_.keep); !pruned)
    return pruned;
  VRAM_TRY_ASSIGN(auto span, store_.span());
  const std::lock_guard guard(memory_mutex_);
  if (span.oldest_s) oldest_ns_ = *span.oldest_s * kSignedSecondNs;
  return {};
}

void History::State::report_result(const ClockLeap& leap) const {
  options_.report(
      fmt::format("the clock is {} ahead of when the history {} was last added to: what is older "
                  "does not age by "
                  "that, so a clock that is wrong deletes none of it",
                  format_duration_ns(leap.by_s * kSignedSecondNs), path_));
}

// Once for each change.
void History::State::report_result(const Result<>& done) {
  std::string text;
  {
    const std::lock_guard guard(memory_mutex_);
    if (done && last_error_)
      text = fmt::format("the history {} is written again; {} samples were dropped so far", path_,
                         fold_.dropped());
    if (!done && !last_error_)
      text = fmt::format(
          "the history {} can't be written: {}; what comes is kept in memory up to {} bytes, and "
          "written once it can be",
          path_, done.error().message, options_.unwritten_bytes);
    last_error_ = done ? std::nullopt : std::optional(done.error().message);
  }
  if (!text.empty()) options_.report(text);
}

Result<> History::State::flush() {
  std::unique_lock lock(work_mutex_);
  const uint64_t mine = ++flushes_wanted_;
  changed_.notify_all();
  changed_.wait(lock, [this, mine] { return flushes_done_ >= mine; });
  return flushed_;
}

HistoryFacts History::State::facts() const {
  HistoryFacts facts;
  facts.path = path_;
  for (const char* end : {"", "-wal", "-shm"}) facts.file_bytes += size_of(path_ + end);
  facts.unreadable = unreadable_;
  const std::lock_guard guard(memory_mutex_);
  facts.oldest_ns = oldest_ns_;
  facts.newest_ns = newest_ns_;
  facts.added = added_;
  facts.dropped = fold_.dropped();
  facts.unwritten_bytes = fold_.ready_bytes();
  facts.last_error = last_error_;
  return facts;
}

Error History::State::not_read(const Error& error) const {
  if (error.code != Code::kBadInput && error.code != Code::kIo) return error;
  if (error.code == Code::kBadInput) is_suspect_ = true;
  return {error.code, fmt::format("the history {} can't be read: {}", path_, error.message)};
}

QueryScope History::State::scope() const {
  const std::lock_guard guard(memory_mutex_);
  return {options_.keep, oldest_ns_, newest_ns_};
}

template <typename Chunks>
Unwritten History::State::unwritten(Chunks chunks) const {
  const std::lock_guard guard(memory_mutex_);
  return {chunks(fold_), fold_.last_chunk_id(), fold_.devices()};
}

Result<History> History::open(const std::string& path, HistoryOptions options) {
  VRAM_TRY_ASSIGN(auto store, Store::open(path, options.report));
  VRAM_TRY_ASSIGN(auto start, store.start());
  VRAM_TRY_ASSIGN(auto span, store.span());
  VRAM_TRY_ASSIGN(auto kept, store.kept());
  return History(std::make_unique<State>(
      path, std::move(options), std::move(store),
      State::Begin{.fold = std::move(start), .span = span, .kept = std::move(kept)}));
}

History::History(std::unique_ptr<State> state) : state_(std::move(state)) {}
History::History(History&&) noexcept = default;
History& History::operator=(History&&) noexcept = default;
History::~History() = default;

void History::add(const watch::Sampled& sampled) { state_->add(sampled); }
void History::keep(TextCache texts, std::chrono::milliseconds timeout) {
  state_->keep(std::move(texts), timeout);
}
std::string History::kept(const std::string& name) const { return state_->kept(name); }
Result<> History::flush() { return state_->flush(); }
HistoryFacts History::facts() const { return state_->facts(); }

Result<std::vector<Series>> History::query(const HistoryQuery& query) const {
  const auto metric = find_metric(query.metric);
  if (!metric)
    return fail(Code::kBadInput, "the history has no metric '{}': ask for one of metrics()",
                query.metric);
  const QueryPlan plan = plan_query(query, state_->scope());
  const Unwritten unwritten = state_->unwritten(
      [&](const Fold& fold) { return fold.devices_chunks(kGrains[plan.grain].grain_s); });
  auto answer = read_series(state_->path(), metric->number, query.device, plan, unwritten);
  if (!answer) return tl::unexpected(state_->not_read(answer.error()));
  state_->note(answer->unreadable);
  return std::move(answer->answer);
}

Result<std::vector<ProcessSeries>> History::processes(const ProcessQuery& query) const {
  const Unwritten unwritten =
      state_->unwritten([](const Fold& fold) { return fold.processes_chunks(); });
  auto answer = read_processes(state_->path(), query, unwritten);
  if (!answer) return tl::unexpected(state_->not_read(answer.error()));
  state_->note(answer->unreadable);
  return std::move(answer->answer);
}

Result<std::vector<HistoryHolder>> History::holders(const ProcessQuery& query) const {
  const Unwritten unwritten =
      state_->unwritten([](const Fold& fold) { return fold.processes_chunks(); });
  auto answer = read_holders(state_->path(), query, unwritten);
  if (!answer) return tl::unexpected(state_->not_read(answer.error()));
  state_->note(answer->unreadable);
  return std::move(answer->answer);
}

Result<std::vector<HistoryDevice>> History::devices() const {
  const Unwritten unwritten = state_->unwritten([](const Fold&) { return ChunkRows(); });
  auto rows = read_devices(state_->path(), std::nullopt, unwritten);
  if (!rows) return tl::unexpected(state_->not_read(rows.error()));
  std::vector<HistoryDevice> devices;
  for (DeviceRow& row : *rows) devices.push_back(std::move(row.device));
  return devices;
}

}  // namespace vram::history
