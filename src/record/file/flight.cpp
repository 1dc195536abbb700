#include "record/file/flight.hpp"

#include "base/file.hpp"
#include "base/result.hpp"
#include "record/process.hpp"
#include "record/stacks/native_stack.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <mutex>
#include <unistd.h>
#include <vector>

namespace vram::record {
namespace {

// The newer file begins again at this share of max_bytes; the older one may have twice as much.
constexpr uint64_t kParts = 3;

std::string next_of(const std::string& path) { return path_with(path, "next"); }

// What a process with this pid left when it was killed: evidence, which a later one of that pid (as
// in a container that was started again) must not replace. The file of a living one is locked.
Result<> put_aside(const std::string& path) {
  using Kind = OutputTarget::Kind;
  const auto left = find_output_target(path, Replace::kOwn);
  if (!left || left->kind != Kind::kFile) return {};  // then Recording::create() says what is there
  const std::string aside = path_with(path, "killed");
  VRAM_TRY_ASSIGN(const auto target, find_output_target(aside, Replace::kOwn));
  if (target.kind == Kind::kInPlace)
    return fail(Code::kIo, "{} is a pipe or a device, expected room for a file", aside);
  if (rename(path.c_str(), aside.c_str()) != 0) return {};
  const auto next = find_output_target(next_of(path), Replace::kOwn);
  if (next && next->kind == Kind::kFile) (void)unlink(next_of(path).c_str());
  return {};
}

// The dumps of this process. A flight recorder that starts again, as after vram.record(), continues
// with their numbers. Any thread: that of a former one may still hang in the kernel.
class DumpedFiles {
 public:
  std::string next_name(const std::string& window, DumpReason reason) {
    const std::lock_guard guard(lock_);
    if (window_ != window) {
      window_ = window;
      count_ = 0;
      files_.clear();
    }
    ++count_;
    const std::string word(kDumpReasons[static_cast<size_t>(reason)]);
    return path_with(window, count_ == 1 ? word : fmt::format("{}-{}", word, count_));
  }
  void add(const std::string& file, uint32_t max_files) {
    std::string oldest;
    {
      const std::lock_guard guard(lock_);
      files_.push_back(file);
      if (files_.size() <= max_files) return;
      oldest = std::move(files_.front());
      files_.pop_front();
    }
    (void)unlink(oldest.c_str());
  }

 private:
  ForkLock lock_;
  std::string window_;
  uint64_t count_ = 0;
  std::deque<std::string> files_;
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
  std::string to = path.empty() ? dumped_files().next_name(options_.path, reason) : path;
  const std::string why(kDumpReasons[static_cast<size_t>(reason)]);
  std::vector<trace::Setting> facts = {{.key = "flight.reason", .value = why}};
  if (!rule.empty()) facts.push_back({.key = "flight.rule", .value = rule});
  VRAM_TRY(older_->copy_to(to, facts));
  if (path.empty()) dumped_files().add(to, flight_.max_files);
  return to;
}

}  // namespace vram::record
