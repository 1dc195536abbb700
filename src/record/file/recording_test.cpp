// Recording: what a file says of records that are awkward to place: clocks that go back, parts that
// begin amid a step.
#include "record/file/recording.hpp"

#include "base/bytes.hpp"
#include "trace/open.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <unistd.h>
#include <vector>

namespace vram::record {
namespace {

constexpr int64_t kHour = 3'600'000'000'000;

class RecordingTest : public testing::Test {
 protected:
  void TearDown() override {
    std::filesystem::remove(path_);
    std::filesystem::remove(old_);
  }
  [[nodiscard]] trace::Trace read() const { return trace::open_trace(path_).value(); }
  std::string old_ = std::filesystem::temp_directory_path() /
                     ("vram-recording-" + std::to_string(getpid()) + ".old.vtrace");
  std::string path_ = std::filesystem::temp_directory_path() /
                      ("vram-recording-" + std::to_string(getpid()) + ".vtrace");
};

// "step 1 begins" and the like, and the addresses of events, as their times place them: at equal
// times what marks a region comes first.
std::vector<std::string> by_time(const trace::Trace& trace) {
  std::vector<std::string> order;
  size_t event = 0;
  for (const trace::Annotation& mark : trace.annotations) {
    while (event < trace.events.size() && trace.events[event].time_ns < mark.time_ns)
      order.push_back(std::to_string(trace.events[event++].address));
    if (mark.is_begin) order.emplace_back(trace.tables.strings[mark.name]);
  }
  for (; event < trace.events.size(); ++event)
    order.push_back(std::to_string(trace.events[event].address));
  return order;
}

TEST_F(RecordingTest, AClockThatGoesBackMovesNoEventIntoAnotherStep) {
  auto recording = Recording::create({.path = path_}).value();
  const auto say = [&](Op op, uint64_t number, int64_t time_ns) {
    const Record record{.time_ns = time_ns, .address = number, .size_bytes = 512, .op = op};
    ASSERT_TRUE(recording->add(record));
  };
  say(Op::kStep, 0, 10 * kHour);
  say(Op::kAlloc, 100, 10 * kHour + 5);
  say(Op::kAlloc, 101, 10 * kHour + 6);
  say(Op::kStep, 1, 9 * kHour);  // the clock was set
  say(Op::kAlloc, 102, 9 * kHour + 5);
  say(Op::kAlloc, 103, 9 * kHour + 6);
  say(Op::kStep, 2, 9 * kHour + 6);  // at the time of the event before
  say(Op::kAlloc, 104, 9 * kHour + 6);
  ASSERT_TRUE(recording->finish());
  EXPECT_EQ(by_time(read()), (std::vector<std::string>{"step 0", "100", "101", "step 1", "102",
                                                       "103", "step 2", "104"}));
}

TEST_F(RecordingTest, APartSaysWhichStepAndScopesAreOpenWhenItBegins) {
  auto recording = Recording::create({.path = path_, .limit_bytes = kMiB}).value();
  const TextId forward = stores().texts.intern("forward");
  const TextId loss = stores().texts.intern("loss");
  ASSERT_TRUE(recording->add(Record{.time_ns = 1, .address = 7, .op = Op::kStep}));
  ASSERT_TRUE(recording->add(Record{.time_ns = 2, .text = forward, .op = Op::kScopeBegin}));
  ASSERT_TRUE(recording->add(Record{.time_ns = 3, .text = loss, .op = Op::kScopeBegin}));
  ASSERT_TRUE(recording->add(Record{.time_ns = 4, .text = loss, .op = Op::kScopeEnd}));
  for (uint64_t i = 0; !std::filesystem::exists(old_); ++i) {
    const uint64_t address = (i * 2654435761u % 100'003) << 20;
    const auto time = static_cast<int64_t>(10 + i);
    ASSERT_TRUE(recording->add(
        Record{.time_ns = time, .address = address, .size_bytes = i % 4099, .op = Op::kAlloc}));
    ASSERT_TRUE(recording->add(Record{.time_ns = time, .address = address, .op = Op::kFree}));
  }
  ASSERT_TRUE(recording->add(Record{.time_ns = 1 << 30, .text = forward, .op = Op::kScopeEnd}));
  ASSERT_TRUE(recording->finish());
  const trace::Trace trace = read();
  std::vector<std::string> marks;
  for (const trace::Annotation& mark : trace.annotations)
    marks.push_back(std::string(trace.tables.strings[mark.name]) + (mark.is_begin ? "" : " ends"));
  EXPECT_EQ(marks, (std::vector<std::string>{"step 7", "forward", "forward ends"}));
}

}  // namespace
}  // namespace vram::record
