#include "attach/attachment.hpp"

#include <utility>

namespace vram::attach {

Result<> Attachment::add(const Target& target, const ProbedLibrary& library, AllocatorCall call) {
  const std::string_view name = call == AllocatorCall::kMalloc ? "malloc" : "free";
  for (const Probe& probe : library.probes) {
    if (probe.name != name) continue;
    VRAM_TRY_ASSIGN(const auto operands, parse_operands(probe.operands));
    VRAM_TRY_ASSIGN(const auto program, make_program(call, operands, ring_.maps(), frames_));
    VRAM_TRY_ASSIGN(auto attached,
                    AttachedProbe::attach(target.pid(), library.path, probe, program));
    probes_.push_back(std::move(attached));
  }
  return {};
}

Result<> Attachment::prepare_stacks(const Target& target) {
  VRAM_TRY_ASSIGN(python_, PythonProcess::open(target));
  VRAM_TRY_ASSIGN(threads_, ThreadMap::create());
  VRAM_TRY_ASSIGN(const auto pids, target.pid_namespace());
  frames_ = FrameSource{threads_->number(), python_->frame_layout(), pids.device, pids.inode};
  find_threads();
  return {};
}

void Attachment::find_threads() {
  if (python_) threads_->update(python_->threads());
}

record::StackId Attachment::stack_of(std::span<const PythonFrame> frames) {
  std::vector<record::FrameNumber> numbers;
  for (const PythonFrame& frame : frames)
    if (const auto number = python_->number(frame)) numbers.push_back(*number);
  return numbers.empty() ? 0 : record::stores().stacks.intern(numbers);
}

// Frees first: a block whose allocation is seen and whose free is not would seem to live forever.
Result<Attachment> Attachment::attach(const Target& target, const AttachmentOptions& options) {
  VRAM_TRY_ASSIGN(const auto libraries, target.libraries(options.provider));
  VRAM_TRY_ASSIGN(auto ring, EventRing::create(options.ring_bytes));
  Attachment attachment(std::move(ring));
  if (options.python_stacks) {
    VRAM_TRY(attachment.prepare_stacks(target));
  }
  for (const AllocatorCall call : {AllocatorCall::kFree, AllocatorCall::kMalloc})
    for (const ProbedLibrary& library : libraries) {
      const auto added = attachment.add(target, library, call);
      if (!added)
        return fail(added.error().code, "{} in process {}: {}", library.name, target.pid(),
                    added.error().message);
    }
  for (const ProbedLibrary& library : libraries) attachment.libraries_.push_back(library.name);
  return attachment;
}

void Attachment::detach() {
  while (!probes_.empty()) probes_.pop_back();
}

}  // namespace vram::attach
