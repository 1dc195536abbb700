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

// Which container a process runs in, as its control group says.
struct Container {
  std::string
      runtime;     // "docker", "containerd", "podman", "cri-o"; "" where the path has an id alone
  std::string id;  // 64 hexadecimal digits
};

struct Pod {
  std::string uid;
  std::optional<std::string> name;
  std::optional<std::string> space;  // its namespace
};

// A process as the kernel describes it. One that is not to be seen from here (it counts in another
// pid namespace, or is gone) has a pid and nothing else.
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

// What a process says of itself on the board, for one device.
struct AllocatorFigures {
  std::optional<uint64_t> allocated_bytes;
  std::optional<uint64_t> reserved_bytes;
  std::optional<uint64_t> cached_bytes;           // what a trim would give back
  std::optional<uint64_t> peak_bytes;             // of allocated_bytes
  std::optional<uint64_t> number = std::nullopt;  // by which the process calls the device
};

// A process on one device; on a MIG device once for each instance.
struct Use {
  uint32_t device = 0;
  gpu::DeviceProcess process;
  std::optional<AllocatorFigures> allocator;
};

struct Process {
  Shared<ProcessFacts> facts;  // from look to look the same, while nothing changes
  std::vector<Use> uses;       // by device
  std::optional<uint64_t> step;
  std::optional<uint64_t> step_ns;  // how long the last one took
  std::optional<std::string> scope;
};

// How often a device's driver told of a fault, by NVIDIA's Xid number.
struct XidCount {
  uint64_t xid = 0;
  uint64_t count = 0;
  int64_t last_time_ns = 0;  // since 1970, UTC
};

struct Device {
  gpu::DeviceIdentity identity;
  gpu::DeviceHealth health;
  gpu::DeviceSample sample;
  // Used by nobody whom the driver names: contexts of processes it hides, managed memory, the
  // driver itself. Negative: the processes' figures come to more than is used.
  std::optional<int64_t> unattributed_bytes;
  // total - used - reserved - free, where all are known: 0 when the driver's figures agree.
  std::optional<int64_t> unaccounted_bytes;
  // In the last few seconds, as the sample has them.
  std::optional<uint64_t> pcie_sent_bytes_per_second;
  std::optional<uint64_t> pcie_received_bytes_per_second;
  std::optional<uint64_t> nvlink_sent_bytes_per_second;
  std::optional<uint64_t> nvlink_received_bytes_per_second;
  // Since this program watches, by number; unknown: its driver does not tell.
  std::optional<std::vector<XidCount>> xids;
};

struct Snapshot {
  int64_t time_ns = 0;  // since 1970, UTC
  std::string host;
  std::vector<Device> devices;
  std::vector<Process> processes;  // by pid
  std::vector<std::string> notes;  // what could not be asked, and why, a line each
};

}  // namespace vram::watch
