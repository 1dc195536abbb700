// The used part of ROCm SMI's binary interface, declared here so that no ROCm header is needed.
// Names, values and layouts are those of rocm_smi.h, the same in all versions from ROCm 4 to 7. The
// fake library of the tests (tests/fake_rocm_smi) uses them too.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vram::gpu::rocm {

using RsmiStatus = uint32_t;
inline constexpr RsmiStatus kSuccess = 0;
inline constexpr RsmiStatus kInvalidArguments = 1;
inline constexpr RsmiStatus kNotSupported = 2;
inline constexpr RsmiStatus kInitError = 8;
inline constexpr RsmiStatus kInsufficientSize = 11;

// For rsmi_init: do not use the lock shared with other processes, for which it may wait five
// seconds. Libraries that do not know the flag ignore it.
inline constexpr uint64_t kLockOfThreadsOnly = 0x400000000000000;

inline constexpr uint64_t kBlockOfMemory = 1;  // "UMC", of the parts that count errors

struct ErrorCount {
  uint64_t corrected;
  uint64_t uncorrected;
};
static_assert(sizeof(ErrorCount) == 16);

inline constexpr uint32_t kPageRetired = 0;
inline constexpr uint32_t kPagePending = 1;
inline constexpr uint32_t kPageFailed = 2;

struct PageRecord {
  uint64_t address;
  uint64_t bytes;
  uint32_t page_state;
};
static_assert(sizeof(PageRecord) == 24 && offsetof(PageRecord, page_state) == 16);

}  // namespace vram::gpu::rocm
