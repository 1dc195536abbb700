#include "serve/log.hpp"

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <poll.h>
#include <unistd.h>

namespace vram::serve {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kMaxPerAction = 5;
constexpr auto kBudgetTime = std::chrono::seconds(10);
constexpr size_t kMaxTextLength = 1000;  // a line fits a pipe in one piece
constexpr size_t kPipeBytes = PIPE_BUF;  // a pipe that can take anything takes that without a wait

std::string_view word_of(LogLevel level) {
  if (level == LogLevel::kInfo) return "info";
  return level == LogLevel::kWarning ? "warn" : "error";
}

std::string cut(std::string_view text) { return valid_utf8(text.substr(0, kMaxTextLength)); }

Json json_value(const LogField& field) {
  return std::visit(
      [](const auto& value) -> Json {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>)
          return cut(value);
        else
          return value;
      },
      field.value);
}

std::string json_line(const LogEvent& event, std::string_view host, int64_t time_ns) {
  Json line = {{"@timestamp", rfc3339(time_ns)}, {"log.level", word_of(event.level)},
               {"message", cut(event.message)},  {"ecs.version", "8.11.0"},
               {"service.name", "vram"},         {"service.version", VRAM_VERSION},
               {"event.dataset", "vram.serve"},  {"event.action", event.action},
               {"host.name", cut(host)},         {"process.pid", getpid()}};
  for (const LogField& field : event.fields) line[field.name] = json_value(field);
  return line.dump(-1, ' ', true) + "\n";
}

std::string text_line(const LogEvent& event, int64_t time_ns) {
  return fmt::format("{} {:<5} {}: {}\n", rfc3339(time_ns), word_of(event.level), event.action,
                     printable(event.message.substr(0, kMaxTextLength)));
}

bool can_take_a_piece(int descriptor) {
  pollfd polled{.fd = descriptor, .events = POLLOUT, .revents = 0};
  return poll(&polled, 1, 0) == 1 && (polled.revents & POLLOUT) != 0;
}

}  // namespace

std::string log_line(const LogEvent& event, LogFormat format, std::string_view host,
                     int64_t time_ns) {
  return format == LogFormat::kJson ? json_line(event, host, time_ns) : text_line(event, time_ns);
}

Log::Log(LogFormat format, std::string host, int descriptor)
    : format_(format), host_(std::move(host)), descriptor_(descriptor) {}

void Log::write(const LogEvent& event) {
  put(log_line(event, format_, host_, clock_ns(CLOCK_REALTIME)));
}

void Log::write_line(std::string_view line) { put(std::string(line) + "\n"); }

std::string_view Log::tr(std::string_view text) const {
  return format_ == LogFormat::kJson ? text : vram::tr(text);
}

void Log::put(std::string line) {
  const std::lock_guard guard(mutex_);
  write_rest();
  if (!rest_.empty() || !can_take_a_piece(descriptor_)) {
    ++dropped_;
    return;
  }
  if (dropped_ > 0) {
    const LogEvent lost{
        .level = LogLevel::kWarning,
        .action = "log-lines-dropped",
        .message = trf("{} lines were dropped because nothing read the log", dropped_)};
    line = log_line(lost, format_, host_, clock_ns(CLOCK_REALTIME)) + line;
    dropped_ = 0;
  }
  rest_ = std::move(line);
  write_rest();
}

void Log::write_rest() {
  while (!rest_.empty() && can_take_a_piece(descriptor_)) {
    const size_t size = std::min(rest_.size(), kPipeBytes);
    const ssize_t count = ::write(descriptor_, rest_.data(), size);
    rest_.erase(0, count > 0 ? static_cast<size_t>(count) : rest_.size());
  }
}

void Log::write_rate_limited(LogEvent event) {
  uint64_t left_out = 0;
  {
    const std::lock_guard guard(mutex_);
    Budget& budget = budgets_[event.action];
    if (Clock::now() - budget.begin > kBudgetTime) {
      left_out = budget.left_out;
      budget = {.begin = Clock::now()};
    }
    if (budget.written == kMaxPerAction) {
      ++budget.left_out;
      return;
    }
    ++budget.written;
  }
  if (left_out > 0) event.message += trf(" (and {} more of the kind before, left out)", left_out);
  write(event);
}

}  // namespace vram::serve
