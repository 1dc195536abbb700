// What must always hold between SimGpu's parts; each part checks itself.
#include "gpu/sim/sim_gpu.hpp"

#include <unordered_map>

namespace vram::gpu {

namespace {
// Empty, or what is wrong between handles and their mappings.
std::string check_mappings(const Physical& physical, const Mappings& mappings) {
  std::unordered_map<Handle, uint32_t> counts;
  for (const auto& [address, mapping] : mappings.all()) {
    const auto piece = physical.pieces().find(mapping.handle);
    if (piece == physical.pieces().end()) return "a mapping shows a handle that is no more";
    if (piece->second.bytes != mapping.bytes) return "a mapping is not as large as its handle";
    ++counts[mapping.handle];
  }
  for (const auto& [handle, piece] : physical.pieces()) {
    const auto count = counts.find(handle);
    if (piece.mappings != (count == counts.end() ? 0 : count->second))
      return "a handle miscounts its mappings";
    if (piece.released && piece.mappings == 0) return "a released handle without mappings lives";
  }
  return {};
}
}  // namespace

bool SimGpu::validate(std::string* why) const {
  if (!addresses_.validate(why) || !mappings_.validate(why) || !segments_.validate(why))
    return false;
  std::string wrong = check_mappings(physical_, mappings_);
  for (uint32_t device = 0; device < device_count(); ++device) {
    const uint64_t used = physical_.used_bytes(device);
    if (used != physical_.handle_bytes(device) + segments_.page_bytes(device))
      wrong = "used bytes are not those of the handles and segments";
    if (used > physical_.info(device).total_bytes) wrong = "more is used than there is";
  }
  if (why != nullptr && !wrong.empty()) *why = wrong;
  return wrong.empty();
}

}  // namespace vram::gpu
