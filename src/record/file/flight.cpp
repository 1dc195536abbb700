#include "record/file/flight.hpp"

#include "base/file.hpp"
#include "base/result.hpp"
#include "record/process.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <unistd.h>

namespace vram::record {
namespace {

// The newer file begins again at this share of max_bytes; the older one may have twice as much.
constexpr uint64_t kParts = 3;

std::string next_of(const std::string& path) { return path_with(path, "next"); }

// What a process with this pid left when it was killed: evidence, which a later one of that pid (as
// in a container that was started again) must not replace. The file of a living one is locked.
void put_aside(const std::string& path) {
  const auto left = find_output_target(path, Replace::kOwn);
  if (!left || left->kind != OutputTarget::Kind::kFile) return;
  (void)rename(path.c_str(), path_with(path, "killed").c_str());
  (void)unlink(next_of(path).c_str());
}

}  // namespace

Result<std::unique_ptr<FlightWindow>> FlightWindow::create(const RecordingOptions& options,
                                                           const FlightOptions& flight) {
  put_aside(options.path);
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
  VRAM_TRY(newer_->move_to(options_.path));
  older_ = std::move(newer_);
  return begin_newer();
}

bool FlightWindow::is_covered() const {
  const bool has_steps = flight_.steps != 0 && steps_of_newer_ > flight_.steps;
  const bool has_time = flight_.duration.count() != 0 && newer_began_ns_ != 0 &&
                        last_ns_ - newer_began_ns_ > flight_.duration.count();
  return has_steps || has_time || newer_->written_bytes() > std::max(flight_.max_bytes / kParts, 2 * first_bytes_);
}

Result<> FlightWindow::add(const Record& record) {
  if (newer_began_ns_ == 0) newer_began_ns_ = record.time_ns;
  last_ns_ = record.time_ns;
  if (record.op == Op::kStep) ++steps_of_newer_;
  VRAM_TRY(older_->add(record));
  VRAM_TRY(newer_->add(record));
  ++event_count_;
  if (older_->live_blocks() > flight_.max_live_blocks) {
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
  (void)unlink(options_.path.c_str());
  (void)unlink(next_of(options_.path).c_str());
  return {};
}

std::string FlightWindow::next_name(DumpReason reason) {
  ++dump_count_;
  const std::string word(kDumpReasons[static_cast<size_t>(reason)]);
  return path_with(options_.path,
                   dump_count_ == 1 ? word : fmt::format("{}-{}", word, dump_count_));
}

void FlightWindow::forget_oldest() {
  if (dumped_.size() <= flight_.max_files) return;
  (void)unlink(dumped_.front().c_str());
  dumped_.pop_front();
}

Result<std::string> FlightWindow::dump(DumpReason reason, const std::string& path) {
  std::string to = path.empty() ? next_name(reason) : path;
  const std::string why(kDumpReasons[static_cast<size_t>(reason)]);
  VRAM_TRY(older_->copy_to(to, {.key = "flight.reason", .value = why}));
  if (!path.empty()) return to;
  dumped_.push_back(to);
  forget_oldest();
  return to;
}

}  // namespace vram::record
