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
#pragma once

#include "base/threads.hpp"
#include "gpu/drm/drm.hpp"
#include "gpu/drm/files.hpp"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace vram::gpu::rocm {

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
