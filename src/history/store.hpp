// Store: the history's file for its only writer: locks, opens or creates it, renames a damaged one,
// writes and prunes. The schema is in docs/history.md.
//
// Use it from one thread at a time. Readers use their own connections.
#pragma once

#include "history/database.hpp"
#include "history/fold.hpp"
#include "history/history.hpp"
#include "history/prune_clock.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace vram::history {

// Held by one process; the kernel releases it when the process ends for any reason.
class WriterLock {
 public:
  [[nodiscard]] static Result<WriterLock> take(const std::string& path);
  WriterLock(WriterLock&& other) noexcept;
  WriterLock& operator=(WriterLock&&) = delete;
  ~WriterLock();

 private:
  explicit WriterLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

class Store {
 public:
  using Report = std::function<void(const std::string&)>;
  [[nodiscard]] static Result<Store> open(const std::string& path, Report report);

  [[nodiscard]] Result<FoldStart> start();
  // When the first and the last chunk of all begin.
  struct Span {
    std::optional<int64_t> oldest_s;
    std::optional<int64_t> newest_s;
  };
  [[nodiscard]] Result<Span> span();

  // What others keep here, by name.
  [[nodiscard]] Result<TextCache> kept();

  // Writes all or nothing. kBadInput: the file is damaged or was deleted.
  [[nodiscard]] Result<> write(const ChunkRows& rows, const TextCache& texts = {});
  // Deletes data beyond its retention; the file shrinks gradually.
  [[nodiscard]] Result<> prune(int64_t now_s, const ClockLeaps& leaps, const HistoryKeep& keep);
  // Whether another reader's complaint is right.
  [[nodiscard]] bool is_broken();
  // Moves the file aside, if it is there, and begins a new one.
  [[nodiscard]] Result<> restart_file(const std::string& why);

 private:
  struct File {
    Database database;
    Statement put_device;
    Statement put_process;
    Statement put_device_chunk;
    Statement put_process_chunk;
    Statement put_kept;
    uint64_t inode = 0;
    uint64_t log_inode = 0;  // of SQLite's log; 0: there was none
  };
  Store(std::string path, Report report, WriterLock lock);
  [[nodiscard]] static Result<File> open_file(const std::string& path);
  [[nodiscard]] Result<> put(const ChunkRow& row);
  [[nodiscard]] Result<> put_all(const ChunkRows& rows, const TextCache& texts);
  [[nodiscard]] bool is_there() const;

  std::string path_;
  Report report_;
  WriterLock lock_;
  std::optional<File> file_;  // nothing: a new one could not be begun
  bool had_file_ = false;     // at path_, not yet moved aside
  std::map<int64_t, std::shared_ptr<const DeviceRow>> written_devices_;
};

}  // namespace vram::history
