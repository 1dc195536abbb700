#include "gpu/nvml/nvml_events.hpp"

#include "base/language.hpp"
#include "base/result.hpp"
#include "gpu/nvml/nvml_api.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace vram::gpu::nvml {
namespace {

bool has_events(const NvmlApi& api) {
  return api.event_set_create != nullptr && api.event_set_free != nullptr &&
         api.device_register_events != nullptr &&
         (api.event_set_wait_v2 != nullptr || api.event_set_wait_v1 != nullptr);
}

NvmlReturn wait_for(const NvmlApi& api, nvmlEventSet set, unsigned timeout_ms, EventV2& event) {
  if (api.event_set_wait_v2 != nullptr) return api.event_set_wait_v2(set, &event, timeout_ms);
  EventV1 older{};
  const NvmlReturn answer = api.event_set_wait_v1(set, &older, timeout_ms);
  event = {older.device, older.type, older.data, kNoInstance, kNoInstance};
  return answer;
}

}  // namespace

Result<NvmlEvents> NvmlEvents::open(const std::string& path) {
  VRAM_TRY_ASSIGN(auto nvml, Nvml::open(path));
  const NvmlApi& api = nvml.api();
  if (!has_events(api))
    return fail(Code::kUnsupported, "expected events in {}, found none: use a newer driver", path);
  VRAM_TRY_ASSIGN(const auto count, nvml.device_count());
  nvmlEventSet set = nullptr;
  if (const NvmlReturn answer = api.event_set_create(&set); answer != kSuccess || set == nullptr) {
    return fail(Code::kUnsupported, "expected a set for events, found that {} answers {}", path,
                api.name_of(answer));
  }
  NvmlEvents events(std::move(nvml), set);
  events.watch_all(count);
  if (!events.watched_.empty()) return events;
  return fail(Code::kUnsupported,
              "expected a GPU that tells its errors, found none of {}: their counters and the "
              "kernel's log still have them",
              count);
}

NvmlEvents::NvmlEvents(NvmlEvents&& other) noexcept
    : nvml_(std::move(other.nvml_)),
      set_(std::exchange(other.set_, nullptr)),
      watched_(std::move(other.watched_)) {}

NvmlEvents::~NvmlEvents() {
  if (set_ != nullptr) (void)nvml_.api().event_set_free(set_);
}

void NvmlEvents::watch_all(uint32_t count) {
  const NvmlApi& api = nvml_.api();
  for (uint32_t index = 0; index < count; ++index) {
    nvmlDevice device = nullptr;
    if (api.device_get_handle(index, &device) != kSuccess) continue;
    if (api.device_register_events(device, kEventXid, set_) != kSuccess) continue;
    watched_.push_back({device, index});
  }
}

std::vector<uint32_t> NvmlEvents::watched() const {
  std::vector<uint32_t> indexes;
  for (const Watched& watched : watched_) indexes.push_back(watched.index);
  return indexes;
}

Result<std::optional<XidEvent>> NvmlEvents::wait(std::chrono::milliseconds at_most) {
  constexpr int64_t kMax = std::numeric_limits<int>::max();
  const auto timeout_ms = static_cast<unsigned>(std::clamp<int64_t>(at_most.count(), 0, kMax));
  EventV2 event{};
  const NvmlReturn answer = wait_for(nvml_.api(), set_, timeout_ms, event);
  if (answer == kTimeout) return std::nullopt;
  if (answer != kSuccess) {
    return fail(Code::kIo, "waiting for the GPUs' errors failed with {}: open the library again",
                nvml_.api().name_of(answer));
  }
  if ((event.type & kEventXid) == 0) return std::nullopt;
  XidEvent xid{event.data, std::nullopt, known_instance(event.gpu_instance),
               known_instance(event.compute_instance)};
  const auto watched = std::ranges::find(watched_, event.device, &Watched::device);
  if (watched != watched_.end()) xid.device = watched->index;
  return xid;
}

namespace {

using enum XidSeverity;

constexpr std::string_view kOwnFault =
    tr_later("look for the fault in the program: compute-sanitizer finds it");
constexpr std::string_view kResetAndUpdate = tr_later("reset the GPU; update the driver");

constexpr std::array kMeanings = {
    XidMeaning{13, kProgram,
               tr_later("a program's error while computing, often an index out of bounds"),
               kOwnFault},
    XidMeaning{31, kProgram, tr_later("a program used memory at an address that it does not have"),
               kOwnFault},
    XidMeaning{43, kProgram, tr_later("a program's work was stopped after a fault"),
               tr_later("see its own errors")},
    XidMeaning{45, kProgram,
               tr_later("work of a program was cleaned up, most often because it ended"),
               tr_later("nothing to do")},
    XidMeaning{48, kBroken, tr_later("a memory error that could not be corrected"),
               tr_later("reset the GPU; when it comes again, have it replaced")},
    XidMeaning{62, kBroken, tr_later("the GPU's own processor halted"), tr_later("reset the GPU")},
    XidMeaning{63, kWatch, tr_later("a bad row of the memory is to be replaced"),
               tr_later("reset the GPU when it is idle")},
    XidMeaning{64, kBroken, tr_later("a bad row of the memory could not be replaced"),
               tr_later("have the GPU replaced")},
    XidMeaning{68, kProgram, tr_later("an error of the video decoder"),
               tr_later("see which program decodes, and what")},
    XidMeaning{74, kBroken, tr_later("an error on an NVLink"),
               tr_later("reset the GPU; check the links: nvidia-smi nvlink -e")},
    XidMeaning{79, kBroken, tr_later("the GPU fell off the bus"),
               tr_later("restart; check power, seat and temperature")},
    XidMeaning{92, kWatch, tr_later("many corrected memory errors"),
               tr_later("watch it; have it replaced if it continues")},
    XidMeaning{94, kWatch, tr_later("a memory error, contained to one program"),
               tr_later("restart that program; reset the GPU when it is idle")},
    XidMeaning{95, kBroken,
               tr_later("a memory error that was not contained and may have hit all programs"),
               tr_later("end all programs on the GPU and reset it")},
    XidMeaning{
        109, kWatch,
        tr_later("work on the GPU did not end in time: switching between programs took too long"),
        tr_later("update the driver; see which program it was")},
    XidMeaning{119, kBroken, tr_later("the GPU's system processor did not answer"),
               kResetAndUpdate},
    XidMeaning{120, kBroken, tr_later("the GPU's system processor failed"), kResetAndUpdate},
    XidMeaning{140, kBroken,
               tr_later("memory errors that could not be corrected, found by the driver"),
               tr_later("reset the GPU; when it comes again, have it replaced")},
    XidMeaning{154, kWatch, tr_later("the driver asks for another recovery action than before"),
               tr_later("see which: nvidia-smi -q has it as GPU Recovery Action")},
};

}  // namespace

std::span<const XidMeaning> xid_meanings() { return kMeanings; }

const XidMeaning* meaning_of_xid(uint64_t xid) {
  const auto* const known = std::ranges::find(kMeanings, xid, &XidMeaning::xid);
  return known == kMeanings.end() ? nullptr : known;
}

}  // namespace vram::gpu::nvml
