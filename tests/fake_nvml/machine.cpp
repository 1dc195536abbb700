#include "machine.hpp"

#include <cstdio>
#include <cstdlib>
#include <set>
#include <sstream>

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

}  // namespace vram::fake_nvml
