// Snapshot: who uses which device's memory at one moment, as values: what every view of the live
// half shows, and rules judge. Made by take_snapshot() of the sources' telemetry, the process table
// and the board; unknown is not zero.
#pragma once

#include "base/shared.hpp"
#include "gpu/telemetry.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vram::watch {

// The container that a process runs in, from its control group.
struct Container {
  std::string
      // "docker", "containerd", "podman" or "cri-o"; "" if the path contains only an id.
      runtime;
  std::string id;  // 64 hexadecimal digits
};

struct Pod {
  std::string uid;
  std::optional<std::string> name;
  std::optional<std::string> space;  // its namespace
};

// A process as the kernel describes it. A process that is not visible here (in another pid
// namespace, or ended) has only a pid.
struct ProcessFacts {
  uint32_t pid = 0;
  std::optional<uint64_t> start_ticks;  // since boot: with the pid, this process and no later one
  std::optional<uint32_t> parent_pid;
  std::optional<uint32_t> uid;
  std::optional<std::string> user;
  std::optional<std::string> command;  // with its arguments, between spaces
  std::optional<Container> container;
  std::optional<Pod> pod;
  std::optional<std::string> slurm_job;
};

// What a process publishes on its status page, for one device.
struct AllocatorFigures {
  std::optional<uint64_t> allocated_bytes;
  std::optional<uint64_t> reserved_bytes;
  std::optional<uint64_t> cached_bytes;  // what a trim would release
  std::optional<uint64_t> peak_bytes;    // of allocated_bytes
  // Since the process started, with the meanings of torch.cuda.memory_stats().
  std::optional<uint64_t> num_alloc_retries = std::nullopt;
  std::optional<uint64_t> num_ooms = std::nullopt;
  std::optional<uint64_t> num_device_alloc = std::nullopt;
  std::optional<uint64_t> num_device_free = std::nullopt;
  std::optional<uint64_t> number = std::nullopt;  // by which the process calls the device
};

// A process's use of one device; on a MIG device, of one instance.
struct Use {
  uint32_t device = 0;
  gpu::DeviceProcess process;
  std::optional<AllocatorFigures> allocator;
};

struct Process {
  Shared<ProcessFacts> facts;  // shared between samples while nothing changes
  std::vector<Use> uses;       // by device
  std::optional<uint64_t> step;
  std::optional<uint64_t> step_ns;  // how long the last one took
  std::optional<std::string> scope;
};

// How often a device's driver reported a fault, by NVIDIA's Xid number.
struct XidCount {
  uint64_t xid = 0;
  uint64_t count = 0;
  int64_t last_time_ns = 0;  // since 1970, UTC
};

struct Device {
  gpu::DeviceIdentity identity;
  gpu::DeviceHealth health;
  gpu::DeviceSample sample;
  // Used memory of no known process: contexts of processes that the driver hides, managed memory,
  // the driver itself. Negative: the processes' figures exceed the used memory.
  std::optional<int64_t> unattributed_bytes;
  // total - used - reserved - free, if all are known; 0 if the driver's figures are consistent.
  std::optional<int64_t> unaccounted_bytes;
  // In the last few seconds, as the sample has them.
  std::optional<uint64_t> pcie_sent_bytes_per_second;
  std::optional<uint64_t> pcie_received_bytes_per_second;
  std::optional<uint64_t> nvlink_sent_bytes_per_second;
  std::optional<uint64_t> nvlink_received_bytes_per_second;
  // Since this program started to watch, by number; unknown: the driver does not report faults.
  std::optional<std::vector<XidCount>> xids;
};

struct Snapshot {
  int64_t time_ns = 0;  // since 1970, UTC
  std::string host;
  std::vector<Device> devices;
  std::vector<Process> processes;  // by pid
  // Sources that could not be read, and why; one line each.
  std::vector<std::string> notes;
};

}  // namespace vram::watch
