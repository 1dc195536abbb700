#include "record/file/flight.hpp"

#include "base/file.hpp"
#include "base/result.hpp"
#include "record/file/file_sink.hpp"
#include "record/process.hpp"
#include "record/stacks/native_stack.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace vram::record {
namespace {

// The newer file begins again at this share of max_bytes; the older one may have twice as much.
constexpr uint64_t kParts = 3;

std::string next_of(const std::string& path) { return path_with(path, "next"); }

// Of one process after another that has the same pid, as in a container that starts again and
// again. Beyond that the user has to look at them.
constexpr uint64_t kMaxFilesOfOthers = 100;

// flight.4711.oom.vtrace, flight.4711.oom-2.vtrace, …
std::string numbered(const std::string& window, std::string_view word, uint64_t number) {
  return path_with(window, number == 1 ? std::string(word) : fmt::format("{}-{}", word, number));
}

tl::unexpected<Error> no_free_name(const std::string& window, std::string_view word) {
  return fail(Code::kIo,
              "{} and {} more files of former processes with this pid are there, expected room for "
              "a file: move away those that are still needed, and remove the others",
              numbered(window, word, 1), kMaxFilesOfOthers - 1);
}

// What a process with this pid left when it was killed: evidence, which a later one of that pid
// must not replace. The file of a living one is locked.
Result<> put_aside(const std::string& path) {
  using Kind = OutputTarget::Kind;
  const auto left = find_output_target(path, Replace::kOwn);
  if (!left || left->kind != Kind::kFile) return {};  // then Recording::create() says what is there
  bool is_aside = false;
  for (uint64_t number = 1; number <= kMaxFilesOfOthers && !is_aside; ++number) {
    const std::string aside = numbered(path, "killed", number);
    is_aside = rename_to_free(path, aside);
    if (!is_aside && errno != EEXIST) {
      return fail(Code::kIo, "{}: can't be renamed to {}: {}", path, aside,
                  std::strerror(errno));  // NOLINT(concurrency-mt-unsafe)
    }
  }
  if (!is_aside) return no_free_name(path, "killed");
  const auto next = find_output_target(next_of(path), Replace::kOwn);
  if (next && next->kind == Kind::kFile) (void)unlink(next_of(path).c_str());
  return {};
}

// The dumps of this process. A flight recorder that starts again, as after vram.record(), continues
// with their numbers. Any thread: that of a former one may still hang in the kernel.
class DumpedFiles {
 public:
  // The number of the next file, at least.
  uint64_t next_number(const std::string& window) {
    const std::lock_guard guard(lock_);
    if (window_ != window) {
      window_ = window;
      count_ = 0;
      files_.clear();
    }
    return count_ + 1;
  }
  void add(const std::string& path, uint64_t number, uint32_t max_files) {
    File file{.path = path};
    (void)lstat(path.c_str(), &file.status);
    std::optional<File> oldest;
    {
      const std::lock_guard guard(lock_);
      count_ = number;
      files_.push_back(std::move(file));
      if (files_.size() <= max_files) return;
      oldest = std::move(files_.front());
      files_.pop_front();
    }
    oldest->remove();
  }

 private:
  struct File {
    std::string path;
    struct stat status{};  // when it was written

    // Unless another file has been put in its place.
    void remove() const {
      struct stat now{};
      const auto is_same = [](const timespec& a, const timespec& b) {
        return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
      };
      if (lstat(path.c_str(), &now) == 0 && now.st_dev == status.st_dev &&
          now.st_ino == status.st_ino && is_same(now.st_mtim, status.st_mtim))
        (void)unlink(path.c_str());
    }
  };

  ForkLock lock_;
  std::string window_;
  uint64_t count_ = 0;
  std::deque<File> files_;
};

DumpedFiles& dumped_files() {
  static DumpedFiles& all = *new DumpedFiles;
  return all;
}

}  // namespace

Result<std::unique_ptr<FlightWindow>> FlightWindow::create(const RecordingOptions& options,
                                                           const FlightOptions& flight) {
  VRAM_TRY(put_aside(options.path));
  std::unique_ptr<FlightWindow> window(new FlightWindow(options, flight));
  VRAM_TRY_ASSIGN(window->older_, Recording::create(options));
  VRAM_TRY(window->begin_newer());
  return window;
}

Result<> FlightWindow::begin_newer() {
  RecordingOptions options = options_;
  options.path = next_of(options_.path);
  options.existing = Existing::kReplaceOwn;
  VRAM_TRY_ASSIGN(newer_, Recording::create_after(*older_, options));
  steps_of_newer_ = 0;
  newer_began_ns_ = last_ns_;
  first_bytes_ = newer_->written_bytes();
  return {};
}

Result<> FlightWindow::promote() {
  VRAM_TRY(newer_->replace(*older_));
  older_ = std::move(newer_);
  return begin_newer();
}

bool FlightWindow::is_covered() const {
  const bool has_steps = flight_.steps != 0 && steps_of_newer_ > flight_.steps;
  const bool has_time = flight_.duration.count() != 0 && newer_began_ns_ != 0 &&
                        last_ns_ - newer_began_ns_ > flight_.duration.count();
  return has_steps || has_time ||
         newer_->written_bytes() > std::max(flight_.max_bytes / kParts, 2 * first_bytes_);
}

Result<> FlightWindow::add(const Record& record) {
  if (newer_began_ns_ == 0) newer_began_ns_ = record.time_ns;
  last_ns_ = record.time_ns;
  if (record.op == Op::kStep) ++steps_of_newer_;
  rules_.add(record, older_->live());
  VRAM_TRY(older_->add(record));
  VRAM_TRY(newer_->add(record));
  ++event_count_;
  if (older_->live().block_count() > flight_.max_live_blocks) {
    return fail(Code::kTooLarge,
                "more than {} blocks are alive, whose table would exceed the memory of a flight "
                "recorder: record this program with vram.record()",
                flight_.max_live_blocks);
  }
  return is_covered() ? promote() : Result<>{};
}

void FlightWindow::add(const Fact& fact) {
  options_.facts.push_back(fact);
  older_->add(fact);
  newer_->add(fact);
}

void FlightWindow::note_lost(uint64_t records) {
  older_->note_lost(records);
  newer_->note_lost(records);
}

Result<> FlightWindow::flush() {
  VRAM_TRY(older_->flush());
  return newer_->flush();
}

Result<> FlightWindow::finish() {
  older_->remove();
  newer_->remove();
  return {};
}

Result<std::string> FlightWindow::dump(DumpReason reason, const std::string& path,
                                       const std::string& rule) {
  const std::string why(kDumpReasons[static_cast<size_t>(reason)]);
  std::vector<trace::Setting> facts = {{.key = "flight.reason", .value = why}};
  if (!rule.empty()) facts.push_back({.key = "flight.rule", .value = rule});
  if (!path.empty())
    return older_->copy_to(path, Existing::kReplaceOwn, facts).map([&] { return path; });
  const uint64_t first = dumped_files().next_number(options_.path);
  for (uint64_t number = first; number < first + kMaxFilesOfOthers; ++number) {
    std::string to = numbered(options_.path, why, number);
    struct stat found{};
    if (lstat(to.c_str(), &found) == 0) continue;
    const auto done = older_->copy_to(to, Existing::kKeep, facts);
    if (done) {
      dumped_files().add(to, number, flight_.max_files);
      return to;
    }
    if (done.error().code != Code::kBadInput) return tl::unexpected(done.error());
  }
  return no_free_name(options_.path, why);
}

}  // namespace vram::record
