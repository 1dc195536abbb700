// flight.h: the file of a failed request for memory is there when the caller learns of the failure.
#include "capi/testing/fake_machine.hpp"
#include "trace/open.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vram/flight.h>
#include <vram/status.h>

namespace vram::capi {
namespace {

class FlightTest : public FakeMachine {
 protected:
  void SetUp() override {
    FakeMachine::SetUp();
    folder_ = std::filesystem::temp_directory_path() / ("vram-flight-" + std::to_string(getpid()));
    (void)setenv("VRAM_BOARD", (folder_ / "board").c_str(), 1);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override {
    EXPECT_EQ(vram_flight_stop(), VRAM_OK);
    vram_board_close();
    (void)unsetenv("VRAM_BOARD");
    FakeMachine::TearDown();
    std::filesystem::remove_all(folder_);
  }
  [[nodiscard]] std::string file(const std::string& word) const {
    return (folder_ / ("flight." + std::to_string(getpid()) + "." + word + ".vtrace")).string();
  }
  void start() {
    vram_flight_options options{};
    options.struct_bytes = sizeof options;
    options.ignores_signals = 1;
    ASSERT_EQ(vram_flight_start(folder_.c_str(), &options), VRAM_OK) << vram_last_error();
  }
  // Of the blocks alive at the end.
  static uint64_t allocated_bytes(const trace::Trace& trace) {
    uint64_t bytes = 0;
    for (const trace::Event& event : trace.events_of(trace.devices.at(0))) {
      if (event.kind == trace::EventKind::kAlloc) bytes += event.size_bytes;
      if (event.kind == trace::EventKind::kFreeCompleted) bytes -= event.size_bytes;
    }
    return bytes;
  }

  std::filesystem::path folder_;
};

TEST_F(FlightTest, AFailedRequestHasItsFile) {
  vram_pool* pool = open();
  void* before = alloc(pool, 20 * kMiB);  // there when the flight recorder starts
  start();
  EXPECT_EQ(vram_flight_is_on(), 1);
  void* after = alloc(pool, 40 * kMiB);
  void* block = nullptr;
  ASSERT_EQ(vram_alloc(pool, 1024 * kMiB, nullptr, &block), VRAM_OUT_OF_MEMORY);
  ASSERT_TRUE(std::filesystem::exists(file("oom")));
  const auto trace = trace::open_trace(file("oom")).value();
  EXPECT_FALSE(trace.origin.truncated_at_byte);
  EXPECT_EQ(allocated_bytes(trace), 60 * kMiB);
  const auto events = trace.events_of(trace.devices.at(0));
  const auto is_oom = [](const trace::Event& each) { return each.kind == trace::EventKind::kOom; };
  const auto oom = std::ranges::find_if(events, is_oom);
  ASSERT_NE(oom, events.end());
  EXPECT_EQ(oom->size_bytes, 1024 * kMiB);
  EXPECT_EQ(vram_free(pool, before), VRAM_OK);
  EXPECT_EQ(vram_free(pool, after), VRAM_OK);
}

TEST_F(FlightTest, AFolderStaysWhereItWasWhenTheProgramGoesElsewhere) {
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  const vram_status started = vram_flight_start("flights", nullptr);
  std::filesystem::current_path("/");
  char path[256] = "";
  const vram_status dumped = vram_flight_dump(path, sizeof path);
  std::filesystem::current_path(before);
  EXPECT_EQ(started, VRAM_OK) << vram_last_error();
  EXPECT_EQ(dumped, VRAM_OK) << vram_last_error();
  EXPECT_TRUE(std::string_view(path).starts_with((folder_ / "flights").string())) << path;
}

TEST_F(FlightTest, ADurationBeyondTheClockIsRefused) {
  vram_flight_options options{};
  options.struct_bytes = sizeof options;
  options.duration_ns = UINT64_MAX;
  EXPECT_EQ(vram_flight_start(folder_.c_str(), &options), VRAM_INVALID_VALUE);
}

TEST_F(FlightTest, ASignalThatCannotBeHandledIsRefused) {
  vram_flight_options options{};
  options.struct_bytes = sizeof options;
  for (const int signal : {SIGKILL, SIGSTOP, -1, 32, 4711}) {
    options.on_signal = signal;
    EXPECT_EQ(vram_flight_start(folder_.c_str(), &options), VRAM_INVALID_VALUE) << signal;
    EXPECT_EQ(vram_flight_is_on(), 0);
  }
}

TEST_F(FlightTest, ItWritesOnRequestAndRefusesWhatIsNotThere) {
  EXPECT_EQ(vram_flight_dump(nullptr, 0), VRAM_INVALID_VALUE);
  start();
  char path[256] = "";
  ASSERT_EQ(vram_flight_dump(path, sizeof path), VRAM_OK) << vram_last_error();
  EXPECT_EQ(path, file("request"));
  vram_record_options options{};
  options.struct_bytes = sizeof options;
  EXPECT_EQ(vram_record_start((folder_ / "run.vtrace").c_str(), &options), VRAM_INVALID_VALUE);
  EXPECT_EQ(vram_flight_start(folder_.c_str(), nullptr), VRAM_INVALID_VALUE);
  EXPECT_EQ(vram_flight_start("", nullptr), VRAM_INVALID_VALUE);
}

}  // namespace
}  // namespace vram::capi
