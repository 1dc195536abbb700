// What the server tells its operator, a line an event on standard error: for people, or as JSON in
// the names of the Elastic Common Schema for Logstash and its kind. Texts of others come out
// escaped, whatever they hold.
//
// Any thread. A reader that does not read makes nobody wait: lines are dropped, and counted.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace vram::serve {

enum class LogLevel : uint8_t { kInfo, kWarning, kError };
enum class LogFormat : uint8_t { kText, kJson };

struct LogField {
  std::string name;  // "client.address", "vram.device.index"
  std::variant<std::string, int64_t, double, bool> value;
};

struct LogEvent {
  LogLevel level = LogLevel::kInfo;
  std::string action;   // "started": event.action
  std::string message;  // for people
  std::vector<LogField> fields = {};
};

// One line with its end. Pure.
[[nodiscard]] std::string log_line(const LogEvent& event, LogFormat format, std::string_view host,
                                   int64_t time_ns);

class Log {
 public:
  Log(LogFormat format, std::string host, int descriptor = 2);

  void write(const LogEvent& event);
  // One that is made already, without its end.
  void write_line(std::string_view line);
  // At most a few in ten seconds of the same action, level aside; how many were left out is said
  // with the next one.
  void write_rate_limited(LogEvent event);

 private:
  void put(std::string line);
  struct Budget {
    std::chrono::steady_clock::time_point begin;
    uint32_t written = 0;
    uint64_t left_out = 0;
  };

  LogFormat format_;
  std::string host_;
  int descriptor_;
  std::mutex mutex_;  // guards what follows, and that lines stay whole
  std::map<std::string, Budget> budgets_;
  uint64_t dropped_ = 0;
};

}  // namespace vram::serve
