// History: what the machine's GPUs did, in one SQLite file: samples of a day, minutes of a month,
// hours of a year, and which process held how much. Format and sizes: docs/history.md.
//
//     add(Sampled) ──▶ Fold (memory: what is not yet written) ──(a thread, each 10 s)──▶ Store
//     query() ◀── the rows of the file + what is not yet written
//
// Any thread may call any of it. add() waits for no disk: it takes a mutex that is never held while
// the file is touched. While the file can't be written, up to unwritten_bytes are kept for later;
// then the oldest is dropped, and counted. A file that breaks is moved aside, never deleted.
//
// Others may keep a few short texts beside it: keep(), kept().
#pragma once

#include "base/result.hpp"
#include "watch/history/metrics.hpp"
#include "watch/history/rows.hpp"
#include "watch/history/series.hpp"
#include "watch/sampler.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace vram::watch {

// How long each grain is kept, by the machine's clock.
struct HistoryKeep {
  std::chrono::seconds samples = std::chrono::hours(24);
  std::chrono::seconds minutes = std::chrono::hours(24 * 30);
  std::chrono::seconds hours = std::chrono::hours(24 * 365);
  std::chrono::seconds processes = std::chrono::hours(24 * 7);  // by minutes
};

struct HistoryOptions {
  HistoryKeep keep;
  // What a kill -9 may take with it; of processes up to a minute more.
  std::chrono::nanoseconds write_period = std::chrono::seconds(10);
  std::chrono::nanoseconds prune_period = std::chrono::minutes(10);
  uint64_t unwritten_bytes = uint64_t{4} << 20;
  // Told once of each change, a line: why it can't be written, that it can be again, what was moved
  // aside. Called on a thread of the history's, and by open() on its caller's.
  std::function<void(const std::string&)> report = [](const std::string&) {};
};

struct HistoryFacts {
  std::string path;
  uint64_t file_bytes = 0;                // with what SQLite keeps beside it
  std::optional<int64_t> oldest_ns;       // of what is in the file or on its way there
  std::optional<int64_t> newest_ns;       // when the last look was; before it, to some minutes
  uint64_t added = 0;                     // calls of add()
  uint64_t dropped = 0;                   // samples of a device that will never be written
  uint64_t unwritten_bytes = 0;           // of whole chunks that wait
  uint64_t unreadable = 0;                // chunks of the file that queries had to leave out
  std::optional<std::string> last_error;  // why it is not written now; nothing: all is well
};

class History {
 public:
  // The folder must be there. Fails if another process writes this file, if a newer vram made it,
  // or if it is no database or another program's. A database that is broken is moved aside.
  [[nodiscard]] static Result<History> open(const std::string& path, HistoryOptions options = {});
  History(History&&) noexcept;
  History& operator=(History&&) noexcept;
  ~History();  // writes what it can, once

  void add(const Sampled& sampled);

  // Texts under those names from now on; the others stay. Written together, soon: waits for that,
  // for `timeout` at most. What a kill -9 may not take is there when this was not broken off.
  void keep(TextCache texts, std::chrono::milliseconds timeout);
  // What a process before this one kept; "": nothing.
  [[nodiscard]] std::string kept(const std::string& name) const;

  // Devices in the order of their keys; one without points has a series, too. The error says what
  // to ask for instead.
  [[nodiscard]] Result<std::vector<Series>> query(const HistoryQuery& query) const;
  // For each device those with the highest peaks, highest first.
  [[nodiscard]] Result<std::vector<ProcessSeries>> processes(const ProcessQuery& query) const;
  // The same without points, for who asks for these by and by.
  [[nodiscard]] Result<std::vector<HistoryHolder>> holders(const ProcessQuery& query) const;
  [[nodiscard]] Result<std::vector<HistoryDevice>> devices() const;
  [[nodiscard]] HistoryFacts facts() const;

  // Writes what there is now and waits for it.
  [[nodiscard]] Result<> flush();

 private:
  class State;
  explicit History(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace vram::watch
