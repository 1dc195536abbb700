// Made-up samples with their own clock, for tests of rules.
#pragma once

#include "alerts/judge/judge.hpp"
#include "base/bytes.hpp"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace vram::alerts::testing {

inline constexpr int64_t kBeginning = 1'795'338'845'000'000'000;  // 2026-11-22 09:14:05 UTC

inline watch::Device healthy_device(uint32_t index = 0) {
  watch::Device device;
  device.identity.index = device.sample.index = index;
  device.identity.name = "NVIDIA H200";
  device.identity.uuid = "GPU-000" + std::to_string(index);
  device.sample.memory = {100 * kGiB, 20 * kGiB, 79 * kGiB, kGiB};
  device.sample.busy_percent = 90;
  device.sample.celsius = 60;
  device.sample.throttle_reasons.emplace();
  device.sample.processes.emplace();
  device.health.ecc_since_boot = {0, 0};
  device.health.remapped_rows.emplace();
  device.health.recovery_action = "none";
  device.health.memory_celsius = 70;
  device.unattributed_bytes = 0;
  device.xids.emplace();
  return device;
}

// A machine that is sampled repeatedly; `machine` is what the next sample contains.
class SampleSequence {
 public:
  explicit SampleSequence(RuleBook book = RuleBook::built_in(), JudgeOptions options = {})
      : judge(std::move(book), options) {
    machine.host = "node17";
    machine.devices = {healthy_device()};
  }

  // After `after_ns` more.
  std::vector<AlertChange> take_sample(uint64_t after_ns = 10 * kSecondNs) {
    now_ns += after_ns;
    watch::Sampled sampled;
    sampled.snapshot = machine;
    sampled.snapshot.time_ns = kBeginning + static_cast<int64_t>(now_ns) + clock_is_off_ns;
    sampled.number = ++number_;
    sampled.begin_ns = now_ns;
    sampled.sample_duration_ns = sample_duration_ns;
    std::vector<AlertChange> changes = judge.judge(sampled);
    for (const AlertChange& change : changes) notified.push_back(change.alert);
    return changes;
  }

  // A sample that hangs for this long.
  std::vector<AlertChange> overdue(uint64_t overdue_ns) {
    std::vector<AlertChange> changes = judge.judge_overdue(
        now_ns + overdue_ns, kBeginning + static_cast<int64_t>(now_ns + overdue_ns), overdue_ns);
    for (const AlertChange& change : changes) notified.push_back(change.alert);
    return changes;
  }

  // Samples every ten seconds; calls `change` before each sample with the time since the start.
  void sample_for(
      uint64_t duration_ns, const std::function<void(uint64_t)>& change = [](uint64_t) {},
      uint64_t period_ns = 10 * kSecondNs) {
    for (uint64_t passed = period_ns; passed <= duration_ns; passed += period_ns) {
      change(passed);
      take_sample(period_ns);
    }
  }

  watch::Device& device(size_t place = 0) { return machine.devices[place]; }

  // A process on the first device, counted in its figures.
  watch::Process& add_process(uint32_t pid, uint64_t used_bytes) {
    gpu::DeviceProcess on_device;
    on_device.pid = pid;
    on_device.used_bytes = used_bytes;
    device().sample.processes->push_back(on_device);
    watch::Process process;
    watch::ProcessFacts& facts = process.facts.edit();
    facts.pid = pid;
    facts.start_ticks = 1'000 + pid;
    facts.user = "ann";
    facts.command = "python3 train.py";
    process.uses.push_back({0, on_device, std::nullopt});
    return machine.processes.emplace_back(std::move(process));
  }

  // Rules with an alert in that state.
  std::vector<std::string> rules_in(AlertState state) const {
    std::vector<std::string> names;
    for (const Alert& alert : judge.alerts()) {
      if (alert.state == state) names.push_back(alert.rule);
    }
    return names;
  }
  std::vector<std::string> firing() const { return rules_in(AlertState::kFiring); }
  std::vector<std::string> pending() const { return rules_in(AlertState::kPending); }
  // Rules that ever fired.
  bool fired(const std::string& rule) const {
    return std::ranges::any_of(notified, [&](const Alert& alert) {
      return alert.rule == rule && alert.state == AlertState::kFiring;
    });
  }

  Judge judge;
  watch::Snapshot machine;
  uint64_t now_ns = 1'000 * kSecondNs;
  uint64_t sample_duration_ns = 5'000'000;
  int64_t clock_is_off_ns = 0;
  std::vector<Alert> notified;

 private:
  uint64_t number_ = 0;
};

}  // namespace vram::alerts::testing
