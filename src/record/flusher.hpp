// Flusher: the thread that takes records from all rings in their order and writes them. What a
// thread has said reaches the file within about a tenth of a second.
//
// It takes no signals, and nothing is thrown out of it. All that touches the disk happens in it, so
// that nobody else waits for a disk that hangs; stop() waits as long as it gets on.
#pragma once

#include "base/result.hpp"
#include "record/file/recording.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace vram::record {

// Of the records that a recording was told: each is in one of the two.
struct RecordCounts {
  uint64_t written = 0;
  uint64_t lost = 0;
};

class Flusher : public std::enable_shared_from_this<Flusher> {
 public:
  // stop() gives a disk up that has taken nothing for so long.
  static constexpr std::chrono::seconds kMaxStall{5};

  // Starts the thread. The file is there, unless is_lazy: then it is made at the first record. kIo:
  // it can't be made, or there is no thread to be had.
  // on_failure is called once, in the thread, as soon as nothing can be written any more; not after
  // stop().
  [[nodiscard]] static Result<std::shared_ptr<Flusher>> start(RecordingOptions options,
                                                              bool is_lazy, void (*on_failure)());
  Flusher(const Flusher&) = delete;
  Flusher& operator=(const Flusher&) = delete;
  ~Flusher() = default;

  // Records from this number on are its own.
  void begin(uint64_t first_number);
  // Writes the records below this number, which must all have been put or be about to, and ends.
  [[nodiscard]] Result<> stop(uint64_t end_number);

  void add(Fact fact);
  [[nodiscard]] RecordCounts counts() const;
  [[nodiscard]] uint64_t events() const { return events_.load(std::memory_order_relaxed); }
  [[nodiscard]] uint64_t file_bytes() const { return bytes_.load(std::memory_order_relaxed); }
  // "" until the file is made.
  [[nodiscard]] std::string path();

 private:
  enum class Phase : uint8_t { kOpening, kOpen, kRunning, kStopping, kEnded };

  Flusher(RecordingOptions options, bool is_lazy, void (*on_failure)())
      : options_(std::move(options)), is_lazy_(is_lazy), on_failure_(on_failure) {}
  void run();
  void go_on_until_stopped();
  void write_last();
  // Moves what is in order from the rings to batch_. False: nothing was.
  bool collect();
  void collect_in_order();
  // A thread has taken the next number and does not put its record: it is stopped, or was killed
  // in a way that left the process alive. The numbers up to what has been put are lost.
  void skip();
  void skip_if_stuck(bool has_moved, std::chrono::milliseconds timeout);
  void write(bool is_time_to_flush);
  void add_facts();
  void flush();
  template <typename Work>
  void guard(const Work& work);
  [[nodiscard]] Result<> make_file();
  void keep_failure(Result<> done);
  [[nodiscard]] Result<> abandon();
  void enter(Phase phase);

  RecordingOptions options_;
  bool is_lazy_;
  void (*on_failure_)();
  uint64_t next_ = 0;  // the number of the record that comes next
  uint64_t end_ = 0;   // while stopping
  uint64_t first_put_ =
      UINT64_MAX;  // of those put after a number that is missing; UINT64_MAX: none is
  std::chrono::steady_clock::time_point moved_;
  std::vector<Record> batch_;
  uint64_t added_ = 0;  // to recording_
  std::unique_ptr<Recording> recording_;
  std::optional<Error> failure_;  // the first; from then on nothing is written

  std::mutex lock_;  // of the three below
  std::condition_variable changed_;
  std::vector<Fact> new_facts_;
  std::string path_;

  std::atomic<Phase> phase_{Phase::kOpening};  // changed with the lock held
  std::atomic<bool> is_abandoned_{false};      // nothing may be taken from the rings any more
  std::atomic<bool> has_failed_{false};
  std::atomic<uint64_t> first_{0};
  std::atomic<uint64_t> handled_{0};  // numbers that were taken from rings, or skipped
  std::atomic<uint64_t> skipped_{0};
  std::atomic<uint64_t> written_{0};
  std::atomic<uint64_t> events_{0};
  std::atomic<uint64_t> bytes_{0};
  std::thread thread_;
};

}  // namespace vram::record
