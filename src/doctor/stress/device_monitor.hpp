// DeviceMonitor: asks telemetry about the device while it is under pressure, on a thread of its
// own: before, each second, and after. One thread makes it and ends it.
#pragma once

#include "doctor/stress/report.hpp"
#include "watch/snapshot.hpp"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace vram::doctor {

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

  // After the last look. Once.
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

}  // namespace vram::doctor
