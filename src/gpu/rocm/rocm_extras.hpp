// RocmExtras: ROCm SMI behind drm::AmdExtras, on a thread of its own, since each of the library's
// calls may wait for long (for a lock that a dead process holds, for a device that does not
// answer), and starting it may even hang.
//
//     each few seconds:  do all of AMD's devices run? ─▶ RocmSmi::ask each ─▶ of(): the last answer
//                        one sleeps: the library is shut down
//
// The library looks at all devices when it starts, and wakes those that sleep. So it is open only
// while none does. of() may be called by any thread, and waits for nothing but the first answers,
// and for them no longer than the patience.
#pragma once

#include "base/detachable_thread.hpp"
#include "gpu/drm/amd_extras.hpp"
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
  // Waits for the library to be shut down, if that is soon (half a second), and leaves one that
  // hangs behind. While it hangs nobody else in this process asks it.
  ~RocmExtras() override;

  // Nothing is known of a device that the last round did not ask, or that was asked long ago.
  [[nodiscard]] drm::AmdExtra of(const std::string& pci_id) override;

 private:
  struct State;
  std::shared_ptr<State> state_;
  DetachableThread thread_;
};

// With the machine's own library.
[[nodiscard]] std::unique_ptr<drm::AmdExtras> open_extras(const drm::Roots& roots);

}  // namespace vram::gpu::rocm
