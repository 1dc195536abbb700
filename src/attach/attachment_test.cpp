// Attaching to a running process by the kernel's probes. The kernel allows that to root only (or
// with CAP_BPF and CAP_PERFMON): without these rights the tests are skipped.
#include "attach/attached_recording.hpp"
#include "attach/testing/stand_in.hpp"
#include "trace/open.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace vram::attach {
namespace {

using std::chrono::milliseconds;

class AttachmentTest : public testing::Test {
 protected:
  void SetUp() override {
    static const std::string kWhyNot = why_no_attaching();
    if (!kWhyNot.empty()) GTEST_SKIP() << kWhyNot;
  }
  void TearDown() override { std::filesystem::remove(path_); }

  // A pipe's end that is readable once stop() was called.
  [[nodiscard]] AttachOptions options(const StandIn& process) const {
    return {.pid = process.pid(), .path = path_, .stop_descriptor = stop_[0]};
  }
  // Records while `work` runs.
  AttachSummary record(const AttachOptions& options, const std::function<void()>& work) {
    auto recording = AttachedRecording::create(options).value();
    std::thread program([&] {
      work();
      stop();
    });
    const auto summary = recording->run();
    program.join();
    drain();
    return summary.value();
  }
  void stop() const { ASSERT_EQ(::write(stop_[1], "x", 1), 1); }
  void drain() const {
    char byte = 0;
    ASSERT_EQ(::read(stop_[0], &byte, 1), 1);
  }

  std::array<int, 2> stop_ = [] {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) std::abort();
    return ends;
  }();
  std::string path_ = std::filesystem::temp_directory_path() /
                      ("vram-attached-" + std::to_string(getpid()) + ".vtrace");
};

uint64_t peak_bytes(const trace::Trace& trace) {
  uint64_t live = 0;
  uint64_t peak = 0;
  for (const trace::Event& event : trace.events) {
    if (event.kind == trace::EventKind::kAlloc) live += event.size_bytes;
    if (event.kind == trace::EventKind::kFreeCompleted) live -= event.size_bytes;
    peak = std::max(peak, live);
  }
  return peak;
}

uint64_t note_count(const trace::Trace& trace, std::string_view begin) {
  for (const trace::Note& note : trace.origin.notes)
    if (note.text.starts_with(begin)) return note.count;
  return 0;
}

TEST_F(AttachmentTest, ARunningProcessIsRecordedToTheByte) {
  StandIn process(1, 7);
  process.work(1000);  // before the attachment
  const uint64_t before = process.allocations();
  const AttachSummary summary = record(options(process), [&] {
    process.work(20'000);
    process.free_earlier_blocks();
  });
  EXPECT_EQ(summary.end, AttachEnd::kStopped);
  EXPECT_EQ(summary.mallocs, process.allocations() - before);
  EXPECT_EQ(summary.frees, summary.mallocs);
  EXPECT_EQ(summary.unknown_frees, 7u);
  EXPECT_EQ(summary.lost, 0u);
  EXPECT_EQ(summary.peak_bytes, process.peak_bytes());
  EXPECT_EQ(summary.live_bytes, 0u);
  const trace::Trace trace = trace::open_trace(path_).value();
  EXPECT_EQ(trace.events.size(), 2 * summary.mallocs);
  EXPECT_EQ(peak_bytes(trace), process.peak_bytes());
  EXPECT_EQ(note_count(trace, "the recording begins in the middle"), 1u);
  EXPECT_EQ(note_count(trace, "frees of blocks from before"), 7u);
  EXPECT_EQ(process.semaphores(), 0);
  EXPECT_EQ(process.changed_instructions(), 0);
}

TEST_F(AttachmentTest, ThreadsOfAnyAgeAreSeenInTheOrderOfTheirCalls) {
  StandIn process(8);
  const AttachSummary summary = record(options(process), [&] { process.work(5000); });
  EXPECT_EQ(summary.mallocs, 40'000u);
  EXPECT_EQ(summary.frees, 40'000u);
  EXPECT_EQ(summary.lost, 0u);
  const trace::Trace trace = trace::open_trace(path_).value();
  std::map<uint64_t, bool> is_live;
  int64_t last = 0;
  for (const trace::Event& event : trace.events) {
    EXPECT_LE(last, event.time_ns);
    last = event.time_ns;
    const bool is_alloc = event.kind == trace::EventKind::kAlloc;
    EXPECT_NE(is_live[event.address], is_alloc);
    is_live[event.address] = is_alloc;
  }
}

TEST_F(AttachmentTest, ArgumentsAreReadFromMemoryNarrowRegistersAndConstants) {
  StandIn process;
  const Target target = Target::open(process.pid()).value();
  Attachment attachment = Attachment::attach(target, {.provider = kOtherProvider}).value();
  process.work_elsewhere();
  attachment.detach();
  std::vector<AllocatorEvent> events;
  attachment.take([&](const AllocatorEvent& event, auto) { events.push_back(event); });
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].call, AllocatorCall::kMalloc);
  EXPECT_EQ(events[0].address, 0x7f00u);
  EXPECT_EQ(events[0].device, 3);
  EXPECT_EQ(events[0].size_bytes, 768u);
  EXPECT_EQ(events[0].stream, static_cast<uint64_t>(-2));
  EXPECT_EQ(events[1].call, AllocatorCall::kFree);
  EXPECT_EQ(events[1].address, 0x7f00u);
  EXPECT_LE(events[0].clock_ns, events[1].clock_ns);
}

TEST_F(AttachmentTest, EventsWithoutRoomAreCounted) {
  StandIn process;
  const Target target = Target::open(process.pid()).value();
  Attachment attachment = Attachment::attach(target, {.ring_bytes = 1 << 16}).value();
  process.work(10'000);
  attachment.detach();
  uint64_t taken = 0;
  attachment.take([&](const AllocatorEvent&, auto) { ++taken; });
  EXPECT_GT(taken, 1000u);
  EXPECT_EQ(taken + attachment.lost(), 20'000u);
}

TEST_F(AttachmentTest, OtherProcessesWithTheSameLibraryAreLeftAlone) {
  StandIn process;
  StandIn other;
  const AttachSummary summary = record(options(process), [&] {
    other.work(500);
    EXPECT_EQ(other.semaphores(), 0);
    EXPECT_EQ(other.changed_instructions(), 0);
    EXPECT_GT(process.semaphores(), 0);
    EXPECT_GT(process.changed_instructions(), 0);
    process.work(500);
    process.fork_child();
  });
  EXPECT_EQ(summary.mallocs, 500u);
}

TEST_F(AttachmentTest, TheEndOfTheProcessAndExecEndTheRecording) {
  StandIn ended;
  const AttachOptions of_ended = options(ended);
  auto recording = AttachedRecording::create(of_ended).value();
  ended.work(100);
  ended.kill();
  const AttachSummary summary = recording->run().value();
  EXPECT_EQ(summary.end, AttachEnd::kProcessEnded);
  EXPECT_EQ(summary.mallocs, 100u);
  recording.reset();
  StandIn replaced;
  recording = AttachedRecording::create(options(replaced)).value();
  replaced.work(100);
  replaced.exec();
  EXPECT_EQ(recording->run().value().end, AttachEnd::kProcessReplaced);
  EXPECT_EQ(trace::open_trace(path_).value().events.size(), 200u);
}

TEST_F(AttachmentTest, ADurationEndsTheRecording) {
  StandIn process;
  AttachOptions limited = options(process);
  limited.duration = milliseconds(150);
  EXPECT_EQ(AttachedRecording::create(limited).value()->run().value().end, AttachEnd::kStopped);
}

TEST_F(AttachmentTest, WhatCannotBeRecordedIsNamed) {
  const auto message = [&](uint32_t pid) {
    return AttachedRecording::create({.pid = pid, .path = path_}).error().message;
  };
  EXPECT_EQ(message(999'999'999), "there is no process 999999999");
  const auto own = static_cast<uint32_t>(getpid());
  const pid_t plain = fork();
  if (plain == 0) {
    (void)execlp("sleep", "sleep", "60", nullptr);
    _exit(127);
  }
  std::this_thread::sleep_for(milliseconds(50));
  const std::string no_probes = message(static_cast<uint32_t>(plain));
  EXPECT_TRUE(no_probes.starts_with(
      fmt::format("process {} has loaded no library with the probes pytorch:malloc", plain)))
      << no_probes;
  (void)kill(plain, SIGKILL);
  (void)waitpid(plain, nullptr, 0);
  std::thread thread([&] {
    const auto id = static_cast<uint32_t>(syscall(SYS_gettid));
    EXPECT_EQ(message(id),
              fmt::format("{} is a thread of process {}: expected --pid {}", id, own, own));
  });
  thread.join();
  EXPECT_TRUE(message(2).find("a thread of the kernel") != std::string::npos) << message(2);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

}  // namespace
}  // namespace vram::attach
