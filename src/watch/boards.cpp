#include "watch/boards.hpp"

#include "base/text.hpp"
#include "watch/bounds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <span>
#include <string_view>

namespace vram::watch {
namespace {

using record::BoardDevice;

// More files than any machine has processes on its GPUs.
constexpr size_t kMaxListed = 4096;
// Far longer than the steps in which the kernel counts the times of files.
constexpr int64_t kSettledS = 2;

// By the time of the last change, which no user can set.
bool is_same(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_ctim.tv_sec == b.st_ctim.tv_sec &&
         a.st_ctim.tv_nsec == b.st_ctim.tv_nsec;
}

// A change that comes after this will have another time. One that was just made may be followed by
// one of the same time.
bool is_settled(const struct stat& folder) {
  return std::time(nullptr) - folder.st_ctim.tv_sec > kSettledS;
}

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
          .num_alloc_retries = known(posted.num_alloc_retries),
          .num_ooms = known(posted.num_ooms),
          .num_device_alloc = known(posted.num_device_alloc),
          .num_device_free = known(posted.num_device_free),
          .number = posted.device};
}

void Boards::begin_sample() {
  std::erase_if(users_, [this](const auto& entry) { return entry.second.tick != tick_; });
  ++tick_;
}

// Once a sample: whose the folders are, and of those that changed, what is in them.
const Boards::User& Boards::user_of(uint32_t uid) {
  const auto [entry, is_new] = users_.try_emplace(uid);
  User& user = entry->second;
  if (is_new) {
    const auto paths = folders_of_(uid);
    for (size_t i = 0; i < paths.size(); ++i) user.folders[i].path = paths[i];
  }
  if (is_new || tick_ == 0 || user.tick != tick_) {
    for (Folder& folder : user.folders) examine(folder, uid);
  }
  user.tick = tick_;
  return user;
}

void Boards::examine(Folder& folder, uint32_t uid) {
  struct stat facts{};
  if (folder.path.empty()) return;
  folder.is_theirs =
      lstat(folder.path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode) && facts.st_uid == uid;
  if (!folder.is_theirs) return;
  if (folder.can_be_kept && is_same(folder.facts, facts)) return;
  folder.facts = facts;
  folder.can_be_kept = is_settled(facts);
  folder.pids = record::list_small_board(folder.path, kMaxListed);
}

std::optional<record::BoardFigures> Boards::figures_in(const Folder& folder,
                                                       const ProcessFacts& facts) const {
  if (!folder.is_theirs) return std::nullopt;
  if (folder.pids && !std::ranges::binary_search(*folder.pids, facts.pid)) return std::nullopt;
  return record::read_living(folder.path, facts.pid, *facts.start_ticks, pid_namespace_);
}

std::optional<record::BoardFigures> Boards::figures_of(const ProcessFacts& facts) {
  if (!facts.uid || !facts.start_ticks) return std::nullopt;
  for (const Folder& folder : user_of(*facts.uid).folders) {
    if (auto figures = figures_in(folder, facts)) return figures;
  }
  return std::nullopt;
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

namespace {

using Places = std::vector<uint32_t>;

Places places_of_nvidia(const std::vector<Device>& devices) {
  Places places;
  for (uint32_t place = 0; place < devices.size(); ++place) {
    if (devices[place].identity.vendor == gpu::Vendor::kNvidia) places.push_back(place);
  }
  return places;
}

// Whether CUDA's n-th device is the n-th of the management library, which counts by PCI address.
bool is_order_known(const KnownProcess& process, const std::vector<Device>& devices,
                    const Places& places) {
  // There only some of the devices may be; and CUDA counts instances of MIG as devices.
  const auto is_mig = [&](uint32_t place) { return devices[place].health.is_mig.value_or(false); };
  if (process.facts->container || std::ranges::any_of(places, is_mig)) return false;
  if (places.size() == 1 || process.cuda.device_order == "PCI_BUS_ID") return true;
  // By default the fastest comes first, and which that is only CUDA knows.
  return std::ranges::all_of(places, [&](uint32_t place) {
    const auto& name = devices[place].identity.name;
    return name && name == devices[places[0]].identity.name;
  });
}

std::optional<uint32_t> place_of_uuid(std::string_view start, const std::vector<Device>& devices,
                                      const Places& places) {
  std::optional<uint32_t> found;
  for (const uint32_t place : places) {
    const auto& uuid = devices[place].identity.uuid;
    if (!uuid || !uuid->starts_with(start)) continue;
    if (found) return std::nullopt;
    found = place;
  }
  return found;
}

std::string_view without_spaces(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

// An entry of CUDA_VISIBLE_DEVICES: a number, or the beginning of a uuid.
std::optional<uint32_t> place_of_entry(std::string_view entry, bool is_ordered,
                                       const std::vector<Device>& devices, const Places& places) {
  entry = without_spaces(entry);
  if (entry.starts_with("GPU-")) return place_of_uuid(entry, devices, places);
  uint32_t number = 0;
  const char* const end = entry.data() + entry.size();
  const auto [last, error] = std::from_chars(entry.data(), end, number);
  if (!is_ordered || error != std::errc{} || last != end || number >= places.size()) {
    return std::nullopt;
  }
  return places[number];
}

}  // namespace

std::optional<uint32_t> device_of_cuda(uint64_t ordinal, const KnownProcess& process,
                                       const std::vector<Device>& devices) {
  if (!process.cuda.is_known) return std::nullopt;
  const Places places = places_of_nvidia(devices);
  const bool is_ordered = is_order_known(process, devices, places);
  if (!process.cuda.visible_devices) {
    if (!is_ordered || ordinal >= places.size()) return std::nullopt;
    return places[ordinal];
  }
  std::string_view entries = *process.cuda.visible_devices;
  for (uint64_t at = 0;; ++at) {
    const size_t comma = entries.find(',');
    const auto place = place_of_entry(entries.substr(0, comma), is_ordered, devices, places);
    if (at == ordinal || !place) return place;  // CUDA itself stops at the first that is none
    if (comma == std::string_view::npos) return std::nullopt;
    entries.remove_prefix(comma + 1);
  }
}

}  // namespace vram::watch
