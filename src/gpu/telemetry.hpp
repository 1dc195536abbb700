// Telemetry: what a machine's GPUs report, as values: the interface between the sources (nvml/,
// drm/) and everything that shows or evaluates it. Unknown is not zero: a figure that a library, a
// driver or a permission may withhold is optional, up to the screen.
//
// Three functions, by how often to call them: identity() once, health() every few seconds, sample()
// at each tick. Sizes are bytes. They wait no longer than the source's own calls.
#pragma once

#include "base/result.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vram::gpu {

// Of one source. A library that counts more is not believed.
inline constexpr uint32_t kMaxDevices = 1024;

// Values of recovery_action by NVML's number, and of throttle_reasons by bit, from 1 on. Newer
// drivers may have others.
inline constexpr std::array<std::string_view, 5> kRecoveryActions{
    "none", "reset", "reboot", "drain peer to peer", "drain and reset"};
inline constexpr std::array<std::string_view, 8> kThrottleReasons{
    "application clocks", "power cap",        "hardware slowdown", "sync boost",
    "software thermal",   "hardware thermal", "power brake",       "display clocks"};

// If all four are known, total = used + reserved + free. If the driver's own memory (reserved) is
// unknown, it is part of used.
struct DeviceMemory {
  std::optional<uint64_t> total_bytes;
  std::optional<uint64_t> used_bytes;
  std::optional<uint64_t> free_bytes;
  std::optional<uint64_t> reserved_bytes;
};

struct DeviceProcess {
  uint32_t pid = 0;  // the host's: in a container there may be no such process
  bool is_compute = false;
  bool is_graphics = false;
  bool is_mps = false;  // computes through NVIDIA's MPS server
  std::optional<uint64_t> used_bytes;
  std::optional<uint64_t> host_bytes;    // of the host's memory that the device uses (AMD's GTT)
  std::optional<uint32_t> busy_percent;  // of the device's time, in a second of the last few
  std::optional<uint64_t> busy_ns;       // of its busiest engine; only ever grows
  std::optional<uint32_t> gpu_instance;  // of MIG
  std::optional<uint32_t> compute_instance;
};

enum class Vendor : uint8_t { kNvidia, kAmd, kIntel, kSimulated };

// A MIG instance: a part of a device that works as a device of its own.
struct MigInstance {
  uint32_t gpu_instance = 0;
  uint32_t compute_instance = 0;
  std::optional<std::string> uuid;
  std::optional<std::string> profile;  // "1g.18gb"
  DeviceMemory memory;                 // of the GPU instance, whose compute instances share it
};

// A device's identity. Constant while its driver is loaded.
struct DeviceIdentity {
  uint32_t index = 0;
  Vendor vendor = Vendor::kNvidia;
  std::optional<std::string> name;
  std::optional<std::string> uuid;
  std::optional<std::string> pci_id;              // "0000:19:00.0"
  std::optional<std::string> driver;              // its version
  std::optional<std::string> compute_capability;  // of CUDA: "9.0"
  std::optional<uint32_t> power_limit_milliwatts;
  std::optional<uint32_t> numa_node;
};

struct EccCounts {
  std::optional<uint64_t> corrected;
  std::optional<uint64_t> uncorrected;
};

struct RemappedRows {
  uint32_t corrected = 0;
  uint32_t uncorrected = 0;
  bool is_pending = false;  // until the next reset
  bool has_failed = false;
};

// Pages of memory that are no longer used: NVIDIA's GPUs before Ampere, AMD's.
struct RetiredPages {
  std::optional<uint32_t> corrected;     // after several corrected errors, of a single bit
  std::optional<uint32_t> uncorrected;   // after one that could not be corrected, of two bits
  std::optional<uint32_t> of_any_cause;  // if the driver does not report the cause
  std::optional<bool> is_pending;        // bad, and in use until the next reset
  std::optional<bool> has_failed;        // one could not be retired
};

// How a device is doing: figures that change slowly or cost a slow call.
struct DeviceHealth {
  std::optional<DeviceMemory> bar1;  // the memory that the host can map
  EccCounts ecc_since_boot;
  EccCounts ecc_ever;
  std::optional<RemappedRows> remapped_rows;
  std::optional<RetiredPages> retired_pages;
  std::optional<uint32_t> memory_celsius;
  std::optional<std::string> recovery_action;  // "reset", "reboot", …
  std::optional<std::string> compute_mode;     // "default", "exclusive process", "prohibited"
  std::optional<bool> is_persistent;           // the driver stays loaded without users
  std::optional<bool> is_mig;
  std::vector<MigInstance> mig_instances;
};

// A device at one moment.
struct DeviceSample {
  uint32_t index = 0;
  DeviceMemory memory;
  // Host memory that the device may use as its own (AMD's GTT): integrated GPUs have little memory
  // of their own, so models are stored here.
  DeviceMemory host_memory;
  std::optional<uint32_t> busy_percent;         // of the time of the library's last sample
  std::optional<uint32_t> memory_busy_percent;  // of the time it was read or written, not of bytes
  // Of the bytes that could have been read and written in the last few seconds.
  std::optional<uint32_t> memory_bandwidth_percent;
  std::optional<uint32_t> celsius;
  std::optional<uint32_t> milliwatts;
  std::optional<uint32_t> core_mhz;
  std::optional<uint32_t> memory_mhz;
  std::optional<std::vector<std::string>> throttle_reasons;  // why the clocks are held down
  std::optional<uint64_t> pcie_sent_bytes;  // since the driver was loaded; may be reset
  std::optional<uint64_t> pcie_received_bytes;
  std::optional<uint64_t> nvlink_sent_bytes;  // over all links; otherwise as PCIe's
  std::optional<uint64_t> nvlink_received_bytes;
  // Over the last seconds, if the source reports it; else watch::Rates computes it from the
  // counters above.
  std::optional<uint64_t> pcie_sent_bytes_per_second;
  std::optional<uint64_t> pcie_received_bytes_per_second;
  std::optional<uint64_t> nvlink_sent_bytes_per_second;
  std::optional<uint64_t> nvlink_received_bytes_per_second;
  std::optional<std::vector<DeviceProcess>> processes;  // by pid
  // Powered down; nothing else was read, so as not to wake it.
  bool is_asleep = false;
  // Why the device reported nothing, in one line.
  std::optional<std::string> trouble;
};

// A fault that NVIDIA's driver reported when it happened, by its Xid number.
struct XidEvent {
  uint64_t xid = 0;
  std::optional<uint32_t> device;        // its index; unknown: none that is watched
  std::optional<uint32_t> gpu_instance;  // of MIG
  std::optional<uint32_t> compute_instance;
};

// The devices that report faults, and the faults since the last report.
struct XidReport {
  std::vector<uint32_t> watched;  // by index
  std::vector<XidEvent> events;
};

class Telemetry {
 public:
  virtual ~Telemetry() = default;
  [[nodiscard]] virtual Result<uint32_t> device_count() const = 0;
  [[nodiscard]] virtual DeviceIdentity identity(uint32_t index) const = 0;
  [[nodiscard]] virtual DeviceHealth health(uint32_t index) const = 0;
  // If the device fails, everything but the index and `trouble` is unknown.
  [[nodiscard]] virtual DeviceSample sample(uint32_t index) const = 0;
  // Sources that do not report faults return no devices.
  [[nodiscard]] virtual XidReport xid_report() const { return {}; }

 protected:
  Telemetry() = default;
  // Sources are moved to where they stay (watch::opener_of).
  Telemetry(Telemetry&&) = default;
  Telemetry& operator=(Telemetry&&) = default;
};

}  // namespace vram::gpu
