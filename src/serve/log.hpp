// The server's log on standard error, one line for each event: text, or JSON with the names of the
// Elastic Common Schema (for Logstash). Untrusted text is escaped.
//
// May be called from any thread. It never blocks on a slow reader: lines are dropped, and counted.
#pragma once

#include "base/language.hpp"

#include <fmt/format.h>

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
  std::string message;  // the text
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
  // Texts of events, in the user's language. JSON is for programs, so its texts are English.
  [[nodiscard]] std::string_view tr(std::string_view text) const;
  template <typename... Args>
  [[nodiscard]] std::string trf(fmt::format_string<Args...> text, Args&&... args) const {
    if (format_ == LogFormat::kJson) return fmt::format(text, std::forward<Args>(args)...);
    return vram::trf(text, std::forward<Args>(args)...);
  }
  // Writes at most a few events with the same action in ten seconds, regardless of their level; the
  // next line states how many were left out.
  void write_rate_limited(LogEvent event);

 private:
  void put(std::string line);
  void write_rest();
  struct Budget {
    std::chrono::steady_clock::time_point begin;
    uint32_t written = 0;
    uint64_t left_out = 0;
  };

  LogFormat format_;
  std::string host_;
  int descriptor_;
  std::mutex mutex_;  // guards what follows; keeps lines separate
  std::map<std::string, Budget> budgets_;
  uint64_t dropped_ = 0;
  std::string rest_;  // of a line that was begun
};

}  // namespace vram::serve
