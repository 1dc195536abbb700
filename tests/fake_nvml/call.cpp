#include "call.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <mutex>
#include <random>
#include <set>
#include <sstream>
#include <sys/stat.h>
#include <thread>
#include <tuple>

namespace vram::fake_nvml {
namespace {

[[noreturn]] void refuse(const std::string& line) {
  (void)std::fprintf(stderr, "fake_nvml: expected a line of a scenario, found '%s'\n",
                     line.c_str());
  std::abort();
}

// "200M", "0x4", "max", "on".
uint64_t number_in(const std::string& word, const std::string& line) {
  if (word == "max") return UINT64_MAX;
  if (word == "on" || word == "off") return word == "on" ? 1 : 0;
  char* end = nullptr;
  const uint64_t number = std::strtoull(word.c_str(), &end, 0);
  if (end == word.c_str()) refuse(line);
  const std::string unit = end;
  if (unit.empty()) return number;
  if (unit == "K") return number << 10U;
  if (unit == "M") return number << 20U;
  if (unit == "G") return number << 30U;
  refuse(line);
}

class Parser {
 public:
  Machine run(const std::string& scenario) {
    std::istringstream lines(scenario);
    while (std::getline(lines, line_)) {
      words_.clear();
      std::istringstream words(line_.substr(0, line_.find('#')));
      for (std::string word; words >> word;) words_.push_back(word);
      if (!words_.empty()) take();
    }
    return machine_;
  }

 private:
  uint64_t number(size_t at) {
    if (at >= words_.size()) refuse(line_);
    return number_in(words_[at], line_);
  }
  uint32_t number_or(size_t at, uint32_t otherwise) {
    return at < words_.size() ? static_cast<uint32_t>(number(at)) : otherwise;
  }
  // What follows the first word.
  std::string rest() const {
    const size_t at = line_.find(words_[0]) + words_[0].size();
    const size_t begin = line_.find_first_not_of(' ', at);
    return begin == std::string::npos ? "" : line_.substr(begin);
  }

  void add_devices(size_t count) {
    while (machine_.devices.size() < count) {
      const std::string index = std::to_string(machine_.devices.size());
      Device& device = machine_.devices.emplace_back();
      device.texts = {{"name", "Fake GPU " + index}, {"uuid", "GPU-" + index}};
    }
  }

  void take() {
    const std::string& key = words_[0];
    if (key == "device") {
      add_devices(number(1) + 1);
      device_ = number(1);
    } else if (key == "fail" || key == "hang") {
      Faults& answers = is_in_device() ? device().answers : machine_.answers;
      Faults& hangs = is_in_device() ? device().hangs_ms : machine_.hangs_ms;
      (key == "fail" ? answers : hangs)[words_.at(1)] = number(2);
    } else if (is_in_device()) {
      take_of_device(key);
    } else if (key == "devices") {
      add_devices(number(1));
    } else if (key == "driver") {
      machine_.is_loaded = words_.at(1) == "loaded";
    } else if (key == "version") {
      machine_.version = rest();
    } else {
      refuse(line_);
    }
  }

  void take_of_device(const std::string& key) {
    static const std::set<std::string> figures{
        "pci",         "total",     "used",       "reserved",       "reserved-in-used",
        "utilization", "celsius",   "milliwatts", "power-limit",    "clocks",
        "throttle",    "pcie",      "nvlink",     "memory-celsius", "recovery",
        "bar1",        "ecc",       "rows",       "compute-mode",   "persistence",
        "mig",         "pcie-bits", "lost",       "retired",        "compute-capability"};
    if (key == "name" || key == "uuid" || key == "gpm") {
      device().texts[key] = rest();
    } else if (key == "process") {
      device().processes.push_back({words_.at(1), number_or(2, 0), number(3),
                                    number_or(4, UINT32_MAX), number_or(5, UINT32_MAX),
                                    number_or(6, UINT32_MAX)});
    } else if (key == "part") {
      device().parts.push_back(
          {number_or(1, 0), number_or(2, 0), number(3), number(4), words_.at(5)});
    } else if (key == "xid") {
      device().xids.push_back({number(1), number_or(2, UINT32_MAX), number_or(3, UINT32_MAX)});
    } else if (figures.contains(key)) {
      std::vector<uint64_t>& values = device().figures[key];
      for (size_t at = 1; at < words_.size(); ++at) values.push_back(number(at));
    } else {
      refuse(line_);
    }
  }

  bool is_in_device() const { return device_ < machine_.devices.size(); }
  Device& device() { return machine_.devices.at(device_); }

  Machine machine_;
  size_t device_ = SIZE_MAX;  // the section's
  std::string line_;
  std::vector<std::string> words_;
};

using namespace gpu::nvml;  // NOLINT(google-build-using-namespace): the library speaks it

using FileState = std::tuple<std::string, uint64_t, int64_t, int64_t, int64_t>;

// Those with a destructor are never destroyed: a call that hangs may outlast main(), as in the
// real library.
std::mutex mutex;       // of all that follows
int open_count = 0;     // nvmlInit less nvmlShutdown
bool is_stale = false;  // the driver was gone while it was open
auto& machine = *new std::shared_ptr<const Machine>;
auto& machine_is_of = *new FileState;  // the file
auto& seed = *new std::string;
std::atomic<bool> is_chaotic = false;  // there is a seed
std::mt19937_64 random_numbers;

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Changes with the name, and when the file is replaced or written again.
auto state_of(const std::string& path) {
  struct stat status{};
  if (path.empty() || stat(path.c_str(), &status) != 0) return FileState{path, 0, 0, 0, 0};
  return FileState{path, status.st_ino, status.st_size, status.st_mtim.tv_sec,
                   status.st_mtim.tv_nsec};
}

void read_machine_again() {
  const std::string path = environment("FAKE_NVML_SCENARIO");
  auto state = state_of(path);
  if (machine && state == machine_is_of) return;
  machine =
      std::make_shared<const Machine>(parse(path.empty() ? standard_scenario() : text_of(path)));
  machine_is_of = std::move(state);
}

// At each call, for all values that it gives.
void read_seed_again() {
  std::string wanted = environment("FAKE_NVML_CHAOS");
  if (wanted == seed) return;
  seed = std::move(wanted);
  is_chaotic = !seed.empty();
  random_numbers.seed(std::strtoull(seed.c_str(), nullptr, 10));
}

void write_down(const char* function, uint32_t index) {
  const std::string path = environment("FAKE_NVML_CALLS");
  if (path.empty()) return;
  std::ofstream(path, std::ios::app) << function << ' ' << index << '\n';
}

// What the environment's list "function=answer …" has.
bool is_listed(const char* function, NvmlReturn& answer) {
  const std::string wanted = " " + environment("FAKE_NVML_FAIL");
  const size_t at = wanted.find(std::string(" ") + function + "=");
  if (at == std::string::npos) return false;
  answer = static_cast<NvmlReturn>(std::atoi(wanted.c_str() + wanted.find('=', at) + 1));
  return true;
}

bool has_answer(const Faults& answers, const char* function, NvmlReturn& answer) {
  const auto found = answers.find(function);
  if (found == answers.end()) return false;
  answer = static_cast<NvmlReturn>(found->second);
  return true;
}

NvmlReturn answer_of(const char* function, const Call& call) {
  NvmlReturn answer = kSuccess;
  if (is_listed(function, answer) || has_answer(call.machine->answers, function, answer))
    return answer;
  // Faults of a device are not those of its parts.
  const bool is_device = call.device != nullptr && call.part == nullptr;
  if (is_device && has_answer(call.device->answers, function, answer)) return answer;
  if (!call.machine->is_loaded) is_stale = open_count > 0;
  if (!call.machine->is_loaded) return kDriverNotLoaded;
  if (open_count == 0 && std::strcmp(function, "nvmlInit_v2") != 0) return kUninitialized;
  if (is_stale) return kUnknown;
  if (call.device != nullptr && call.device->figures.contains("lost")) return kGpuIsLost;
  static constexpr std::array kAnswers{kNotSupported,     kNoPermission,    kNotFound,
                                       kInsufficientSize, kInvalidArgument, kGpuIsLost,
                                       kTimeout,          kUnknown};
  if (!is_chaotic) return kSuccess;
  const uint64_t number = random_numbers();
  return number % 8 == 0 ? kAnswers.at(number / 8 % kAnswers.size()) : kSuccess;
}

uint64_t hang_of(const char* function, const Call& call) {
  const auto everywhere = call.machine->hangs_ms.find(function);
  if (everywhere != call.machine->hangs_ms.end()) return everywhere->second;
  if (call.device == nullptr) return 0;
  const auto here = call.device->hangs_ms.find(function);
  return here == call.device->hangs_ms.end() ? 0 : here->second;
}

void find_device(uintptr_t handle, Call& call) {
  call.index = static_cast<uint32_t>(handle & 0xFFFFU) - 1;
  if (call.index >= call.machine->devices.size()) {
    call.answer = kInvalidArgument;
    return;
  }
  call.device = &call.machine->devices[call.index];
  const size_t part = handle >> 16U;
  if (part > call.device->parts.size()) call.answer = kInvalidArgument;  // was divided again
  if (part > 0 && call.is_fine()) call.part = &call.device->parts[part - 1];
}

Call begin_with(const char* function, uintptr_t handle) {
  Call call;
  uint64_t hang_ms = 0;
  {
    const std::lock_guard lock(mutex);
    read_machine_again();
    read_seed_again();
    call.machine = machine;
    if (handle != 0) find_device(handle, call);
    write_down(function, call.index);
    hang_ms = hang_of(function, call);
    if (call.is_fine()) call.answer = answer_of(function, call);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(hang_ms));
  return call;
}

}  // namespace

Machine parse(const std::string& scenario) { return Parser().run(scenario); }

const std::string& standard_scenario() {
  static const std::string scenario = R"(
device 0
  total 1000M
  used 300M
  reserved 50M
  utilization 37 12
  process compute 102 2000M
  process compute 101 200M
  process compute 103 10M 1 1
  process compute 103 20M 2 2
  process graphics 101 200M
  process graphics 77 max
device 1
  total 1000M
  used 300M
  reserved 50M
  reserved-in-used on
  utilization 400 12
)";
  return scenario;
}

const uint64_t* Call::figure(const std::string& key, size_t at) const {
  if (device == nullptr || part != nullptr) return nullptr;
  const auto found = device->figures.find(key);
  return found != device->figures.end() && at < found->second.size() ? &found->second[at] : nullptr;
}

Call begin(const char* function) { return begin_with(function, 0); }

Call begin(const char* function, nvmlDevice handle) {
  return begin_with(function, reinterpret_cast<uintptr_t>(handle));
}

nvmlDevice handle_of(uint32_t index, uint32_t part) {
  const uintptr_t number = index + 1 + (uintptr_t{part} << 16U);
  return reinterpret_cast<nvmlDevice>(number);  // NOLINT(performance-no-int-to-ptr)
}

std::string environment(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): a test's own
  return value == nullptr ? "" : value;
}

void count_open(int change) {
  const std::lock_guard lock(mutex);
  open_count += change;
  if (open_count == 0) is_stale = false;
}

std::shared_ptr<const Machine> machine_now() {
  const std::lock_guard lock(mutex);
  read_machine_again();
  return machine;
}

bool is_odd(uint32_t many) {
  if (!is_chaotic) return false;
  const std::lock_guard lock(mutex);
  return random_numbers() % many == 0;
}

uint64_t odd(uint64_t value) {
  if (!is_chaotic) return value;
  const std::lock_guard lock(mutex);
  const uint64_t number = random_numbers();
  if (number % 4 != 0) return value;
  const std::array<uint64_t, 8> others{0,         1,         UINT64_MAX,         UINT32_MAX,
                                       value + 1, value * 2, uint64_t{1} << 63U, number};
  return others.at(number / 4 % others.size());
}

uint32_t odd(uint32_t value) { return static_cast<uint32_t>(odd(uint64_t{value})); }

}  // namespace vram::fake_nvml
