// Attachment: PyTorch's allocator in another process, observed through the probes of its library.
// The process runs on unchanged; it traps into the kernel at each allocation and free while this
// object lives. Use it from one thread at a time.
#pragma once

#include "attach/kernel.hpp"
#include "attach/python.hpp"
#include "attach/target.hpp"
#include "base/result.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vram::attach {

struct AttachmentOptions {
  std::string provider = "pytorch";
  uint32_t ring_bytes = EventRing::kDefaultBytes;
  bool python_stacks = false;
};

class Attachment {
 public:
  // The errors of Target::libraries(), EventRing::create(), PythonProcess::open() and
  // AttachedProbe::attach().
  [[nodiscard]] static Result<Attachment> attach(const Target& target,
                                                 const AttachmentOptions& options = {});
  Attachment(Attachment&&) = default;
  ~Attachment() { detach(); }

  // In the order of the allocator's calls.
  void take(const EventRing::Receive& receive) { ring_.take(receive); }
  // Finds threads of the process that have begun or ended. Those that began since the last call
  // have no stacks.
  void find_threads();
  // Of one of the process's threads; 0: none of its frames is known.
  [[nodiscard]] record::StackId stack_of(std::span<const PythonFrame> frames);
  [[nodiscard]] uint64_t lost() const { return ring_.lost(); }
  // Removes the probes. What they have put into the ring can still be taken.
  void detach();
  // As the process sees them.
  [[nodiscard]] const std::vector<std::string>& libraries() const { return libraries_; }

 private:
  explicit Attachment(EventRing ring) : ring_(std::move(ring)) {}
  [[nodiscard]] Result<> prepare_stacks(const Target& target);
  [[nodiscard]] Result<> add(const Target& target, const ProbedLibrary& library,
                             AllocatorCall call);

  EventRing ring_;
  std::optional<PythonProcess> python_;
  std::optional<ThreadMap> threads_;
  std::optional<FrameSource> frames_;
  std::vector<AttachedProbe> probes_;
  std::vector<std::string> libraries_;
};

}  // namespace vram::attach
