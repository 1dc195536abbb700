// Store: the history's file as its only writer sees it: taken for ourselves, opened or begun,
// moved aside where it is broken, written, pruned. The schema is in docs/history.md.
//
// One thread at a time. Others read the file through connections of their own.
#pragma once

#include "watch/history/database.hpp"
#include "watch/history/fold.hpp"
#include "watch/history/history.hpp"
#include "watch/history/prune_clock.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace vram::watch {

// Held by one process; the kernel lets go of it with the process, however that ends.
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
  using Tell = std::function<void(const std::string&)>;
  [[nodiscard]] static Result<Store> open(const std::string& path, Tell tell);

  [[nodiscard]] Result<FoldStart> start();
  // When the first and the last chunk of all begin.
  struct Span {
    std::optional<int64_t> oldest_s;
    std::optional<int64_t> newest_s;
  };
  [[nodiscard]] Result<Span> span();

  // What others keep here, by name.
  [[nodiscard]] Result<KeptTexts> kept();

  // All of them or none. kBadInput: the file is broken, or is not there any more.
  [[nodiscard]] Result<> write(const ChunkRows& rows, const KeptTexts& texts = {});
  // What is older than it is kept goes, and its room is given back bit by bit.
  [[nodiscard]] Result<> prune(int64_t now_s, const ClockLeaps& leaps, const HistoryKeep& keep);
  // Whether another reader's complaint is right.
  [[nodiscard]] bool is_broken();
  // Moves the file aside, if it is there, and begins a new one.
  [[nodiscard]] Result<> begin_anew(const std::string& why);

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
  Store(std::string path, Tell tell, WriterLock lock);
  [[nodiscard]] static Result<File> open_file(const std::string& path);
  [[nodiscard]] Result<> put(const ChunkRow& row);
  [[nodiscard]] Result<> put_all(const ChunkRows& rows, const KeptTexts& texts);
  [[nodiscard]] bool is_there() const;

  std::string path_;
  Tell tell_;
  WriterLock lock_;
  std::optional<File> file_;  // nothing: a new one could not be begun
  bool had_file_ = false;     // at path_, not yet moved aside
  std::map<int64_t, std::shared_ptr<const DeviceRow>> written_devices_;
};

}  // namespace vram::watch
