// librocm_smi64.so, the fake: the machine that it shows, as a scenario file describes it (README.md
// has the format), what each function begins with, and the functions, which write what the scenario
// has. Any thread.
#include "gpu/rocm/rocm_smi.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace vram::fake_rocm_smi {
namespace {

struct Faults {
  std::map<std::string, uint32_t> answers;
  std::map<std::string, uint32_t> hangs_ms;
  std::map<std::string, uint32_t> throws;
};

struct Device {
  uint64_t pci_id = 0;
  std::optional<std::string> market_name;
  std::optional<std::string> name;
  std::optional<gpu::rocm::ErrorCount> ecc;
  std::optional<std::string> pages;
  Faults faults;
};

struct Machine {
  std::vector<Device> devices;
  Faults faults;
};

struct Call {
  gpu::rocm::RsmiStatus answer = gpu::rocm::kSuccess;
  Machine machine;
  const Device* device = nullptr;  // of the machine
};

using namespace gpu::rocm;  // NOLINT(google-build-using-namespace): the library speaks it

std::mutex mutex;    // of all that follows
int open_count = 0;  // rsmi_init less rsmi_shut_down
std::string seed;
std::mt19937_64 random_numbers;

std::string environment(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): a test's own
  return value == nullptr ? "" : value;
}

[[noreturn]] void refuse(const std::string& line) {
  (void)std::fprintf(stderr, "fake_rocm_smi: expected a line of a scenario, found '%s'\n",
                     line.c_str());
  std::abort();
}

uint64_t number_in(std::istringstream& words) {
  std::string word;
  words >> word;
  return word == "max" ? UINT64_MAX : std::strtoull(word.c_str(), nullptr, 0);
}

std::string rest_of(std::istringstream& words) {
  std::string rest;
  std::getline(words >> std::ws, rest);
  return rest;
}

bool take_fault(const std::string& key, std::istringstream& words, Faults& faults) {
  if (key != "fail" && key != "hang" && key != "throw") return false;
  std::string function;
  words >> function;
  auto& wanted = key == "fail" ? faults.answers : key == "hang" ? faults.hangs_ms : faults.throws;
  wanted[function] = key == "throw" ? 1 : static_cast<uint32_t>(number_in(words));
  return true;
}

void take_fact(const std::string& key, std::istringstream& words, Machine& machine,
               const std::string& line) {
  if (key == "device") {
    machine.devices.emplace_back().pci_id = number_in(words);
    return;
  }
  if (take_fault(key, words,
                 machine.devices.empty() ? machine.faults : machine.devices.back().faults))
    return;
  if (machine.devices.empty()) refuse(line);
  Device& device = machine.devices.back();
  if (key == "market-name") {
    device.market_name = rest_of(words);
  } else if (key == "name") {
    device.name = rest_of(words);
  } else if (key == "ecc") {
    const uint64_t corrected = number_in(words);
    device.ecc = {corrected, number_in(words)};
  } else if (key == "pages") {
    device.pages = rest_of(words);
  } else {
    refuse(line);
  }
}

Machine machine_now() {
  Machine machine;
  std::ifstream file(environment("FAKE_ROCM_SCENARIO"));
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string key;
    if (words >> key) take_fact(key, words, machine, line);
  }
  return machine;
}

uint64_t random_number() {
  const std::string wanted = environment("FAKE_ROCM_CHAOS");
  if (wanted != seed) {
    seed = wanted;
    random_numbers.seed(std::strtoull(seed.c_str(), nullptr, 10));
  }
  return seed.empty() ? UINT64_MAX : random_numbers();
}

RsmiStatus chaotic_answer() {
  static constexpr std::array kAnswers{kInvalidArguments, kNotSupported, kInitError,
                                       kInsufficientSize, UINT32_MAX};
  const uint64_t number = random_number();
  return !seed.empty() && number % 8 == 0 ? kAnswers.at(number / 8 % kAnswers.size()) : kSuccess;
}

void suffer(const Faults& faults, const std::string& function, Call& call) {
  if (const auto hang = faults.hangs_ms.find(function); hang != faults.hangs_ms.end())
    std::this_thread::sleep_for(std::chrono::milliseconds(hang->second));
  if (faults.throws.contains(function)) throw std::runtime_error("thrown by the fake");
  if (const auto found = faults.answers.find(function); found != faults.answers.end())
    call.answer = found->second;
}

Call begin_with(const std::string& function, std::optional<uint32_t> index) {
  Call call;
  {
    const std::lock_guard lock(mutex);
    call.machine = machine_now();
    const std::string calls = environment("FAKE_ROCM_CALLS");
    if (!calls.empty())
      std::ofstream(calls, std::ios::app) << function << ' ' << index.value_or(0) << '\n';
    call.answer = function == "rsmi_shut_down" ? kSuccess : chaotic_answer();
    if (open_count == 0 && function != "rsmi_init") call.answer = kInitError;
    if (index && *index >= call.machine.devices.size()) call.answer = kInvalidArguments;
  }
  suffer(call.machine.faults, function, call);
  if (!index || *index >= call.machine.devices.size()) return call;
  call.device = &call.machine.devices[*index];
  suffer(call.device->faults, function, call);
  return call;
}

// Hangs or throws where it is to; writes the call down.
Call begin(const char* function) { return begin_with(function, std::nullopt); }

Call begin(const char* function, uint32_t index) { return begin_with(function, index); }

// The value, or with FAKE_ROCM_CHAOS now and then another.
uint64_t odd(uint64_t value) {
  const std::lock_guard lock(mutex);
  const uint64_t number = random_number();
  if (seed.empty() || number % 4 != 0) return value;
  const std::array<uint64_t, 6> others{0, 1, UINT64_MAX, value + 1, value * 2, number};
  return others.at(number / 4 % others.size());
}

bool is_chaos() { return !environment("FAKE_ROCM_CHAOS").empty(); }

void count_open(int change) {
  const std::lock_guard lock(mutex);
  open_count += change;
}

}  // namespace
}  // namespace vram::fake_rocm_smi

namespace {

using namespace vram::gpu::rocm;  // NOLINT(google-build-using-namespace): the library speaks it
using vram::fake_rocm_smi::begin;
using vram::fake_rocm_smi::Call;
using vram::fake_rocm_smi::is_chaos;
using vram::fake_rocm_smi::odd;

// In chaos a text fills its room, without an end.
[[maybe_unused]] RsmiStatus write_text(const Call& call, const std::optional<std::string>& text,
                                       char* out, size_t room) {
  if (call.answer != kSuccess) return call.answer;
  if (!text) return kNotSupported;
  if (is_chaos() && odd(0) != 0) {
    std::memset(out, '\x1b', room);
    return kSuccess;
  }
  const size_t size = std::min(text->size(), room - 1);
  std::memcpy(out, text->data(), size);
  out[size] = '\0';
  return size < text->size() ? kInsufficientSize : kSuccess;
}

[[maybe_unused]] uint32_t page_state_of(char letter) {
  const auto at = std::string("RPF").find(letter);
  return at == std::string::npos ? 9 : static_cast<uint32_t>(at);
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): ROCm's own names
extern "C" {

RsmiStatus rsmi_init(uint64_t /*flags*/) {
  const Call call = begin("rsmi_init");
  if (call.answer == kSuccess) vram::fake_rocm_smi::count_open(1);
  return call.answer;
}

RsmiStatus rsmi_shut_down() {
  const Call call = begin("rsmi_shut_down");
  if (call.answer == kSuccess) vram::fake_rocm_smi::count_open(-1);
  return call.answer;
}

RsmiStatus rsmi_num_monitor_devices(uint32_t* count) {
  const Call call = begin("rsmi_num_monitor_devices");
  if (call.answer == kSuccess) *count = static_cast<uint32_t>(odd(call.machine.devices.size()));
  return call.answer;
}

RsmiStatus rsmi_dev_pci_id_get(uint32_t index, uint64_t* number) {
  const Call call = begin("rsmi_dev_pci_id_get", index);
  if (call.answer == kSuccess) *number = odd(call.device->pci_id);
  return call.answer;
}

#if FAKE_ROCM_VERSION >= 7
RsmiStatus rsmi_dev_market_name_get(uint32_t index, char* name, uint32_t room) {
  const Call call = begin("rsmi_dev_market_name_get", index);
  return write_text(call, call.device == nullptr ? std::nullopt : call.device->market_name, name,
                    room);
}
#endif

#if FAKE_ROCM_VERSION >= 5
RsmiStatus rsmi_dev_name_get(uint32_t index, char* name, size_t room) {
  const Call call = begin("rsmi_dev_name_get", index);
  return write_text(call, call.device == nullptr ? std::nullopt : call.device->name, name, room);
}

RsmiStatus rsmi_dev_ecc_count_get(uint32_t index, uint64_t block, ErrorCount* count) {
  const Call call = begin("rsmi_dev_ecc_count_get", index);
  if (call.answer != kSuccess) return call.answer;
  if (block != kBlockOfMemory || !call.device->ecc) return kNotSupported;
  *count = {odd(call.device->ecc->corrected), odd(call.device->ecc->uncorrected)};
  return kSuccess;
}

// In chaos it claims others than it writes, never more than there is room for.
RsmiStatus rsmi_dev_memory_reserved_pages_get(uint32_t index, uint32_t* count,
                                              PageRecord* records) {
  const Call call = begin("rsmi_dev_memory_reserved_pages_get", index);
  if (call.answer != kSuccess) return call.answer;
  if (!call.device->pages) return kNotSupported;
  const std::string& pages = *call.device->pages;
  const uint32_t written = std::min(*count, static_cast<uint32_t>(pages.size()));
  for (uint32_t page = 0; records != nullptr && page < written; ++page)
    records[page] = {uint64_t{page} * 4096, 4096,
                     static_cast<uint32_t>(odd(page_state_of(pages[page])))};
  *count = static_cast<uint32_t>(odd(records == nullptr ? pages.size() : written));
  return kSuccess;
}
#endif

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
