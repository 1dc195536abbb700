#include "watch/boards.hpp"

#include "base/text.hpp"
#include "watch/bounds.hpp"
#include "watch/cuda_order.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <sys/stat.h>

namespace vram::watch {
namespace {

using record::BoardDevice;

std::optional<uint64_t> known(uint64_t figure) {
  return figure == record::kBoardUnknown ? std::nullopt : std::optional(figure);
}

AllocatorFigures figures_below(const BoardDevice& posted, std::optional<uint64_t> total) {
  AllocatorFigures figures = allocator_figures(posted);
  for (auto* const bytes : {&figures.allocated_bytes, &figures.reserved_bytes,
                            &figures.cached_bytes, &figures.peak_bytes}) {
    *bytes = at_most(*bytes, total);
  }
  return figures;
}

bool is_of_one_device(const std::vector<Use>& uses) {
  return !uses.empty() && std::ranges::all_of(uses, [&](const Use& use) {
    return use.device == uses.front().device;
  });
}

// The process's only use of the device; of several instances of MIG none is known to be meant.
Use* only_use_of(std::vector<Use>& uses, uint32_t device) {
  Use* found = nullptr;
  for (Use& use : uses) {
    if (use.device != device) continue;
    if (found != nullptr) return nullptr;
    found = &use;
  }
  return found;
}

struct Match {
  Use* use;
  const BoardDevice* posted;
};

// All of what is posted, or nothing: a number that leads to a device which the process does not
// use shows that it counts otherwise, as after a change of the variable by the program itself.
std::vector<Match> matches(std::vector<Use>& uses, std::span<const BoardDevice> posted,
                           const KnownProcess& known, const std::vector<Device>& devices) {
  if (posted.size() == 1 && is_of_one_device(uses)) {
    Use* const use = only_use_of(uses, uses.front().device);
    return use != nullptr ? std::vector<Match>{{use, posted.data()}} : std::vector<Match>{};
  }
  std::vector<Match> found;
  for (const BoardDevice& device : posted) {
    if (device.reserved_bytes == 0) continue;  // nothing there that a driver would name it for
    const auto place = device_of_cuda(device.device, known, devices);
    Use* const use = place ? only_use_of(uses, *place) : nullptr;
    const bool is_taken = std::ranges::any_of(found, [&](const Match& m) { return m.use == use; });
    if (use == nullptr || is_taken) return {};
    found.push_back({use, &device});
  }
  return found;
}

}  // namespace

AllocatorFigures allocator_figures(const BoardDevice& posted) {
  return {.allocated_bytes = known(posted.allocated_bytes),
          .reserved_bytes = known(posted.reserved_bytes),
          .cached_bytes = known(posted.cached_bytes),
          .peak_bytes = known(posted.peak_bytes),
          .number = posted.device};
}

std::optional<record::BoardFigures> Boards::figures_of(const ProcessFacts& facts) const {
  if (!facts.uid || !facts.start_ticks) return std::nullopt;
  const std::string folder = folder_.empty() ? fmt::format("{}{}", prefix_, *facts.uid) : folder_;
  struct stat owner{};
  const bool is_theirs =
      lstat(folder.c_str(), &owner) == 0 && S_ISDIR(owner.st_mode) && owner.st_uid == *facts.uid;
  if (!is_theirs) return std::nullopt;
  const auto page = record::read_board(folder, facts.pid);
  if (!page || page->state != record::OwnerState::kAlive ||
      page->owner.start_ticks != *facts.start_ticks) {
    return std::nullopt;
  }
  return page->figures;
}

void add_figures(Process& process, const record::BoardFigures& figures, const KnownProcess& known,
                 const std::vector<Device>& devices) {
  process.step = watch::known(figures.step);
  process.step_ns = watch::known(figures.step_ns);
  const std::string_view scope = figures.scope;
  if (!scope.empty()) process.scope = printable(scope);
  const std::span posted(figures.devices, figures.device_count);
  for (const Match& match : matches(process.uses, posted, known, devices)) {
    const auto total = devices[match.use->device].sample.memory.total_bytes;
    match.use->allocator = figures_below(*match.posted, total);
  }
}

}  // namespace vram::watch
