#include "gpu/nvml/xids.hpp"

#include <algorithm>
#include <array>

namespace vram::gpu::nvml {
namespace {

using enum XidSeverity;

constexpr std::string_view kOwnFault =
    "look for the fault in the program: compute-sanitizer finds it";
constexpr std::string_view kResetAndUpdate = "reset the GPU; update the driver";

constexpr std::array kMeanings = {
    XidMeaning{13, kProgram, "a program's error while computing, often an index out of bounds",
               kOwnFault},
    XidMeaning{31, kProgram, "a program used memory at an address that it does not have",
               kOwnFault},
    XidMeaning{43, kProgram, "a program's work was stopped after a fault", "see its own errors"},
    XidMeaning{45, kProgram, "work of a program was cleaned up, most often because it ended",
               "nothing to do"},
    XidMeaning{48, kBroken, "a memory error that could not be corrected",
               "reset the GPU; when it comes again, have it replaced"},
    XidMeaning{62, kBroken, "the GPU's own processor halted", "reset the GPU"},
    XidMeaning{63, kWatch, "a bad row of the memory is to be replaced",
               "reset the GPU when it is idle"},
    XidMeaning{64, kBroken, "a bad row of the memory could not be replaced",
               "have the GPU replaced"},
    XidMeaning{68, kProgram, "an error of the video decoder",
               "see which program decodes, and what"},
    XidMeaning{74, kBroken, "an error on an NVLink",
               "reset the GPU; check the links: nvidia-smi nvlink -e"},
    XidMeaning{79, kBroken, "the GPU fell off the bus",
               "restart; check power, seat and temperature"},
    XidMeaning{92, kWatch, "many corrected memory errors",
               "watch it; have it replaced if it goes on"},
    XidMeaning{94, kWatch, "a memory error, contained to one program",
               "restart that program; reset the GPU when it is idle"},
    XidMeaning{95, kBroken, "a memory error that was not contained and may have hit all programs",
               "end all programs on the GPU and reset it"},
    XidMeaning{109, kWatch,
               "work on the GPU did not end in time: switching between programs took too long",
               "update the driver; see which program it was"},
    XidMeaning{119, kBroken, "the GPU's system processor did not answer", kResetAndUpdate},
    XidMeaning{120, kBroken, "the GPU's system processor failed", kResetAndUpdate},
    XidMeaning{140, kBroken, "memory errors that could not be corrected, found by the driver",
               "reset the GPU; when it comes again, have it replaced"},
    XidMeaning{154, kWatch, "the driver asks for another recovery action than before",
               "see which: nvidia-smi -q has it as GPU Recovery Action"},
};

}  // namespace

std::span<const XidMeaning> xid_meanings() { return kMeanings; }

const XidMeaning* meaning_of_xid(uint64_t xid) {
  const auto* const known = std::ranges::find(kMeanings, xid, &XidMeaning::xid);
  return known == kMeanings.end() ? nullptr : known;
}

}  // namespace vram::gpu::nvml
