// A folder for the recordings of one test, and short ways to record into it and read it back.
#pragma once

#include "base/testing/waiting.hpp"
#include "record/recorder.hpp"
#include "record/threads.hpp"
#include "trace/open.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <unistd.h>

namespace vram::record {

class RecorderFixture : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("vram-record-" + std::to_string(getpid()) + "-" +
               testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override {
    (void)Recorder::stop();
    std::filesystem::remove_all(folder_);
  }
  [[nodiscard]] std::string path(const std::string& name = "run.vtrace") const {
    return (folder_ / name).string();
  }
  static void start(const RecorderOptions& options) {
    const auto done = Recorder::start(options);
    ASSERT_TRUE(done) << done.error().message;
  }
  static trace::Trace read(const std::string& path) { return trace::open_trace(path).value(); }
  static void alloc(uint64_t address, uint64_t bytes = 1, uint16_t device = 0) {
    Recorder::emit({.address = address,
                    .size_bytes = bytes,
                    .scope = ScopeStack::current(),
                    .device = device,
                    .op = Op::kAlloc});
  }
  // Until it has taken all records: a flusher that a busy machine delays loses none of a program
  // that waits for it.
  static void wait_for_flusher() {
    traffic().flush_soon();
    ASSERT_TRUE(eventually([] {
      bool is_empty = true;
      Rings::for_each([&](Ring& ring) { is_empty = is_empty && ring.front() == nullptr; });
      return is_empty;
    }));
  }
  static constexpr uint64_t kHalfOfARing = Ring::kRecords / 2;
  static void free(uint64_t address, uint16_t device = 0) {
    Recorder::emit({.address = address, .device = device, .op = Op::kFree});
  }

  std::filesystem::path folder_;
};

}  // namespace vram::record
