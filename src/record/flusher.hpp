// Flusher: the thread that collects the records of all rings in order and writes them. A record
// reaches the file within about 100 ms.
//
// It receives no signals and throws no exceptions. Only this thread accesses the disk, so that no
// other thread waits for a hanging disk; stop() waits while there is progress.
#pragma once

#include "base/result.hpp"
#include "base/ticks.hpp"
#include "record/file/flight.hpp"
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

// The records of a recording: each is counted in one of the two.
struct RecordCounts {
  uint64_t written = 0;
  uint64_t lost = 0;
};

// What a flight recorder's flusher asks its process's status page, every 20 ms.
struct FlightPage {
  // The file that is to be written now; "": none.
  std::string (*wanted)() = nullptr;
  // Its size; nothing: it could not be written.
  void (*answer)(std::optional<uint64_t> bytes) = nullptr;
};

struct FlusherOptions {
  RecordingOptions recording;
  bool is_lazy = false;
  std::optional<FlightOptions> flight;  // its window, and no recording
  FlightPage page;
};

class Flusher : public std::enable_shared_from_this<Flusher> {
 public:
  // stop() gives up if the disk accepts nothing for this long.
  static constexpr std::chrono::seconds kMaxStall{5};

  // Starts the thread. The file exists, unless is_lazy: then it is created for the first record.
  // kIo: it cannot be created, or no thread can be started. on_failure is called once, in the
  // thread, as soon as writing fails; not after stop().
  [[nodiscard]] static Result<std::shared_ptr<Flusher>> start(FlusherOptions options,
                                                              void (*on_failure)());
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
  // The file of the last dump, or why it failed; nothing if this ticket's was not tried.
  [[nodiscard]] std::optional<Result<std::string>> dump_since(uint64_t ticket);

 private:
  enum class Phase : uint8_t { kOpening, kOpen, kRunning, kStopping, kEnded };

  Flusher(FlusherOptions options, void (*on_failure)())
      : options_(std::move(options)), on_failure_(on_failure) {}
  void run();
  void go_on_until_stopped();
  void write_last();
  // Moves the records whose order is known from the rings to batch_. Returns false if there were
  // none.
  bool collect();
  void collect_in_order();
  void add_to_batch(const Record& record);
  // A thread has taken the next number and does not put its record: it is stopped, or was killed
  // in a way that left the process alive. The numbers up to what has been put are lost.
  void skip();
  void skip_if_stuck(bool has_moved, std::chrono::milliseconds timeout);
  void write(bool is_time_to_flush);
  void add_facts();
  void flush();
  // Writes the files that are requested of a flight recorder, with all records up to now.
  void dump_if_requested();
  void collect_until_now();
  template <typename Work>
  void guard(const Work& work);
  [[nodiscard]] Result<> make_file();
  void keep_failure(Result<> done);
  [[nodiscard]] Result<> abandon();
  void enter(Phase phase);

  FlusherOptions options_;
  void (*on_failure_)();
  uint64_t next_ = 0;  // the number of the record that comes next
  uint64_t end_ = 0;   // while stopping
  // of those put after a number that is missing; UINT64_MAX: none is
  uint64_t first_put_ = UINT64_MAX;
  std::chrono::steady_clock::time_point moved_;
  TickClock clock_ = TickClock::started_now();
  std::vector<Record> batch_;
  uint64_t added_ = 0;  // to recording_
  std::unique_ptr<RecordOutput> recording_;
  FlightWindow* flight_ = nullptr;  // recording_, if it is one
  std::optional<Error> failure_;    // the first one; nothing is written afterwards

  std::mutex lock_;  // of the five below
  std::condition_variable changed_;
  std::vector<Fact> new_facts_;
  std::string path_;
  std::optional<Result<std::string>> last_dump_;
  uint64_t last_ticket_ = 0;

  std::atomic<Phase> phase_{Phase::kOpening};  // changed with the lock held
  // No records may be taken from the rings any more.
  std::atomic<bool> is_abandoned_{false};
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
