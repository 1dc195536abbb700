// collect(): reads the machine's facts: files of /proc, /sys, /dev and /etc, the environment, and
// the driver's libraries. The only part of the doctor with side effects.
//
//     files below root ─┐
//     NVML, libcuda ────┴─▶ MachineFacts ──▶ examine()
//
// Executes nothing, changes nothing, reads bounded parts of files and blocks on none; a sleeping
// GPU is not woken. The libraries are called on a thread of its own, which is detached if they do
// not answer in time. From one thread.
#pragma once

#include "doctor/facts.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace vram::doctor {

struct Libraries {
  std::string nvml = "libnvidia-ml.so.1";
  std::string cuda = "libcuda.so.1";
  std::chrono::milliseconds timeout = std::chrono::seconds(20);  // with each
};

// Which process to examine; absent: this one.
using Pid = std::optional<uint32_t>;

// Without the libraries, the snapshot and the holders: those are not below a root.
[[nodiscard]] MachineFacts collect(const std::string& root = "/", Pid pid = std::nullopt);

// Reads the facts from the driver's libraries. Do not call it while all GPUs sleep.
void query_libraries(MachineFacts& facts, const Libraries& libraries);

}  // namespace vram::doctor
