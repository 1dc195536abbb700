#include "watch/sources.hpp"

#include "base/time.hpp"
#include "gpu/telemetry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace vram::watch {
namespace {

struct KnownDevice {
  gpu::DeviceIdentity identity;
  gpu::DeviceHealth health;
  std::optional<uint64_t> health_due_ns;  // nothing: never asked
  bool was_asleep = false;                // when it was last asked
};

}  // namespace

std::string key_of(const gpu::DeviceIdentity& identity) {
  return identity.uuid ? *identity.uuid : identity.pci_id.value_or("");
}

uint64_t monotonic_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::nanoseconds(now).count());
}

// A source, open or waiting to be tried again, and the devices that it had last.
class Sources::Slot {
 public:
  explicit Slot(Opener opener) : opener_(std::move(opener)) {}

  void read(const SourcesOptions& options, Readings& readings) {
    if (!source_) open(options);
    if (source_) count_devices(options);
    const size_t first = readings.devices.size();
    for (uint32_t index = 0; index < devices_.size(); ++index) {
      readings.devices.push_back(source_ ? read_device(index, options) : missing(index, options));
    }
    if (source_) assign_xids(readings, first);
    // Nothing answers any more, as when the driver was reloaded: what is open is of no use.
    if (source_ && is_all_trouble(readings, first)) {
      fail_with(*readings.devices[first].sample.trouble, options);
    }
    if (source_) {
      pause_ns_ = 0;
    } else {
      readings.notes.push_back(opener_.name + ": " + failure_);
    }
  }

  void release(const SourcesOptions& options) {
    source_.reset();
    failure_ =
        trf("let go on request, opened again {} s later", options.release_pause_ns / kSecondNs);
    retry_ns_ = options.clock() + options.release_pause_ns;
  }

 private:
  void open(const SourcesOptions& options) {
    if (options.clock() < retry_ns_) return;
    auto opened = opener_.open();
    if (!opened) return fail_with(opened.error().message, options);
    source_ = std::move(*opened);
    has_identities_ = false;
  }

  // Identities are read again for another number of devices: they may have moved up.
  void count_devices(const SourcesOptions& options) {
    const auto count = source_->device_count();
    if (!count) return fail_with(count.error().message, options);
    if (*count > gpu::kMaxDevices) {
      return fail_with(trf("expected at most {} devices, found {}: the library is broken",
                           gpu::kMaxDevices, *count),
                       options);
    }
    if (has_identities_ && *count == devices_.size()) return;
    devices_.assign(*count, {});
    for (uint32_t index = 0; index < *count; ++index) {
      devices_[index].identity = source_->identity(index);
    }
    has_identities_ = true;
  }

  DeviceReading read_device(uint32_t index, const SourcesOptions& options) {
    KnownDevice& device = devices_[index];
    DeviceReading reading;
    reading.sample = source_->sample(index);
    reading.time_ns = options.clock();
    // Questions about its health would wake a device; what it said before it slept is no news.
    if (!reading.sample.is_asleep) {
      query_health(index, reading.time_ns, options);
      reading.health = device.health;
    }
    device.was_asleep = reading.sample.is_asleep;
    reading.identity = device.identity;
    return reading;
  }

  // All at once at first, then spread over the period: no tick pays for all devices.
  void query_health(uint32_t index, uint64_t now_ns, const SourcesOptions& options) {
    KnownDevice& device = devices_[index];
    if (!device.was_asleep && device.health_due_ns && now_ns < *device.health_due_ns) return;
    const uint64_t period_ns = options.health_period_ns;
    const uint64_t wait_ns =
        device.health_due_ns ? period_ns : period_ns * (index + 1) / devices_.size();
    device.health_due_ns = now_ns + wait_ns;
    device.health = source_->health(index);
    // It was asleep or in trouble when its source was opened.
    if (device.was_asleep || key_of(device.identity).empty())
      device.identity = source_->identity(index);
  }

  void assign_xids(Readings& readings, size_t first) const {
    const gpu::XidReport report = source_->xid_report();
    for (const uint32_t index : report.watched) {
      if (index < devices_.size()) readings.devices[first + index].new_xids.emplace();
    }
    for (const gpu::XidEvent& event : report.events) {
      if (!event.device || *event.device >= devices_.size()) continue;
      auto& xids = readings.devices[first + *event.device].new_xids;
      if (xids) xids->push_back(event.xid);
    }
  }

  DeviceReading missing(uint32_t index, const SourcesOptions& options) const {
    DeviceReading reading;
    reading.time_ns = options.clock();
    reading.identity = devices_[index].identity;
    reading.sample.trouble = failure_;
    return reading;
  }

  static bool is_all_trouble(const Readings& readings, size_t first) {
    const auto begin = readings.devices.begin() + static_cast<std::ptrdiff_t>(first);
    return begin != readings.devices.end() &&
           std::all_of(begin, readings.devices.end(), [](const DeviceReading& reading) {
             return reading.sample.trouble.has_value();
           });
  }

  void fail_with(std::string why, const SourcesOptions& options) {
    source_.reset();
    failure_ = std::move(why);
    pause_ns_ = std::clamp(pause_ns_ * 2, options.first_pause_ns, options.max_pause_ns);
    retry_ns_ = options.clock() + pause_ns_;
  }

  Opener opener_;
  std::unique_ptr<gpu::Telemetry> source_;
  std::vector<KnownDevice> devices_;
  bool has_identities_ = false;  // of this opening
  std::string failure_;
  uint64_t pause_ns_ = 0;
  uint64_t retry_ns_ = 0;
};

Sources::Sources(std::vector<Opener> openers, SourcesOptions options)
    : options_(std::move(options)) {
  for (Opener& opener : openers) slots_.emplace_back(std::move(opener));
}

Sources::Sources(Sources&&) noexcept = default;
Sources::~Sources() = default;

Readings Sources::read() {
  Readings readings;
  for (Slot& slot : slots_) slot.read(options_, readings);
  for (size_t place = 0; place < readings.devices.size(); ++place) {
    DeviceReading& reading = readings.devices[place];
    reading.identity.index = static_cast<uint32_t>(place);
    reading.sample.index = static_cast<uint32_t>(place);
  }
  return readings;
}

void Sources::release() {
  for (Slot& slot : slots_) slot.release(options_);
}

}  // namespace vram::watch
