// A machine with all values that a metrics page can contain, and difficult ones.
#pragma once

#include "base/time.hpp"
#include "show/metrics/metrics.hpp"
#include "show/testing/sample_snapshot.hpp"

#include <utility>

namespace vram::show::testing {

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
                            .peak_bytes = 86 * kGiB};
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
