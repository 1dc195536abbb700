// A flight recorder in a folder of its own, steps to record, and children that run one.
#pragma once

#include "base/testing/waiting.hpp"
#include "record/dumps.hpp"
#include "record/recorder.hpp"
#include "record/testing/recorder_fixture.hpp"
#include "trace/event.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <unistd.h>
#include <vector>

namespace vram::record {

inline constexpr uint64_t kBase = uint64_t{1} << 20;

class FlightFixture : public RecorderFixture {
 protected:
  [[nodiscard]] RecorderOptions options(const FlightOptions& flight = {.steps = 10}) const {
    return {.path = path("flight.1.vtrace"), .flight = flight};
  }
  [[nodiscard]] std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      names.push_back(entry.path().filename());
    std::ranges::sort(names);
    return names;
  }
  // A step takes a block that stays for `life` steps.
  static void run_steps(uint64_t first, uint64_t end, uint64_t life = 3) {
    for (uint64_t step = first; step < end; ++step) {
      Recorder::step();
      alloc(kBase + step * 512, 100 + step);
      if (step >= life) free(kBase + (step - life) * 512);
    }
  }
  static std::string dump() {
    const auto done = Recorder::dump(std::chrono::milliseconds(20'000));
    EXPECT_TRUE(done) << done.error().message;
    return done.value_or("");
  }
  // The blocks that are alive at the end, by address.
  static std::map<uint64_t, uint64_t> alive(const trace::Trace& trace) {
    std::map<uint64_t, uint64_t> blocks;
    for (const trace::Event& event : trace.events_of(trace.devices[0])) {
      if (event.kind == trace::EventKind::kAlloc) blocks[event.address] = event.size_bytes;
      if (event.kind == trace::EventKind::kFreeCompleted) {
        EXPECT_EQ(blocks.count(event.address), 1u) << "freed, but never there";
        blocks.erase(event.address);
      }
    }
    return blocks;
  }
  static std::string first_step(const trace::Trace& trace) {
    return std::string(trace.tables.strings[trace.annotations.at(0).name]);
  }
  // In a child that runs `work` after it has started a flight recorder, and its status.
  template <typename Work>
  int status_of_work(const Work& work) {
    const pid_t child = ::fork();
    if (child == 0) {
      if (!Recorder::start(options())) _exit(90);
      DumpSignals::install(SIGUSR2);
      DumpSignals::set_enabled(true);
      run_steps(0, 5);
      work();
      _exit(91);
    }
    return vram::status_of_child(child);
  }
};

}  // namespace vram::record
