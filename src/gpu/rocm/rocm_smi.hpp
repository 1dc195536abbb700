// RocmSmi: AMD's management library, started; reads the figures of each device that drm/ does not
// get from the kernel's files.
//
//     RocmApi ──▶ RocmSmi ──▶ devices by PCI address ──▶ query() ──▶ drm::AmdExtra
//
// Any of its calls may block for long, and opening it wakes sleeping devices: RocmExtras handles
// both. Use it from one thread at a time. The destructor shuts the library down.
#pragma once

#include "base/result.hpp"
#include "base/threads.hpp"
#include "gpu/drm/drm.hpp"
#include "gpu/drm/files.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace vram::gpu::rocm {

// The used part of ROCm SMI's binary interface, declared here so that no ROCm header is needed.
// Names, values and layouts are those of rocm_smi.h, the same in all versions from ROCm 4 to 7. The
// fake library of the tests (tests/fake_rocm_smi) uses them too.
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

// RocmApi: the used functions of librocm_smi64.so as a table, loaded at run time. A function that
// the version lacks is null, and affects only its own figure. RocmSmi uses it.
//
// The library is closed with the table, so that the next load sees an upgrade of ROCm. May be
// loaded and called from any thread.
struct RocmApi {
  struct Unload {
    void operator()(void* opened) const;
  };

  // A function's result for the device with this number.
  template <typename... Values>
  using Of = RsmiStatus(uint32_t index, Values... values);

  std::unique_ptr<void, Unload> library;

  RsmiStatus (*init)(uint64_t flags) = nullptr;
  RsmiStatus (*shut_down)() = nullptr;
  RsmiStatus (*device_count)(uint32_t* count) = nullptr;
  Of<uint64_t*>* pci_id = nullptr;

  // From here on each may be null.
  Of<char*, uint32_t>* market_name = nullptr;
  Of<char*, size_t>* name = nullptr;
  Of<uint64_t, ErrorCount*>* error_count = nullptr;
  Of<uint32_t*, PageRecord*>* bad_pages = nullptr;

  // The first of these files that there is. kNotFound: none of them. kUnsupported: a library that
  // is not ROCm SMI.
  [[nodiscard]] static Result<RocmApi> load(const std::vector<std::string>& files);
};

// The file that the environment variable VRAM_ROCM_SMI names, else the library by the names that it
// has from ROCm 5 to 7.
[[nodiscard]] std::vector<std::string> libraries();

class RocmSmi {
 public:
  // Errors as RocmApi::load; kUnsupported also: it does not start.
  [[nodiscard]] static Result<RocmSmi> open(const std::vector<std::string>& files);
  RocmSmi(RocmSmi&& other) noexcept = default;
  RocmSmi& operator=(RocmSmi&&) = delete;
  ~RocmSmi();

  // Impossible and missing figures are unknown, as is everything of a device that the library does
  // not list. For a partitioned device, the figures of its first partition.
  [[nodiscard]] drm::AmdExtra query(const std::string& pci_id) const;

 private:
  explicit RocmSmi(RocmApi api) : api_(std::move(api)) {}
  [[nodiscard]] Result<> count_devices();

  RocmApi api_;                              // without a library: moved from
  std::map<std::string, uint32_t> devices_;  // their numbers, by PCI address
};

// RocmExtras: ROCm SMI as drm::AmdExtras, on a thread of its own, since each call of the library
// may block for long (on the lock of a dead process, or on a device that does not respond), and
// starting it may hang.
//
//     every few seconds:  all of AMD's devices run? ─▶ RocmSmi::query each ─▶ of(): the last
//     reading
//                         one sleeps: the library is shut down
//
// The library reads all devices when it starts, and wakes sleeping ones, so it is open only while
// none sleeps. of() may be called from any thread; it waits only for the first readings, for at
// most the timeout.
struct ExtrasOptions {
  std::vector<std::string> libraries;  // the first that there is
  std::string sys = "/sys";
  std::chrono::milliseconds period{5000};
  std::chrono::milliseconds timeout{250};  // for the first answers, since the beginning
};

class RocmExtras final : public drm::AmdExtras {
 public:
  explicit RocmExtras(ExtrasOptions options);
  RocmExtras(const RocmExtras&) = delete;
  RocmExtras& operator=(const RocmExtras&) = delete;
  // Waits half a second for the library to shut down, and detaches a thread that hangs. While it
  // hangs, no other object in this process uses the library.
  ~RocmExtras() override;

  // Unknown for a device that was not read in the last round, or not for a long time.
  [[nodiscard]] drm::AmdExtra of(const std::string& pci_id) override;

 private:
  struct State;
  std::shared_ptr<State> state_;
  DetachableThread thread_;
};

// With the machine's own library. Null if the files are another machine's, which it does not know.
[[nodiscard]] std::unique_ptr<drm::AmdExtras> open_extras(const drm::Roots& roots);

}  // namespace vram::gpu::rocm
