#include "machine.hpp"

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <random>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace vram::fake_rocm_smi {
namespace {

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

}  // namespace

Call begin(const char* function) { return begin_with(function, std::nullopt); }

Call begin(const char* function, uint32_t index) { return begin_with(function, index); }

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

}  // namespace vram::fake_rocm_smi
