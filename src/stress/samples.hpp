// Samples: measurements of one thing, and the Figure they make. One thread at a time. Keeps so many
// that medians are steady, and every one alike likely where there were more.
#pragma once

#include "stress/report.hpp"
#include "watch/snapshot.hpp"

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace vram::stress {

class Samples {
 public:
  void add(uint64_t value);
  [[nodiscard]] uint64_t count() const { return count_; }
  // Nothing was measured: a figure of count 0.
  [[nodiscard]] Figure figure(std::string name, uint64_t size_bytes, Unit unit) const;

 private:
  static constexpr size_t kMaxKept = 8192;

  std::vector<uint64_t> kept_;
  uint64_t count_ = 0;
  uint64_t low_ = 0;
  uint64_t high_ = 0;
  std::minstd_rand random_;
};

// Of a sum of bytes in a time; 0 for no time.
[[nodiscard]] uint64_t bytes_per_second(uint64_t bytes, int64_t duration_ns);
// part of whole, in millionths.
[[nodiscard]] Figure share_figure(std::string name, uint64_t part, uint64_t whole);

// DeviceMonitor: asks telemetry about the device while it is under pressure, on a thread of its
// own: before, each second, and after. One thread makes it and ends it.

// How the device is now; nothing where that can't be known. Called by one thread at a time.
using ReadDevice = std::function<std::optional<watch::Device>()>;

// What a sample adds to the extremes.
void widen(Extremes& extremes, const watch::Device& device);

class DeviceMonitor {
 public:
  explicit DeviceMonitor(ReadDevice read_device);
  DeviceMonitor(const DeviceMonitor&) = delete;
  DeviceMonitor& operator=(const DeviceMonitor&) = delete;
  ~DeviceMonitor() { end(); }

  // After the last sample. Once.
  [[nodiscard]] Health finish();

 private:
  void run();
  void end();

  ReadDevice read_device_;
  Health health_;  // the thread's, until it has ended
  std::mutex mutex_;
  std::condition_variable wake_;
  bool is_ending_ = false;  // by mutex
  std::thread thread_;
};

}  // namespace vram::stress
