#include "cli/options.hpp"

#include "base/bytes.hpp"
#include "base/text.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <limits>

namespace vram::cli {
namespace {

// CLI11 splits the words; what they mean and every message is ours, so both are the same with each
// version of it.
void declare(const Option& option, CLI::App& app) {
  const auto* const flag = std::get_if<bool*>(&option.target);
  if (flag != nullptr) {
    app.add_flag(option.flags, **flag);
  } else if (const auto* const value = std::get_if<std::string*>(&option.target)) {
    app.add_option(option.flags, **value)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  } else {
    auto* const values =
        app.add_option(option.flags, **std::get_if<std::vector<std::string>*>(&option.target));
    // An option is named once for each value: the words after one are arguments again.
    if (!option.is_argument())
      values->allow_extra_args(false)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }
}

bool is_missing(const Option& option) {
  if (!option.is_argument() || option.may_be_missing) return false;
  if (const auto* const value = std::get_if<std::string*>(&option.target)) return (*value)->empty();
  const auto* const values = std::get_if<std::vector<std::string>*>(&option.target);
  return values != nullptr && (*values)->empty();
}

std::vector<std::string> names_of(std::span<const Option> options) {
  std::vector<std::string> names = {"--help"};
  for (const Option& option : options) {
    if (!option.is_argument()) names.push_back(option.flags.substr(option.flags.find("--")));
  }
  return names;
}

Result<> refuse_extra(const Manual& manual, std::span<const Option> options,
                      std::string_view word) {
  const std::string hint = fmt::format("'vram {} --help' lists what it takes", manual.name);
  if (!word.starts_with('-'))
    return fail(Code::kBadInput, "one argument too many: '{}'; {}", word, hint);
  const std::vector<std::string> names = names_of(options);
  const std::string_view meant = nearest(word.substr(0, word.find('=')), names);
  if (meant.empty()) return fail(Code::kBadInput, "unknown option '{}'; {}", word, hint);
  return fail(Code::kBadInput, "unknown option '{}', did you mean '{}'? {}", word, meant, hint);
}

}  // namespace

Result<> parse_options(const Manual& manual, std::span<const Option> options,
                       std::vector<std::string> arguments) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  for (const Option& option : options) declare(option, app);
  std::ranges::reverse(arguments);  // as CLI11 takes them
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string_view what = error.what();  // "--top: 1 required TEXT missing"
    return fail(Code::kBadInput, "{} needs a value; 'vram {} --help' explains",
                what.substr(0, what.find(':')), manual.name);
  } catch (const CLI::ParseError& error) {
    return fail(Code::kBadInput, "{}; 'vram {} --help' explains", error.what(), manual.name);
  }
  std::vector<std::string> extra = app.remaining();
  std::erase(extra, "--");  // CLI11 counts the mark itself
  if (!extra.empty()) return refuse_extra(manual, options, extra.front());
  const auto missing = std::ranges::find_if(options, is_missing);
  if (missing == options.end()) return {};
  return fail(Code::kBadInput, "missing {}; usage: vram {} {}", missing->flags, manual.name,
              manual.usage);
}

Result<uint64_t> parse_number(std::string_view option, std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return value;
  return fail(Code::kBadInput, "{} takes a whole number, found '{}'", option, text);
}

Result<uint64_t> parse_size(std::string_view option, std::string_view text) {
  const auto bytes = parse_bytes(text);
  const bool has_unit = text.find_first_of("BKMGTPbkmgtp") != std::string_view::npos;
  if (bytes && (has_unit || *bytes == 0)) return *bytes;
  return fail(Code::kBadInput, "{} takes a size with its unit, such as 16GiB or 512MiB, found '{}'",
              option, text);
}

Result<std::chrono::nanoseconds> parse_period(std::string_view option, const std::string& text) {
  constexpr int64_t kMinDurationNs = 100'000'000;
  const auto period_ns = parse_duration_ns(text);
  if (!period_ns) return fail(Code::kBadInput, "{}: {}", option, period_ns.error().message);
  if (*period_ns < kMinDurationNs)
    return fail(Code::kBadInput, "{} takes at least 0.1 seconds, found '{}'", option, text);
  return std::chrono::nanoseconds(*period_ns);
}

}  // namespace vram::cli
