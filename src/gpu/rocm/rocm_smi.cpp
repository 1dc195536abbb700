#include "gpu/rocm/rocm_smi.hpp"

#include "base/environment.hpp"
#include "base/result.hpp"
#include "gpu/drm/card.hpp"
#include "gpu/symbols.hpp"
#include "gpu/telemetry.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <dlfcn.h>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

namespace vram::gpu::rocm {
namespace {

constexpr uint32_t kMaxPages = 1U << 16U;
constexpr uint32_t kNameBytes = 256;

struct Place {
  std::string pci_id;
  uint32_t part = 0;  // of a device in parts, which share an address
};

// From its highest bit on: domain (32 bits), part (4), nothing (12), bus (8), device (5),
// function (3). Libraries before ROCm 6 have no parts.
Place place_of(uint64_t number) {
  return {fmt::format("{:04x}:{:02x}:{:02x}.{:x}", number >> 32U, number >> 8U & 0xffU,
                      number >> 3U & 0x1fU, number & 7U),
          static_cast<uint32_t>(number >> 28U & 0xfU)};
}

// A text may lack its end. Of a device that its list lacks, the library returns the number.
template <typename Function, typename Capacity>
std::optional<std::string> query_name(Function* function, uint32_t index, Capacity capacity) {
  std::array<char, kNameBytes + 1> text{};
  if (function == nullptr || function(index, text.data(), capacity) != kSuccess)
    return std::nullopt;
  std::string name = text.data();
  const bool is_name = !name.empty() && name != "N/A" && !name.starts_with("0x");
  return is_name ? std::optional(std::move(name)) : std::nullopt;
}

EccCounts query_ecc(const RocmApi& api, uint32_t index) {
  ErrorCount count{};
  if (api.error_count == nullptr || api.error_count(index, kBlockOfMemory, &count) != kSuccess)
    return {};
  const auto known = [](uint64_t errors) {
    return errors == UINT64_MAX ? std::nullopt : std::optional(errors);
  };
  return {known(count.corrected), known(count.uncorrected)};
}

std::optional<RetiredPages> query_pages(const RocmApi& api, uint32_t index) {
  uint32_t count = 0;
  if (api.bad_pages == nullptr || api.bad_pages(index, &count, nullptr) != kSuccess ||
      count > kMaxPages)
    return std::nullopt;
  std::vector<PageRecord> records(count);
  const auto room = count;
  if (count > 0 && api.bad_pages(index, &count, records.data()) != kSuccess) return std::nullopt;
  RetiredPages pages{std::nullopt, std::nullopt, 0, false, false};
  records.resize(std::min(room, count));
  for (const PageRecord& record : records) {
    if (record.page_state > kPageFailed) return std::nullopt;
    if (record.page_state == kPageRetired) ++*pages.of_any_cause;
    if (record.page_state == kPagePending) pages.is_pending = true;
    if (record.page_state == kPageFailed) pages.has_failed = true;
  }
  return pages;
}

using Clock = std::chrono::steady_clock;
using Answers = std::map<std::string, drm::AmdExtra>;  // by PCI address

constexpr auto kShutdownTimeout = std::chrono::milliseconds(500);
constexpr uint32_t kRoundsToWait = 5;  // after the library did not open
constexpr uint32_t kRoundsToForget = 3;

// The library counts its users and keeps what it knows for all of them: one at a time has it.
class LibraryLock {
 public:
  [[nodiscard]] bool take() { return has_ = has_ || !is_taken.exchange(true); }
  void give_back() {
    if (std::exchange(has_, false)) is_taken = false;
  }

 private:
  inline static std::atomic<bool> is_taken{false};
  bool has_ = false;
};

std::vector<drm::Card> amd_cards(drm::Files& files, const std::string& sys) {
  std::vector<drm::Card> cards = drm::find_cards(files, sys);
  std::erase_if(cards, [](const drm::Card& card) { return card.driver != drm::Driver::kAmdgpu; });
  return cards;
}

}  // namespace

std::vector<std::string> libraries() {
  if (std::string named = trusted_environment("VRAM_ROCM_SMI"); !named.empty()) return {named};
  return {"librocm_smi64.so.7", "librocm_smi64.so.6", "librocm_smi64.so.5",
          "librocm_smi64.so.1", "librocm_smi64.so",   "/opt/rocm/lib/librocm_smi64.so"};
}

Result<RocmSmi> RocmSmi::open(const std::vector<std::string>& files) {
  VRAM_TRY_ASSIGN(auto api, RocmApi::load(files));
  if (const RsmiStatus status = api.init(kLockOfThreadsOnly); status != kSuccess)
    return fail(Code::kUnsupported,
                "expected ROCm SMI to start, found that rsmi_init answers {}: run rocm-smi to see "
                "whether it works at all",
                status);
  RocmSmi smi(std::move(api));
  VRAM_TRY(smi.count_devices());
  return smi;
}

RocmSmi::~RocmSmi() {
  if (api_.library) (void)api_.shut_down();
}

Result<> RocmSmi::count_devices() {
  uint32_t count = 0;
  if (const RsmiStatus status = api_.device_count(&count);
      status != kSuccess || count > kMaxDevices)
    return fail(Code::kUnsupported,
                "expected ROCm SMI to count at most {} GPUs, found {} with the answer {}: run "
                "rocm-smi to see whether it works at all",
                kMaxDevices, count, status);
  std::map<std::string, uint32_t> parts;
  for (uint32_t index = 0; index < count; ++index) {
    uint64_t number = 0;
    if (api_.pci_id(index, &number) != kSuccess) continue;
    const Place place = place_of(number);
    const auto known = parts.find(place.pci_id);
    if (known != parts.end() && known->second <= place.part) continue;
    parts[place.pci_id] = place.part;
    devices_[place.pci_id] = index;
  }
  return {};
}

drm::AmdExtra RocmSmi::query(const std::string& pci_id) const {
  drm::AmdExtra extra;
  const auto device = devices_.find(pci_id);
  if (device == devices_.end()) return extra;
  const uint32_t index = device->second;
  extra.name = query_name(api_.market_name, index, kNameBytes);
  if (!extra.name) extra.name = query_name(api_.name, index, size_t{kNameBytes});
  extra.ecc_since_boot = query_ecc(api_, index);
  extra.retired_pages = query_pages(api_, index);
  return extra;
}

void RocmApi::Unload::operator()(void* opened) const { (void)dlclose(opened); }

Result<RocmApi> RocmApi::load(const std::vector<std::string>& files) {
  RocmApi api;
  for (const std::string& file : files) {
    if (!api.library) api.library.reset(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL));
  }
  void* const library = api.library.get();
  if (library == nullptr)
    return fail(Code::kNotFound,
                "expected AMD's management library as {}, found none that can be opened: install "
                "ROCm SMI (rocm-smi-lib), or name the file in VRAM_ROCM_SMI",
                fmt::join(files, ", "));
  Symbols needed(library);
  needed.find("rsmi_init", api.init);
  needed.find("rsmi_shut_down", api.shut_down);
  needed.find("rsmi_num_monitor_devices", api.device_count);
  needed.find("rsmi_dev_pci_id_get", api.pci_id);
  find(library, "rsmi_dev_market_name_get", api.market_name);
  find(library, "rsmi_dev_name_get", api.name);
  find(library, "rsmi_dev_ecc_count_get", api.error_count);
  find(library, "rsmi_dev_memory_reserved_pages_get", api.bad_pages);
  if (!needed.missing().empty())
    return fail(Code::kUnsupported,
                "expected AMD's management library as {}, found a library without rsmi_init and "
                "related functions: reinstall ROCm SMI",
                fmt::join(files, ", "));
  return api;
}

// Shared with the thread: the last of the two to end destroys it.
struct RocmExtras::State {
  explicit State(ExtrasOptions given) : options(std::move(given)) {}

  void run();
  [[nodiscard]] Answers query_all();
  [[nodiscard]] bool open(const std::vector<drm::Card>& cards);
  void close();
  // False: it is to end.
  [[nodiscard]] bool publish_and_wait(Answers round);

  const ExtrasOptions options;
  const Clock::time_point begin = Clock::now();

  // The thread's own.
  drm::Files files;
  LibraryLock turn;
  std::optional<RocmSmi> smi;
  std::vector<std::string> opened_for;  // the devices that there were
  uint32_t rounds_to_wait = 0;

  std::mutex mutex;  // guards what follows; never held while the library is called
  std::condition_variable changed;
  bool must_end = false;
  bool has_ended = false;
  std::optional<Clock::time_point> answered;
  Answers answers;
};

void RocmExtras::State::close() {
  smi.reset();
  turn.give_back();
}

bool RocmExtras::State::open(const std::vector<drm::Card>& cards) {
  std::vector<std::string> devices;
  for (const drm::Card& card : cards) devices.push_back(card.pci_id);
  if (smi && devices != opened_for) close();  // it counts its devices only when it starts
  if (smi) return true;
  if (rounds_to_wait > 0) {
    --rounds_to_wait;
    return false;
  }
  if (!turn.take()) return false;
  if (auto opened = RocmSmi::open(options.libraries)) {
    smi.emplace(*std::move(opened));
    opened_for = std::move(devices);
    return true;
  }
  close();
  rounds_to_wait = kRoundsToWait;
  return false;
}

Answers RocmExtras::State::query_all() {
  Answers round;
  const std::vector<drm::Card> cards = amd_cards(files, options.sys);
  const auto sleeps = [&](const drm::Card& card) { return drm::is_asleep(files, card); };
  if (cards.empty() || std::ranges::any_of(cards, sleeps)) {
    close();
    return round;
  }
  if (!open(cards)) return round;
  for (const drm::Card& card : cards) {
    if (!sleeps(card)) round.emplace(card.pci_id, smi->query(card.pci_id));
  }
  return round;
}

bool RocmExtras::State::publish_and_wait(Answers round) {
  std::unique_lock lock(mutex);
  answers = std::move(round);
  answered = Clock::now();
  changed.notify_all();
  return !changed.wait_for(lock, options.period, [this] { return must_end; });
}

void RocmExtras::State::run() {
  try {
    while (publish_and_wait(query_all())) {
    }
  } catch (...) {  // the library is C++, and its own exceptions may come through
  }
  close();
  const std::lock_guard guard(mutex);
  has_ended = true;
  changed.notify_all();
}

RocmExtras::RocmExtras(ExtrasOptions options)
    : state_(std::make_shared<State>(std::move(options))),
      thread_([state = state_] { state->run(); }) {}

RocmExtras::~RocmExtras() {
  {
    const std::lock_guard guard(state_->mutex);
    state_->must_end = true;
    state_->changed.notify_all();
  }
  (void)thread_.join_for(kShutdownTimeout);
}

drm::AmdExtra RocmExtras::of(const std::string& pci_id) {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait_until(lock, state_->begin + state_->options.timeout,
                             [this] { return state_->answered || state_->has_ended; });
  const auto known = state_->answers.find(pci_id);
  const auto oldest = Clock::now() - state_->options.period * kRoundsToForget;
  if (known == state_->answers.end() || *state_->answered < oldest) return {};
  return known->second;
}

std::unique_ptr<drm::AmdExtras> open_extras(const drm::Roots& roots) {
  if (roots.sys != drm::Roots{}.sys) return nullptr;
  return std::make_unique<RocmExtras>(ExtrasOptions{libraries(), roots.sys});
}

}  // namespace vram::gpu::rocm
