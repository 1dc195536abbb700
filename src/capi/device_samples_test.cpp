// Samples of the devices in a recording, on the fake driver and the fake NVML.
#include "capi/device_samples.hpp"

#include "base/bytes.hpp"
#include "base/testing/paths.hpp"
#include "base/testing/waiting.hpp"
#include "capi/testing/fake_machine.hpp"
#include "gpu/testing/fake_libraries.hpp"
#include "trace/figures.hpp"
#include "trace/open.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>
#include <vram/record.h>

namespace vram::capi {
namespace {

namespace figures = trace::figures;
using gpu::testing::Environment;

gpu::DeviceProcess process(uint32_t pid, std::optional<uint64_t> bytes) {
  gpu::DeviceProcess made;
  made.pid = pid;
  made.used_bytes = bytes;
  return made;
}

TEST(ProcessShares, OthersAreKnownOnlyIfThisProcessIsListed) {
  gpu::DeviceSample sample;
  EXPECT_FALSE(shares_of(sample, 7).own_bytes);
  sample.processes = {process(5, 100), process(7, 30), process(9, 1)};
  EXPECT_EQ(shares_of(sample, 7).own_bytes, 30u);
  EXPECT_EQ(shares_of(sample, 7).others_bytes, 101u);
  EXPECT_FALSE(shares_of(sample, 8).own_bytes);
  EXPECT_FALSE(shares_of(sample, 8).others_bytes);
  sample.processes->at(0).used_bytes.reset();
  EXPECT_EQ(shares_of(sample, 7).own_bytes, 30u);
  EXPECT_FALSE(shares_of(sample, 7).others_bytes) << "one of the others is unknown";
}

class Samples : public FakeMachine {
 protected:
  void SetUp() override {
    FakeMachine::SetUp();
    folder_ = std::filesystem::temp_directory_path() / ("vram-samples-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    show(300, "");
    scenario_.emplace("FAKE_NVML_SCENARIO", (folder_ / "scenario").string());
    library_.emplace("VRAM_NVML", build_path("tests/fake_nvml/3/libnvidia-ml.so.1"));
  }
  void TearDown() override {
    EXPECT_EQ(vram_record_stop(), VRAM_OK);
    FakeMachine::TearDown();
    std::filesystem::remove_all(folder_);
  }
  // The first device with so many MiB used, and another that the program never touches.
  void show(int used_mib, const std::string& processes) {
    const auto next = folder_ / "next";
    std::ofstream(next) << "devices 2\n"
                        << "device 0\nuuid GPU-00000000-0000-0000-0000-000000000000\n"
                        << "total 1000M\nreserved 50M\nused " << used_mib << "M\n"
                        << processes << "device 1\nuuid GPU-other\ntotal 10M\nused 1M\n";
    std::filesystem::rename(next, folder_ / "scenario");
  }
  [[nodiscard]] std::string file() const { return (folder_ / "run.vtrace").string(); }
  void start() {
    vram_record_options options{};
    options.struct_bytes = sizeof options;
    ASSERT_EQ(vram_record_start(file().c_str(), &options), VRAM_OK) << vram_last_error();
  }
  // The last of each name, of device 0.
  [[nodiscard]] std::map<std::string, uint64_t> stop_and_read() const {
    EXPECT_EQ(vram_record_stop(), VRAM_OK);
    const trace::Trace trace = trace::open_trace(file()).value();
    std::map<std::string, uint64_t> last;
    for (const trace::Figure& figure : trace.figures) {
      EXPECT_EQ(figure.device, 0u);
      last[std::string(trace.tables.strings[figure.name])] = figure.value;
    }
    return last;
  }

  std::filesystem::path folder_;
  std::optional<Environment> scenario_;
  std::optional<Environment> library_;
};

TEST_F(Samples, WhatWasUsedBeforeTheContextIsKnown) {
  start();
  open();  // the context
  show(500, "process compute " + std::to_string(getpid()) + " 150M\nprocess compute 5 300M\n");
  const auto last = stop_and_read();
  EXPECT_EQ(last.at(std::string(figures::kTotal)), 1000 * kMiB);
  EXPECT_EQ(last.at(std::string(figures::kDriver)), 50 * kMiB);
  EXPECT_EQ(last.at(std::string(figures::kUsedBefore)), 300 * kMiB);
  EXPECT_EQ(last.at(std::string(figures::kUsed)), 500 * kMiB);
  EXPECT_EQ(last.at(std::string(figures::kProcess)), 150 * kMiB);
  EXPECT_EQ(last.at(std::string(figures::kOthers)), 300 * kMiB);
}

TEST_F(Samples, AProcessThatTheDriverDoesNotListHasNoShare) {
  open();
  show(500, "process compute 5 300M\n");
  start();
  const auto last = stop_and_read();
  EXPECT_EQ(last.at(std::string(figures::kUsed)), 500 * kMiB);
  EXPECT_FALSE(last.contains(std::string(figures::kProcess)));
  EXPECT_FALSE(last.contains(std::string(figures::kOthers)));
  EXPECT_FALSE(last.contains(std::string(figures::kUsedBefore))) << "the context was there already";
}

TEST_F(Samples, WithoutAContextNothingIsRecorded) {
  start();
  EXPECT_TRUE(stop_and_read().empty());
}

TEST_F(Samples, AMachineWithoutNvmlIsRecordedWithoutSamples) {
  library_.reset();
  const Environment nowhere("VRAM_NVML", "/nowhere.so");
  open();
  start();
  EXPECT_TRUE(stop_and_read().empty());
}

std::ptrdiff_t thread_count() {
  const auto threads = std::filesystem::directory_iterator("/proc/self/task");
  return std::distance(begin(threads), end(threads));
}

// NVML's library ends when the process does: no thread may be in it then.
TEST_F(Samples, TheThreadEndsBeforeItsLibraryDoes) {
  const pid_t child = fork();
  if (child == 0) {
    static std::ptrdiff_t started = 0;  // threads, those of a sanitizer among them
    const auto check = [] {             // runs after what is registered later
      _exit(thread_count() == started - 1 ? 0 : 1);
    };
    if (std::atexit(check) != 0) _exit(2);
    start();
    started = thread_count();
    std::exit(3);  // NOLINT(concurrency-mt-unsafe): the orderly end is what is tested
  }
  EXPECT_EQ(WEXITSTATUS(status_of_child(child)), 0);
}

TEST_F(Samples, MarksAndFiguresOfTheProgram) {
  open();
  start();
  vram_record_figure(0, "growth.NCCL", 77);
  vram_mark mark{};
  mark.struct_bytes = sizeof mark;
  mark.kind = VRAM_MARK_COLLECTIVE;
  mark.device = -1;
  mark.size_bytes = 4096;
  mark.duration_ns = 1000;
  mark.name = "all_reduce";
  mark.group = "default_pg";
  vram_record_mark(&mark);
  mark.struct_bytes = 1;
  vram_record_mark(&mark);  // of another version
  EXPECT_EQ(stop_and_read().at("growth.NCCL"), 77u);
  const trace::Trace trace = trace::open_trace(file()).value();
  ASSERT_EQ(trace.marks.size(), 1u);
  EXPECT_EQ(trace.marks[0].kind, trace::MarkKind::kCollective);
  EXPECT_EQ(trace.marks[0].device, trace::kNoDevice);
  EXPECT_EQ(trace.marks[0].size_bytes, 4096u);
  EXPECT_EQ(trace.marks[0].duration_ns, 1000);
  EXPECT_EQ(trace.tables.strings[trace.marks[0].name], "all_reduce");
  EXPECT_EQ(trace.tables.strings[trace.marks[0].group], "default_pg");
}

}  // namespace
}  // namespace vram::capi
