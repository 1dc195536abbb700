#include "show/top/filter.hpp"

#include "base/bytes.hpp"
#include "show/process_words.hpp"
#include "show/status_words.hpp"
#include "show/top/fields.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace vram::show::top {
namespace {

using watch::Process;
using watch::Use;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, lower, lower);
}

bool contains(std::string_view text, std::string_view part) {
  return !std::ranges::search(text, part, {}, lower, lower).empty() || part.empty();
}

// Keys whose value is text, one of several between commas.
struct TextKey {
  std::string_view name;
  bool (*is)(const Process&, const Use&, std::string_view);
};

bool is_user(const Process& process, const Use&, std::string_view text) {
  return same(user_text(*process.facts), text) ||
         (process.facts->uid && std::to_string(*process.facts->uid) == text);
}
bool is_gpu(const Process&, const Use& use, std::string_view text) {
  return std::to_string(use.device) == text;
}
bool is_pid(const Process& process, const Use&, std::string_view text) {
  return std::to_string(process.facts->pid) == text;
}
bool is_type(const Process&, const Use& use, std::string_view text) {
  return (same(text, "compute") && use.process.is_compute) ||
         (same(text, "graphics") && use.process.is_graphics) ||
         (same(text, "mps") && use.process.is_mps);
}
bool is_in(const Process& process, const Use&, std::string_view text) {
  return contains(known_place_text(*process.facts), text);
}
bool is_scope(const Process& process, const Use&, std::string_view text) {
  return contains(name_text(process.scope), text);
}

constexpr std::array kTextKeys = {TextKey{"user", is_user}, TextKey{"gpu", is_gpu},
                                  TextKey{"pid", is_pid},   TextKey{"type", is_type},
                                  TextKey{"in", is_in},     TextKey{"scope", is_scope}};

struct FigureKey {
  std::string_view name;
  Field field;
  bool is_bytes;
};

constexpr std::array kFigureKeys = {
    FigureKey{"mem", Field::kMemory, true},          FigureKey{"host", Field::kHostMemory, true},
    FigureKey{"busy", Field::kBusy, false},          FigureKey{"cached", Field::kCached, true},
    FigureKey{"allocated", Field::kAllocated, true}, FigureKey{"reserved", Field::kReserved, true}};

tl::unexpected<Error> no_such_key(std::string_view key) {
  return fail(
      Code::kBadInput,
      "filter: expected user:, gpu:, pid:, type:, in:, scope:, or a figure as mem>1G, busy>50, "
      "cached>1G (also host, allocated, reserved), found '{}'",
      key);
}

Result<uint64_t> parse_figure(const FigureKey& key, std::string_view text) {
  if (key.is_bytes) return parse_bytes(text);
  if (text.ends_with('%')) text.remove_suffix(1);
  uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || last != end)
    return fail(Code::kBadInput, "expected a whole number, found '{}'", text);
  return number;
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  while (true) {
    const size_t comma = text.find(',');
    parts.emplace_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

bool mentions(const Process& process, std::string_view text) {
  return contains(name_text(process.facts->command), text) ||
         contains(user_text(*process.facts), text) ||
         contains(known_place_text(*process.facts), text) ||
         contains(name_text(process.scope), text);
}

Result<Filter::Condition> Filter::parse_word(std::string_view word) {
  Condition condition;
  condition.is_negated = word.size() > 1 && word.front() == '!';
  if (condition.is_negated) word.remove_prefix(1);
  const size_t sign = word.find_first_of(":<>=");
  if (sign == std::string_view::npos) {
    condition.texts = {std::string(word)};
    return condition;
  }
  condition.key = word.substr(0, sign);
  std::string_view value = word.substr(sign + 1);
  const bool or_equal = word[sign] != ':' && word[sign] != '=' && value.starts_with('=');
  if (or_equal) value.remove_prefix(1);
  if (word[sign] == '>')
    condition.comparison = or_equal ? Comparison::kAtLeast : Comparison::kAbove;
  if (word[sign] == '<') condition.comparison = or_equal ? Comparison::kAtMost : Comparison::kBelow;
  const auto* const figure = std::ranges::find(kFigureKeys, condition.key, &FigureKey::name);
  if (figure != kFigureKeys.end()) {
    const auto number = parse_figure(*figure, value);
    if (!number) return fail(Code::kBadInput, "filter: {}: {}", word, number.error().message);
    condition.number = *number;
    return condition;
  }
  const bool is_text =
      std::ranges::find(kTextKeys, condition.key, &TextKey::name) != kTextKeys.end();
  if (!is_text || condition.comparison != Comparison::kIs) return no_such_key(word);
  condition.texts = split(value);
  return condition;
}

Result<Filter> Filter::parse(std::string_view words) {
  Filter filter;
  while (true) {
    const size_t begin = words.find_first_not_of(' ');
    if (begin == std::string_view::npos) return filter;
    words.remove_prefix(begin);
    const std::string_view word = words.substr(0, words.find(' '));
    auto condition = parse_word(word);
    if (!condition) return tl::unexpected(condition.error());
    filter.conditions_.push_back(*std::move(condition));
    words.remove_prefix(word.size());
  }
}

bool Filter::holds(Comparison comparison, std::optional<uint64_t> figure, uint64_t number) {
  if (!figure) return false;
  switch (comparison) {
    case Comparison::kIs:
      return *figure == number;
    case Comparison::kAbove:
      return *figure > number;
    case Comparison::kAtLeast:
      return *figure >= number;
    case Comparison::kBelow:
      return *figure < number;
    case Comparison::kAtMost:
      return *figure <= number;
  }
  return false;
}

bool Filter::holds(const Condition& condition, const Process& process, const Use& use) {
  if (condition.key.empty()) return mentions(process, condition.texts.front());
  const auto* const figure = std::ranges::find(kFigureKeys, condition.key, &FigureKey::name);
  if (figure != kFigureKeys.end())
    return holds(condition.comparison, figure_of(figure->field, process, use), condition.number);
  const auto* const key = std::ranges::find(kTextKeys, condition.key, &TextKey::name);
  return std::ranges::any_of(condition.texts,
                             [&](const std::string& text) { return key->is(process, use, text); });
}

bool Filter::matches(const Process& process, const Use& use) const {
  return std::ranges::all_of(conditions_, [&](const Condition& condition) {
    return holds(condition, process, use) != condition.is_negated;
  });
}

}  // namespace vram::show::top
