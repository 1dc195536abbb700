// Attachment: PyTorch's allocator in another process, observed through the probes of its library.
// The process runs on unchanged; it traps into the kernel at each allocation and free while this
// object lives. Use it from one thread at a time.
#pragma once

#include "attach/kernel.hpp"
#include "attach/target.hpp"
#include "base/result.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace vram::attach {

class Attachment {
 public:
  // The errors of Target::libraries(), EventRing::create() and AttachedProbe::attach().
  [[nodiscard]] static Result<Attachment> attach(const Target& target,
                                                 const std::string& provider = "pytorch",
                                                 uint32_t ring_bytes = EventRing::kDefaultBytes);
  Attachment(Attachment&&) = default;
  ~Attachment() { detach(); }

  // In the order of the allocator's calls.
  void take(const std::function<void(const AllocatorEvent&)>& receive) { ring_.take(receive); }
  [[nodiscard]] uint64_t lost() const { return ring_.lost(); }
  // Removes the probes. What they have put into the ring can still be taken.
  void detach();
  // As the process sees them.
  [[nodiscard]] const std::vector<std::string>& libraries() const { return libraries_; }

 private:
  explicit Attachment(EventRing ring) : ring_(std::move(ring)) {}
  [[nodiscard]] Result<> add(const Target& target, const ProbedLibrary& library,
                             AllocatorCall call);

  EventRing ring_;
  std::vector<AttachedProbe> probes_;
  std::vector<std::string> libraries_;
};

}  // namespace vram::attach
