// What the tables of figures share: paths into a device, and the kinds of objects in its JSON.
#pragma once

#include "watch/figures/figure.hpp"

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

}  // namespace vram::watch::figures
