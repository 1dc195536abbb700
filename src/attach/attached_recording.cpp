#include "attach/attached_recording.hpp"

#include "base/clock.hpp"
#include "trace/lost_events.hpp"

#include <algorithm>
#include <array>
#include <poll.h>
#include <utility>

namespace vram::attach {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// The ring holds 290,000 events; a thread that did nothing but allocate would make 10,000 in this
// time.
constexpr milliseconds kTakeEvery{10};
constexpr milliseconds kFlushEvery{100};

}  // namespace

Result<std::unique_ptr<AttachedRecording>> AttachedRecording::create(const AttachOptions& options) {
  VRAM_TRY_ASSIGN(auto target, Target::open(options.pid));
  AttachmentOptions attachment_options;
  attachment_options.python_stacks = options.python_stacks;
  // An event with its stack takes a kilobyte.
  if (options.python_stacks) attachment_options.ring_bytes *= 4;
  VRAM_TRY_ASSIGN(auto attachment, Attachment::attach(target, attachment_options));
  auto recording = std::unique_ptr<AttachedRecording>(
      new AttachedRecording(options, std::move(target), std::move(attachment)));
  VRAM_TRY(recording->open_file());
  return recording;
}

Result<> AttachedRecording::open_file() {
  unix_minus_clock_ns_ = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC);
  auto facts = target_.facts();
  facts.push_back(
      {record::Fact::Kind::kAbout, "recorder", "PyTorch's USDT probes, vram " VRAM_VERSION});
  VRAM_TRY_ASSIGN(recording_, record::Recording::create({.path = options_.path,
                                                         .existing = options_.existing,
                                                         .describe = PythonProcess::describe,
                                                         .facts = std::move(facts)}));
  recording_->add(trace::Note{
      tr_later("the recording begins in the middle of the run: blocks allocated before are "
               "unknown, and peaks are those of later blocks")});
  return recording_->flush();
}

std::optional<AttachEnd> AttachedRecording::wait() const {
  std::array<pollfd, 2> events = {pollfd{options_.stop_descriptor, POLLIN, 0},
                                  pollfd{target_.descriptor(), POLLIN, 0}};
  (void)poll(events.data(), events.size(), static_cast<int>(kTakeEvery.count()));
  if (events[1].revents != 0) return AttachEnd::kProcessEnded;
  if (events[0].revents != 0) return AttachEnd::kStopped;
  if (options_.duration && steady_clock::now() - start_ >= *options_.duration)
    return AttachEnd::kStopped;
  return std::nullopt;
}

Result<AttachSummary> AttachedRecording::run() {
  auto flushed = steady_clock::now();
  std::optional<AttachEnd> end;
  while (!end) {
    end = wait();
    VRAM_TRY(take());
    if (steady_clock::now() - flushed < kFlushEvery) continue;
    flushed = steady_clock::now();
    VRAM_TRY(recording_->flush());
    attachment_.find_threads();
    const TargetState state = target_.state();
    if (state == TargetState::kEnded) end = AttachEnd::kProcessEnded;
    if (state == TargetState::kReplaced) end = AttachEnd::kProcessReplaced;
  }
  summary_.end = *end;
  attachment_.detach();
  VRAM_TRY(take());
  VRAM_TRY(finish());
  return summary_;
}

Result<> AttachedRecording::take() {
  Result<> written;
  attachment_.take([&](const AllocatorEvent& event, std::span<const PythonFrame> frames) {
    if (!written) return;
    written = event.call == AllocatorCall::kMalloc ? add_malloc(event, frames) : add_free(event);
  });
  return written;
}

Result<> AttachedRecording::add_malloc(const AllocatorEvent& event,
                                       std::span<const PythonFrame> frames) {
  ++summary_.mallocs;
  const auto device = static_cast<uint16_t>(event.device);
  Block& block = blocks_[event.address];
  summary_.live_bytes += event.size_bytes - block.size_bytes;  // a lost free precedes it
  summary_.peak_bytes = std::max(summary_.peak_bytes, summary_.live_bytes);
  block = {device, event.size_bytes};
  return recording_->add(
      record::Record{.time_ns = static_cast<int64_t>(event.clock_ns) + unix_minus_clock_ns_,
                     .address = event.address,
                     .size_bytes = event.size_bytes,
                     .stream = event.stream,
                     .stack = frames.empty() ? 0 : attachment_.stack_of(frames),
                     .device = device,
                     .op = record::Op::kAlloc});
}

Result<> AttachedRecording::add_free(const AllocatorEvent& event) {
  const auto found = blocks_.find(event.address);
  if (found == blocks_.end()) {
    ++summary_.unknown_frees;
    return {};
  }
  ++summary_.frees;
  summary_.live_bytes -= found->second.size_bytes;
  const uint16_t device = found->second.device;
  blocks_.erase(found);
  return recording_->add(
      record::Record{.time_ns = static_cast<int64_t>(event.clock_ns) + unix_minus_clock_ns_,
                     .address = event.address,
                     .device = device,
                     .op = record::Op::kFree});
}

Result<> AttachedRecording::finish() {
  summary_.lost = attachment_.lost();
  if (summary_.lost > 0) {
    recording_->add(trace::Note{trace::kLostInKernel, summary_.lost});
  }
  if (summary_.unknown_frees > 0) {
    recording_->add(
        trace::Note{tr_later("frees of blocks from before the recording, which were ignored"),
                    summary_.unknown_frees});
  }
  return recording_->finish();
}

}  // namespace vram::attach
