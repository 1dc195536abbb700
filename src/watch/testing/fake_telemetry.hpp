// A source of devices that a test configures and breaks; counts its calls.
#pragma once

#include "watch/sources.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace vram::watch::testing {

inline gpu::DeviceIdentity identity_of(const std::string& uuid) {
  gpu::DeviceIdentity identity;
  identity.uuid = uuid;
  return identity;
}

inline gpu::DeviceSample sample_of(uint64_t used_bytes) {
  gpu::DeviceSample sample;
  sample.memory.total_bytes = 100;
  sample.memory.used_bytes = used_bytes;
  return sample;
}

inline gpu::DeviceSample in_trouble(const std::string& trouble) {
  gpu::DeviceSample sample;
  sample.trouble = trouble;
  return sample;
}

struct FakeMachine {
  std::vector<gpu::DeviceIdentity> identities;
  std::vector<gpu::DeviceSample> samples;  // as many
  gpu::DeviceHealth health;
  std::optional<std::string> open_failure;
  std::optional<std::string> count_failure;
  uint64_t now_ns = 0;
  int opened = 0;
  std::shared_ptr<const bool> handle = std::make_shared<const bool>();  // shared by open sources
  int identities_read = 0;
  std::vector<uint64_t> health_read_ns = {};
  gpu::XidReport report = {};  // only in the next sample

  [[nodiscard]] bool is_open() const { return handle.use_count() > 1; }
  void add(const std::string& uuid) {
    identities.push_back(identity_of(uuid));
    samples.push_back(sample_of(40));
  }
};

class FakeTelemetry final : public gpu::Telemetry {
 public:
  explicit FakeTelemetry(FakeMachine& machine) : machine_(&machine), handle_(machine.handle) {
    ++machine.opened;
  }
  [[nodiscard]] Result<uint32_t> device_count() const override {
    if (machine_->count_failure) return fail(Code::kIo, "{}", *machine_->count_failure);
    return static_cast<uint32_t>(machine_->samples.size());
  }
  [[nodiscard]] gpu::DeviceIdentity identity(uint32_t index) const override {
    ++machine_->identities_read;
    return machine_->identities[index];
  }
  [[nodiscard]] gpu::DeviceHealth health(uint32_t /*index*/) const override {
    machine_->health_read_ns.push_back(machine_->now_ns);
    return machine_->health;
  }
  [[nodiscard]] gpu::DeviceSample sample(uint32_t index) const override {
    return machine_->samples[index];
  }
  [[nodiscard]] gpu::XidReport xid_report() const override {
    return std::exchange(machine_->report, {});
  }

 private:
  FakeMachine* machine_;
  std::shared_ptr<const bool> handle_;
};

inline Opener opener_of_machine(std::string name, FakeMachine& machine) {
  return opener_of(std::move(name), [&machine]() -> Result<FakeTelemetry> {
    if (machine.open_failure) return fail(Code::kNotFound, "{}", *machine.open_failure);
    return FakeTelemetry(machine);
  });
}

}  // namespace vram::watch::testing
