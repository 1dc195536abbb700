// What the tables of figures share: paths into a device, the kinds of objects in its JSON, and the
// figures that no single member holds: they are computed from several members, or have several
// series. Pure functions.
#pragma once

#include "watch/figures/figure.hpp"

#include <array>
#include <optional>
#include <string_view>
#include <vector>

namespace vram::watch::figures {

using gpu::DeviceHealth;
using gpu::DeviceIdentity;
using gpu::DeviceMemory;
using gpu::DeviceSample;
using gpu::EccCounts;
using gpu::MigInstance;
using gpu::RemappedRows;
using gpu::RetiredPages;

template <auto... Path>
inline constexpr auto kIdentity = kRead<&Device::identity, Path...>;
template <auto... Path>
inline constexpr auto kSample = kRead<&Device::sample, Path...>;
template <auto... Path>
inline constexpr auto kHealth = kRead<&Device::health, Path...>;

inline constexpr ObjectType kMemoryType{
    .name = "memory",
    .schema = "Memory",
    .description = "In bytes; if all four are known, total = used + reserved + free."};

// By the number of gpu::Vendor.
inline constexpr std::array<std::string_view, 4> kVendors{"nvidia", "amd", "intel", "simulated"};

[[nodiscard]] std::string_view vendor_of(const Device& device);
[[nodiscard]] const std::optional<std::vector<std::string>>& formats_of(const Device& device);
// Whether the driver answers.
[[nodiscard]] bool is_up(const Device& device);
// A process on several MIG instances is one.
[[nodiscard]] std::optional<uint64_t> process_count(const Device& device);
// Unknown instead of 0, because a driver that does not report MPS clients reports none.
[[nodiscard]] std::optional<uint64_t> mps_client_count(const Device& device);
[[nodiscard]] std::optional<double> busy_ratio(const Device& device);
// Used, of what is not reserved.
[[nodiscard]] std::optional<double> used_ratio(const Device& device);
[[nodiscard]] std::optional<double> instance_used_ratio(const gpu::MigInstance& instance);
[[nodiscard]] std::optional<std::string_view> runtime_of(const Container& container);
// "compute (MPS client), graphics".
[[nodiscard]] std::optional<std::string_view> kind_of(const Use& use);
// 1, or unknown.
[[nodiscard]] std::optional<uint64_t> mps_client(const Use& use);

[[nodiscard]] std::vector<Point> device_info(const Device& device);
[[nodiscard]] std::vector<Point> trouble_info(const Device& device);
// NVIDIA's reasons each have a series, so that a quiet one is 0 and not gone.
[[nodiscard]] std::vector<Point> throttle_reasons(const Device& device);
// A series for each action, of which one is 1, so that a rule can name it.
[[nodiscard]] std::vector<Point> recovery_actions(const Device& device);
[[nodiscard]] std::vector<Point> xid_counts(const Device& device);
[[nodiscard]] std::vector<Point> xid_times(const Device& device);
// The number of the last one; 0 before the first.
[[nodiscard]] std::vector<Point> last_xid(const Device& device);
[[nodiscard]] std::vector<Point> instance_info(const gpu::MigInstance& instance);
[[nodiscard]] std::vector<Point> process_info(const Process& process);

}  // namespace vram::watch::figures
