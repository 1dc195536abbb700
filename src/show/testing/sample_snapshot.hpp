// Made-up machines for vram status: a busy one with eight devices, one without any values, one with
// all difficult cases (a lost device, a sleeping one, MIG, hostile texts), and one with all values
// that a metrics page can contain.
#pragma once

#include "base/bytes.hpp"
#include "base/testing/hostile_text.hpp"
#include "base/time.hpp"
#include "show/metrics/metrics.hpp"
#include "watch/snapshot.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>

namespace vram::show::testing {

inline constexpr int64_t kSnapshotTime = 1'795'338'845'000'000'000;  // 2026-11-22 09:14:05 UTC

inline watch::Device idle_device(uint32_t index) {
  watch::Device device;
  device.identity = {.index = index,
                     .name = "NVIDIA H200",
                     .uuid = fmt::format("GPU-1b5fa1a2-0000-4000-8000-00000000000{}", index),
                     .pci_id = fmt::format("0000:{:02x}:00.0", 0x19 + index),
                     .driver = "590.48.01",
                     .compute_capability = "9.0",
                     .power_limit_milliwatts = 700'000,
                     .numa_node = index / 4};
  device.health.compute_mode = "default";
  device.health.is_persistent = true;
  device.health.is_mig = false;
  device.health.ecc_since_boot = {.corrected = 0, .uncorrected = 0};
  device.sample.index = index;
  device.sample.memory = {.total_bytes = 141 * kGiB,
                          .used_bytes = 0,
                          .free_bytes = 140 * kGiB + 512 * kMiB,
                          .reserved_bytes = 512 * kMiB};
  device.sample.busy_percent = 0;
  device.sample.celsius = 31;
  device.sample.milliwatts = 76'400;
  device.sample.processes = std::vector<gpu::DeviceProcess>();
  device.unattributed_bytes = 0;
  device.unaccounted_bytes = 0;
  return device;
}

// A process of `used_bytes` on a device, counted in the device's figures.
inline void add_use(watch::Snapshot& snapshot, watch::Process& process, uint32_t index,
                    uint64_t used_bytes) {
  watch::Device& device = snapshot.devices[index];
  gpu::DeviceProcess use;
  use.pid = process.facts->pid;
  use.is_compute = true;
  use.used_bytes = used_bytes;
  use.busy_percent = 88;
  device.sample.processes->push_back(use);
  device.sample.memory.used_bytes = *device.sample.memory.used_bytes + used_bytes;
  device.sample.memory.free_bytes = *device.sample.memory.free_bytes - used_bytes;
  device.sample.busy_percent = 91;
  device.sample.celsius = 64;
  device.sample.milliwatts = 612'300;
  process.uses.push_back({.device = index, .process = use, .allocator = {}});
}

inline watch::Process user_process(uint32_t pid, std::string user, std::string command) {
  watch::Process process;
  watch::ProcessFacts& facts = process.facts.edit();
  facts.pid = pid;
  facts.start_ticks = 1'000 + pid;
  facts.parent_pid = 1;
  facts.uid = 1'000;
  facts.user = std::move(user);
  facts.command = std::move(command);
  return process;
}

inline std::string sample_container() { return "0f3c9a7be1d2" + std::string(52, '5'); }

// One rank of a training on each device, with a status page; a server on the last two; and
// unattributed memory on device 1.
inline watch::Snapshot sample_snapshot() {
  watch::Snapshot snapshot;
  snapshot.time_ns = kSnapshotTime;
  snapshot.host = "node17";
  for (uint32_t index = 0; index < 8; ++index) snapshot.devices.push_back(idle_device(index));
  for (uint32_t index = 0; index < 8; ++index) {
    watch::Process rank = user_process(
        47'110 + index, "ann",
        fmt::format("/opt/conda/bin/python -u train.py --config configs/llama-70b.yaml --rank {} "
                    "--output /scratch/ann/runs/2026-11-22/llama-70b",
                    index));
    rank.facts.edit().slurm_job = "88123";
    rank.step = 1'204;
    rank.step_ns = 312'000'000;
    rank.scope = "backward/layers.31";
    add_use(snapshot, rank, index, 92 * kGiB);
    rank.uses[0].allocator = {.allocated_bytes = 80 * kGiB,
                              .reserved_bytes = 90 * kGiB,
                              .cached_bytes = 8 * kGiB + 512 * kMiB,
                              .peak_bytes = 86 * kGiB};
    snapshot.processes.push_back(std::move(rank));
  }
  watch::Process server = user_process(91'007, "root", "tritonserver --model-repository=/models");
  watch::ProcessFacts& facts = server.facts.edit();
  facts.container = {.runtime = "containerd", .id = sample_container()};
  facts.pod = {.uid = "7c1f", .name = "triton-6f9d8-x2x4k", .space = "serving"};
  add_use(snapshot, server, 6, 20 * kGiB);
  add_use(snapshot, server, 7, 21 * kGiB);
  snapshot.processes.push_back(std::move(server));
  watch::Device& second = snapshot.devices[1];
  second.sample.memory.used_bytes = *second.sample.memory.used_bytes + 3 * kGiB;
  second.sample.memory.free_bytes = *second.sample.memory.free_bytes - 3 * kGiB;
  second.unattributed_bytes = 3 * kGiB;
  return snapshot;
}

// Devices and a process without any known values.
inline watch::Snapshot unknown_snapshot() {
  watch::Snapshot snapshot;
  snapshot.devices.resize(2);
  snapshot.devices[1].identity.index = snapshot.devices[1].sample.index = 1;
  watch::Process process;
  process.facts.edit().pid = 4'711;
  process.uses.resize(1);
  process.uses[0].device = 1;
  process.uses[0].process.pid = process.facts->pid;
  snapshot.processes.push_back(std::move(process));
  snapshot.notes = {
      "processes: pid 4711 is not to be seen from here: it counts in another pid "
      "namespace; run with the host's (docker run --pid=host) to see it"};
  return snapshot;
}

// Two compute instances that share a GPU instance, and one that has its own.
inline watch::Device mig_device(uint32_t index) {
  watch::Device device = idle_device(index);
  device.health.is_mig = true;
  const gpu::DeviceMemory large = {.total_bytes = 70 * kGiB,
                                   .used_bytes = 35 * kGiB,
                                   .free_bytes = 35 * kGiB,
                                   .reserved_bytes = 0};
  gpu::DeviceMemory small;
  small.total_bytes = 16 * kGiB;
  device.health.mig_instances = {{1, 0, "MIG-aaaa", "1c.3g.71gb", large},
                                 {1, 1, "MIG-bbbb", "1c.3g.71gb", large},
                                 {9, 0, std::nullopt, "1g.18gb", small}};
  device.sample.busy_percent.reset();
  return device;
}

inline void make_ill(watch::Device& device) {
  device.health.ecc_since_boot = {.corrected = 12, .uncorrected = 3};
  device.health.ecc_ever = {.corrected = 40, .uncorrected = 3};
  device.health.remapped_rows = {
      .corrected = 1, .uncorrected = 2, .is_pending = true, .has_failed = true};
  device.health.retired_pages = {
      .corrected = 4, .uncorrected = 5, .of_any_cause = 6, .is_pending = true, .has_failed = true};
  device.health.memory_celsius = 92;
  device.health.recovery_action = "reset";
  device.health.bar1.emplace();
  device.health.bar1->total_bytes = 256 * kGiB;
  device.health.bar1->used_bytes = kGiB;
  device.health.bar1->free_bytes = 255 * kGiB;
  device.sample.memory_busy_percent = 40;
  device.sample.core_mhz = 1'200;
  device.sample.memory_mhz = 3'201;
  device.sample.throttle_reasons = {"power cap", "heat"};
  device.sample.pcie_sent_bytes = 5 * kGiB;
  device.sample.pcie_received_bytes = 7 * kGiB;
  device.sample.nvlink_sent_bytes = 9 * kGiB;
  device.sample.memory_bandwidth_percent = 73;
  device.sample.host_memory.total_bytes = 64 * kGiB;
  device.sample.host_memory.used_bytes = 3 * kGiB;
  device.pcie_sent_bytes_per_second = 1'048'576'000;
  device.pcie_received_bytes_per_second = 12;
  device.nvlink_received_bytes_per_second = 300 * kGiB;
  device.xids = {{31, 2, kSnapshotTime}, {79, 1, kSnapshotTime}};
}

inline watch::Snapshot awkward_snapshot() {
  watch::Snapshot snapshot;
  snapshot.time_ns = kSnapshotTime;
  snapshot.host = "lab\x1b[31m";
  for (uint32_t index = 0; index < 4; ++index) snapshot.devices.push_back(idle_device(index));
  make_ill(snapshot.devices[0]);
  snapshot.devices[1] = mig_device(1);
  snapshot.devices[2].sample = {};
  snapshot.devices[2].sample.index = 2;
  snapshot.devices[2].sample.trouble = "the GPU has fallen off the bus (XID 79)";
  snapshot.devices[2].unattributed_bytes.reset();
  snapshot.devices[2].unaccounted_bytes.reset();
  watch::Device& asleep = snapshot.devices[3] = {};
  asleep.identity.index = asleep.sample.index = 3;
  asleep.identity.vendor = gpu::Vendor::kAmd;
  asleep.identity.name = "AMD Radeon\tRX 7900M\x1b[0m";
  asleep.identity.pci_id = "0000:03:00.0";
  asleep.sample.is_asleep = true;
  watch::Process hostile =
      user_process(66, vram::testing::hostile_text(), vram::testing::hostile_text());
  hostile.facts.edit().container = {.runtime = "", .id = sample_container()};
  hostile.scope = vram::testing::hostile_text();
  add_use(snapshot, hostile, 0, 9 * kGiB);
  snapshot.devices[0].unattributed_bytes = -static_cast<int64_t>(2 * kGiB);
  snapshot.devices[0].unaccounted_bytes = static_cast<int64_t>(64 * kMiB);
  watch::Process user = user_process(4'294'967'295, "bo", "python serve.py");
  add_use(snapshot, user, 1, 20 * kGiB);
  add_use(snapshot, user, 1, 15 * kGiB);
  user.uses[0].process.gpu_instance = 1;
  user.uses[0].process.compute_instance = 0;
  user.uses[1].process.gpu_instance = 1;
  user.uses[1].process.compute_instance = 1;
  snapshot.processes = {std::move(hostile), std::move(user)};
  snapshot.notes = {"nvml: reading \x1b[5mthe page of figures failed"};
  return snapshot;
}

// A machine with all values that a metrics page can contain, and difficult ones.

// A rank with a status page, a server in a pod, and a hidden process.
inline void add_processes(watch::Snapshot& snapshot) {
  watch::Process rank = user_process(47'110, "ann", "/opt/bin/python3 train.py");
  rank.facts.edit().slurm_job = "88123";
  rank.step = 1'204;
  rank.step_ns = 312'500'000;
  add_use(snapshot, rank, 0, 92 * kGiB);
  rank.uses[0].allocator = {.allocated_bytes = 80 * kGiB,
                            .reserved_bytes = 90 * kGiB,
                            .cached_bytes = 10 * kGiB,
                            .peak_bytes = 86 * kGiB,
                            .num_alloc_retries = 3,
                            .num_ooms = 1,
                            .num_device_alloc = 412,
                            .num_device_free = 57};
  rank.uses[0].process.is_mps = snapshot.devices[0].sample.processes->back().is_mps = true;
  rank.uses[0].process.busy_ns = 1'500'000'000;
  rank.uses[0].process.host_bytes = kGiB;
  watch::Process server = user_process(91'007, "root", "tritonserver --model-repository=/models");
  watch::ProcessFacts& facts = server.facts.edit();
  facts.container = {.runtime = "containerd", .id = sample_container()};
  facts.pod = {.uid = "7c1f", .name = "triton-6f9d8-x2x4k", .space = "serving"};
  add_use(snapshot, server, 0, 2 * kGiB);
  watch::Process hidden;
  hidden.facts.edit().pid = 4'711;
  add_use(snapshot, hidden, 0, kGiB);
  snapshot.processes.push_back(std::move(rank));
  snapshot.processes.push_back(std::move(server));
  snapshot.processes.push_back(std::move(hidden));
}

inline watch::Sampled full_sampled() {
  watch::Sampled sampled;
  sampled.number = 120;
  sampled.sample_duration_ns = 2'500'000;
  sampled.period_ns = kSecondNs;
  sampled.snapshot = awkward_snapshot();
  sampled.snapshot.host = "node17";
  watch::Device& device = sampled.snapshot.devices[0];
  device.sample.nvlink_sent_bytes = 3 * kGiB;
  device.sample.nvlink_received_bytes = 4 * kGiB;
  device.sample.host_memory.total_bytes = 64 * kGiB;
  device.sample.host_memory.used_bytes = kGiB;
  device.pcie_sent_bytes_per_second = 5 * kMiB;
  device.pcie_received_bytes_per_second = 7 * kMiB;
  device.xids = {{31, 2, kSnapshotTime - 3'600'000'000'000}, {79, 1, kSnapshotTime}};
  watch::Device& uncounted = sampled.snapshot.devices[1];  // its driver only reports rates
  uncounted.sample.memory_bandwidth_percent = 73;
  uncounted.pcie_sent_bytes_per_second = 1'000 * kMiB;
  uncounted.pcie_received_bytes_per_second = 2'000 * kMiB;
  uncounted.nvlink_sent_bytes_per_second = 30 * kMiB;
  uncounted.nvlink_received_bytes_per_second = 40 * kMiB;
  uncounted.xids.emplace();
  add_processes(sampled.snapshot);
  return sampled;
}

inline ExporterFigures full_figures() {
  return {.version = "0.1.0",
          .failures = {{"nvml", 3}, {"drm", 0}},
          .scrapes = 17,
          .overdue_ns = 0,
          .resident_bytes = 9 * kMiB};
}

}  // namespace vram::show::testing
