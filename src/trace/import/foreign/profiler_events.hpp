// ProfilerEvents: the events of a trace of torch.profiler on their way into a Trace. Internal to
// foreign/; one thread at a time.
#pragma once

#include "base/memory.hpp"
#include "base/pod_vector.hpp"
#include "base/result.hpp"
#include "trace/trace.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vram::trace {

// The members of an event that matter, as they are written.
struct ProfilerEvent {
  char phase = 0;
  std::string name;
  std::string category;
  int64_t process = 0;
  int64_t thread = 0;
  double begin_us = 0;
  double duration_us = 0;
  // Of "[memory]" events: how many bytes more or less are in use, where.
  int64_t bytes = 0;
  uint64_t address = 0;
  int64_t device = 0;
  int64_t device_type = 0;  // c10::DeviceType: 0 is the processor
};

// A small compressed file may have more events than the machine has memory for.
class ProfilerEvents {
 public:
  explicit ProfilerEvents(Trace& trace, uint64_t max_memory_bytes = default_memory_limit_bytes())
      : trace_(trace), max_memory_bytes_(max_memory_bytes) {}

  // What times count from; before or after the events.
  void set_base_ns(int64_t base_ns) { base_ns_ = base_ns; }
  void add(const ProfilerEvent& event);
  // Whether the events need more memory than that: no more are to be added.
  [[nodiscard]] bool is_full() const { return memory_bytes_ > max_memory_bytes_; }
  // Fills the trace. kBadInput: there are no events of memory. kTooLarge: is_full().
  [[nodiscard]] Result<> finish();

 private:
  // What ran on a thread: an operator or a Python function.
  struct Call {
    double begin_us = 0;
    double end_us = 0;
    FrameId frame = 0;
  };
  struct Change {
    double time_us = 0;
    int64_t bytes = 0;
    uint64_t address = 0;
    uint32_t thread = 0;
    uint32_t device = 0;
    StackId stack = 0;
    bool is_host = false;
  };
  struct Region {
    double time_us = 0;
    StringId name = 0;
    bool is_begin = true;
  };

  void add_change(const ProfilerEvent& event, uint32_t thread);
  [[nodiscard]] uint32_t thread_of(const ProfilerEvent& event);
  [[nodiscard]] StringId intern(std::string_view text);
  [[nodiscard]] FrameId frame_of(std::string_view name, bool is_python);
  void find_stacks(std::vector<Call>& calls, const std::vector<size_t>& changes);
  void place_events();
  void place_annotations(uint32_t device);
  [[nodiscard]] int64_t time_ns(double time_us) const;

  Trace& trace_;
  const uint64_t max_memory_bytes_;
  uint64_t memory_bytes_ = 0;  // of the events, and of what they become
  int64_t base_ns_ = 0;
  std::map<std::pair<int64_t, int64_t>, uint32_t> threads_;
  std::vector<std::vector<Call>> calls_;  // by thread
  std::vector<Change> changes_;
  std::vector<Region> regions_;
  uint64_t without_use_ = 0;  // events without bytes, or with impossible times or devices
};

}  // namespace vram::trace
