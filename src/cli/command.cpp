#include "cli/command.hpp"

#include "base/bytes.hpp"
#include "base/language.hpp"

#include <charconv>

namespace vram::cli {

Value::Value(bool* target)
    : Value(Count::kNone, [target](std::string_view, const std::string&) -> Result<> {
        *target = true;
        return {};
      }) {}

Value::Value(std::string* target)
    : Value(value(*target, [](const std::string& text) -> Result<std::string> { return text; })) {}

Value::Value(std::vector<std::string>* target)
    : Value(value(*target, [](const std::string& text) -> Result<std::string> { return text; })) {}

Value file(Value path) {
  path.names = Names::kFile;
  return path;
}

Value program(std::vector<std::string>* target) {
  Value words = target;
  words.names = Names::kProgram;
  return words;
}

Value for_programs(bool* target) {
  return {Count::kNone, [target](std::string_view, const std::string&) -> Result<> {
            *target = true;
            use_language("");
            return {};
          }};
}

Value with_choices(Value value, std::vector<std::string> words) {
  value.choices = std::move(words);
  return value;
}

tl::unexpected<Error> not_a_choice(std::string_view option, const std::vector<std::string>& choices,
                                   std::string_view text) {
  std::string expected = choices.front();
  for (size_t i = 1; i < choices.size(); ++i)
    expected += (i + 1 == choices.size() ? tr(" or ") : ", ") + choices[i];
  return fail(Code::kBadInput, "{}: expected {}, found '{}'", option, expected, text);
}

Result<uint64_t> parse_whole(std::string_view option, std::string_view text, uint64_t max) {
  uint64_t value = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  const bool is_whole = end == last && error != std::errc::invalid_argument;
  if (!is_whole) return fail(Code::kBadInput, "{} takes a whole number, found '{}'", option, text);
  if (error == std::errc() && value <= max) return value;
  return fail(Code::kBadInput, "{} takes a whole number up to {}, found '{}'", option, max, text);
}

Result<uint64_t> parse_size(std::string_view option, std::string_view text) {
  const auto bytes = parse_bytes(text);
  const bool has_unit = text.find_first_of("BKMGTPbkmgtp") != std::string_view::npos;
  if (bytes && (has_unit || *bytes == 0)) return *bytes;
  return fail(Code::kBadInput, "{} takes a size with its unit, such as 16GiB or 512MiB, found '{}'",
              option, text);
}

Result<std::chrono::nanoseconds> parse_period(std::string_view option, std::string_view text) {
  constexpr int64_t kMinDurationNs = 100'000'000;
  const auto period_ns = parse_duration_ns(text);
  if (!period_ns) return fail(Code::kBadInput, "{}: {}", option, period_ns.error().message);
  if (*period_ns < kMinDurationNs)
    return fail(Code::kBadInput, "{} takes at least 0.1 seconds, found '{}'", option, text);
  return std::chrono::nanoseconds(*period_ns);
}

Option help_option() { return {"-h,--help", "", tr("show this"), static_cast<bool*>(nullptr)}; }

std::vector<std::unique_ptr<Command>> all_commands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(demo_command());
  commands.push_back(report_command());
  commands.push_back(diff_command());
  commands.push_back(replay_command());
  commands.push_back(tune_command());
  commands.push_back(plan_command());
  commands.push_back(convert_command());
  commands.push_back(run_command());
  commands.push_back(record_command());
  commands.push_back(status_command());
  commands.push_back(top_command());
  commands.push_back(free_command());
  commands.push_back(doctor_command());
  commands.push_back(serve_command());
  commands.push_back(completion_command());
  return commands;
}

}  // namespace vram::cli
