// Flusher: the thread that takes records from all rings in their order and writes them. What a
// thread has said reaches the file within about a tenth of a second.
#pragma once

#include "base/result.hpp"
#include "record/file/recording.hpp"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace vram::record {

class Flusher {
 public:
  // Records from this number on are its own. path is not made before the first record if is_lazy.
  Flusher(RecordingOptions options, bool is_lazy, uint64_t first_sequence);
  Flusher(const Flusher&) = delete;
  Flusher& operator=(const Flusher&) = delete;
  ~Flusher();

  // Makes the file unless it is to wait.
  [[nodiscard]] Result<> open();
  void run();
  // A ring fills up.
  void hurry() { wake_.notify_one(); }
  // Writes the records below this number, which must all have been put or be about to, and ends.
  [[nodiscard]] Result<> finish(uint64_t end_sequence);

  void add(Fact fact);
  void count_lost() { lost_.fetch_add(1, std::memory_order_relaxed); }
  [[nodiscard]] uint64_t lost() const { return lost_.load(std::memory_order_relaxed); }
  [[nodiscard]] uint64_t events() const { return events_.load(std::memory_order_relaxed); }
  [[nodiscard]] uint64_t file_bytes() const { return bytes_.load(std::memory_order_relaxed); }
  // As Recorder::copy_path().
  [[nodiscard]] size_t copy_path(std::span<char> room);

 private:
  void loop();
  // Moves what is in order from the rings to batch_.
  void collect();
  void write(bool is_time_to_flush);
  [[nodiscard]] Result<> make_file();
  void keep_failure(Result<> done);

  RecordingOptions options_;
  bool is_lazy_;
  uint64_t next_;  // the number of the record that comes next
  std::vector<Record> batch_;
  std::unique_ptr<Recording> recording_;
  std::optional<Error> failure_;  // the first; from then on nothing is written

  std::mutex lock_;  // of the four below
  std::condition_variable wake_;
  bool is_stopping_ = false;
  std::vector<Fact> new_facts_;
  std::string path_;

  std::atomic<uint64_t> lost_{0};
  std::atomic<uint64_t> events_{0};
  std::atomic<uint64_t> bytes_{0};
  std::thread thread_;
};

}  // namespace vram::record
