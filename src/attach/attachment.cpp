#include "attach/attachment.hpp"

#include <utility>

namespace vram::attach {

Result<> Attachment::add(const Target& target, const ProbedLibrary& library, AllocatorCall call) {
  const std::string_view name = call == AllocatorCall::kMalloc ? "malloc" : "free";
  for (const Probe& probe : library.probes) {
    if (probe.name != name) continue;
    VRAM_TRY_ASSIGN(const auto operands, parse_operands(probe.operands));
    VRAM_TRY_ASSIGN(const auto program, make_program(call, operands, ring_.maps()));
    VRAM_TRY_ASSIGN(auto attached,
                    AttachedProbe::attach(target.pid(), library.path, probe, program));
    probes_.push_back(std::move(attached));
  }
  return {};
}

// Frees first: a block whose allocation is seen and whose free is not would seem to live forever.
Result<Attachment> Attachment::attach(const Target& target, const std::string& provider,
                                      uint32_t ring_bytes) {
  VRAM_TRY_ASSIGN(const auto libraries, target.libraries(provider));
  VRAM_TRY_ASSIGN(auto ring, EventRing::create(ring_bytes));
  Attachment attachment(std::move(ring));
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
