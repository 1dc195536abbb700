#include "cli/options.hpp"

#include "base/language.hpp"
#include "base/text.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <utility>

namespace vram::cli {
namespace {

// CLI11 splits the words; what they mean and every message is ours, so both are the same with each
// version of it.
CLI::Option* declare(const Option& option, CLI::App& app) {
  const std::string name = option.name();
  const auto store = [name, convert = option.value.store](const std::string& text) {
    if (auto stored = convert(name, text); !stored)
      throw CLI::ValidationError(std::move(stored.error().message));
  };
  if (option.value.count == Count::kNone)
    return app.add_flag_callback(option.flags, [store] { store(""); });
  if (option.value.count == Count::kOne)
    return app.add_option_function<std::string>(option.flags, store)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  CLI::Option* const several = app.add_option_function<std::vector<std::string>>(
      option.flags,
      [store](const std::vector<std::string>& texts) { std::ranges::for_each(texts, store); });
  // An option is named once for each value: the words after one are arguments again.
  return option.is_argument() ? several
                              : several->allow_extra_args(false)->multi_option_policy(
                                    CLI::MultiOptionPolicy::TakeAll);
}

std::vector<std::string> names_of(std::span<const Option> options) {
  std::vector<std::string> names = {"--help"};
  for (const Option& option : options) {
    if (!option.is_argument()) names.push_back(option.name());
  }
  return names;
}

Result<> refuse_extra(const Manual& manual, std::span<const Option> options,
                      std::string_view word) {
  const std::string hint = trf("'vram {} --help' lists what it takes", manual.name);
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
  std::vector<const CLI::Option*> declared;
  for (const Option& option : options) declared.push_back(declare(option, app));
  std::ranges::reverse(arguments);  // as CLI11 takes them
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string_view what = error.what();  // "--top: 1 required TEXT missing"
    return fail(Code::kBadInput, "{} needs a value; 'vram {} --help' explains",
                what.substr(0, what.find(':')), manual.name);
  } catch (const CLI::ValidationError& error) {
    return fail(Code::kBadInput, "{}", error.what());
  } catch (const CLI::ParseError& error) {
    return fail(Code::kBadInput, "{}; 'vram {} --help' explains", error.what(), manual.name);
  }
  std::vector<std::string> extra = app.remaining();
  std::erase(extra, "--");  // CLI11 counts the mark itself
  if (!extra.empty()) return refuse_extra(manual, options, extra.front());
  for (size_t i = 0; i < options.size(); ++i) {
    const bool is_needed = options[i].is_argument() && !options[i].may_be_missing;
    if (is_needed && declared[i]->count() == 0)
      return fail(Code::kBadInput, "missing {}; usage: vram {} {}", options[i].flags, manual.name,
                  manual.usage);
  }
  return {};
}

}  // namespace vram::cli
