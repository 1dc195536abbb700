// History: the past figures of the machine's GPUs, in one SQLite file: samples of a day, minutes of
// a month, hours of a year, and the memory of each process. Format and sizes: docs/history.md.
//
//     add(Sampled) ──▶ Fold (memory: not yet written) ──(a thread, every 10 s)──▶ Store
//     query() ◀── the rows of the file + what is not yet written
//
// May be called from any thread. add() does not wait for the disk: its mutex is never held during
// file access. While the file cannot be written, up to unwritten_bytes are kept in memory; beyond
// that, the oldest data is dropped and counted. A damaged file is renamed, never deleted.
//
// Other parts of the program can store a few short texts in the file: keep(), kept().
#pragma once

#include "base/result.hpp"
#include "history/metrics.hpp"
#include "history/series.hpp"
#include "watch/sampler.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace vram::history {

// How long each grain is kept, by the machine's clock.
struct HistoryKeep {
  std::chrono::seconds samples = std::chrono::hours(24);
  std::chrono::seconds minutes = std::chrono::hours(24 * 30);
  std::chrono::seconds hours = std::chrono::hours(24 * 365);
  std::chrono::seconds processes = std::chrono::hours(24 * 7);  // by minutes
};

struct HistoryOptions {
  HistoryKeep keep;
  // What a kill -9 may lose; up to a minute more for processes.
  std::chrono::nanoseconds write_period = std::chrono::seconds(10);
  std::chrono::nanoseconds prune_period = std::chrono::minutes(10);
  uint64_t unwritten_bytes = uint64_t{4} << 20;
  // Called with one line when the state changes: the file cannot be written, it can be written
  // again, or a damaged file was renamed. Called on the history's thread, and by open() on the
  // caller's.
  std::function<void(const std::string&)> report = [](const std::string&) {};
};

struct HistoryFacts {
  std::string path;
  uint64_t file_bytes = 0;           // including SQLite's auxiliary files
  std::optional<int64_t> oldest_ns;  // of the file's and the unwritten data
  // Of the last sample; before the first one, accurate to some minutes.
  std::optional<int64_t> newest_ns;
  uint64_t added = 0;                     // calls of add()
  uint64_t dropped = 0;                   // samples of a device that will never be written
  uint64_t unwritten_bytes = 0;           // of finished chunks
  uint64_t unreadable = 0;                // chunks of the file that queries had to leave out
  std::optional<std::string> last_error;  // nothing: the file can be written
};

class History {
 public:
  // The folder must be there. Fails if another process writes this file, if a newer vram made it,
  // or if it is no database or another program's. A database that is broken is moved aside.
  [[nodiscard]] static Result<History> open(const std::string& path, HistoryOptions options = {});
  History(History&&) noexcept;
  History& operator=(History&&) noexcept;
  ~History();  // writes what it can, once

  void add(const watch::Sampled& sampled);

  // Replaces the texts with these names and keeps the others. Waits at most `timeout` until they
  // are written in one transaction; if they are, a kill -9 cannot lose them.
  void keep(TextCache texts, std::chrono::milliseconds timeout);
  // Returns the text stored by this or an earlier process; "": none.
  [[nodiscard]] std::string kept(const std::string& name) const;

  // Devices are sorted by key; a device without points has an empty series. An error states what to
  // request instead.
  [[nodiscard]] Result<std::vector<Series>> query(const HistoryQuery& query) const;
  // For each device those with the highest peaks, highest first.
  [[nodiscard]] Result<std::vector<ProcessSeries>> processes(const ProcessQuery& query) const;
  // As above without points, to request them in parts.
  [[nodiscard]] Result<std::vector<HistoryHolder>> holders(const ProcessQuery& query) const;
  [[nodiscard]] Result<std::vector<HistoryDevice>> devices() const;
  [[nodiscard]] HistoryFacts facts() const;

  // Writes all current data and waits for it.
  [[nodiscard]] Result<> flush();

 private:
  class State;
  explicit History(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace vram::history
