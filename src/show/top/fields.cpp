#include "show/top/fields.hpp"

#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/result.hpp"
#include "show/draw/plot.hpp"
#include "show/live/status_words.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace vram::show::top {
namespace {

using Figures = watch::AllocatorFigures;
using watch::Process;
using watch::Use;

std::optional<uint64_t> posted(const Use& use, std::optional<uint64_t> Figures::* member) {
  return use.allocator ? (*use.allocator).*member : std::nullopt;
}

// What the device counts beyond the allocator's reserve: the context, libraries.
std::optional<uint64_t> beyond(const Use& use) {
  const auto reserved = posted(use, &Figures::reserved_bytes);
  const auto& used = use.process.used_bytes;
  if (!reserved || !used || *used < *reserved) return std::nullopt;
  return *used - *reserved;
}

// As nvidia-smi calls them.
std::string type_text(const Use& use) {
  if (use.process.is_mps) return "M+C";
  if (use.process.is_compute && use.process.is_graphics) return "C+G";
  return use.process.is_compute ? "C" : use.process.is_graphics ? "G" : std::string(kUnknown);
}

template <Field kField>
std::string bytes_cell(const Process& process, const Use& use) {
  return bytes_text(figure_of(kField, process, use));
}

constexpr Style kPlain = Style::kPlain;

// size: one table, a field a line.
constexpr std::array kFields = {
    FieldInfo{
        Field::kPid, "pid", "PID", tr_later("number of the process"), 7, false, 0, true, kPlain,
        [](const Process& process, const Use&) { return std::to_string(process.facts->pid); }},
    FieldInfo{Field::kUser, "user", tr_later("USER"), tr_later("whose it is"), 8, false, 3, true,
              kPlain, [](const Process& process, const Use&) { return user_text(*process.facts); }},
    FieldInfo{Field::kGpu, "gpu", "GPU", tr_later("the device it uses"), 3, false, 0, true, kPlain,
              [](const Process&, const Use& use) { return std::to_string(use.device); }},
    FieldInfo{Field::kMig, "mig", "MIG", tr_later("GPU and compute instance"), 5, false, 2, false,
              kPlain, [](const Process&, const Use& use) { return instance_text(use.process); }},
    FieldInfo{Field::kType, "type", tr_later("TYPE"), tr_later("C computes, G draws, M+C by MPS"),
              4, false, 8, true, kPlain,
              [](const Process&, const Use& use) { return type_text(use); }},
    FieldInfo{Field::kMemory, "memory", tr_later("MEMORY"),
              tr_later("on the device, as its driver counts"), 8, true, 0, true, Style::kStrong,
              bytes_cell<Field::kMemory>},
    FieldInfo{Field::kHostMemory, "host", tr_later("HOST MEM"),
              tr_later("of the host, used through the device"), 8, true, 7, false, kPlain,
              bytes_cell<Field::kHostMemory>},
    FieldInfo{
        Field::kBusy, "busy", tr_later("BUSY"), tr_later("share of the device's time"), 5, true, 1,
        false, kPlain,
        [](const Process&, const Use& use) { return percent_text(use.process.busy_percent); }},
    FieldInfo{Field::kAllocated, "allocated", tr_later("ALLOCATED"),
              tr_later("in tensors, as the process says"), 9, true, 5, false, Style::kActive,
              bytes_cell<Field::kAllocated>},
    FieldInfo{Field::kReserved, "reserved", tr_later("RESERVED"),
              tr_later("taken by its allocator"), 8, true, 6, false, Style::kReserved,
              bytes_cell<Field::kReserved>},
    FieldInfo{Field::kCached, "cached", tr_later("CACHED"),
              tr_later("reserved, in no tensor: a cleaning gives it back"), 8, true, 5, false,
              kPlain, bytes_cell<Field::kCached>},
    FieldInfo{Field::kPeak, "peak", tr_later("PEAK"), tr_later("the most it had allocated"), 8,
              true, 9, false, kPlain, bytes_cell<Field::kPeak>},
    FieldInfo{Field::kBeyond, "beyond", tr_later("BEYOND"),
              tr_later("memory beyond reserved: context, libraries"), 8, true, 9, false, kPlain,
              bytes_cell<Field::kBeyond>},
    FieldInfo{Field::kSplit, "split", tr_later("OF THE GPU"),
              tr_later("a bar: allocated, cached, beyond"), 24, false, 2, false, kPlain,
              [](const Process&, const Use&) { return std::string(); }},
    FieldInfo{Field::kStepTime, "step", tr_later("STEP"), tr_later("how long the last step took"),
              8, true, 6, false, kPlain,
              [](const Process& process, const Use&) { return step_time_text(process); }},
    FieldInfo{Field::kPlace, "in", tr_later("RUNS IN"), tr_later("pod, Slurm job or container"), 20,
              false, 4, false, kPlain,
              [](const Process& process, const Use&) { return known_place_text(*process.facts); }},
    FieldInfo{Field::kScope, "scope", tr_later("SCOPE"), tr_later("the region it measured last"),
              18, false, 9, false, kPlain,
              [](const Process& process, const Use&) { return name_text(process.scope); }},
    FieldInfo{Field::kCommand, "command", tr_later("COMMAND"), tr_later("with its arguments"), 12,
              false, 0, true, kPlain,
              [](const Process& process, const Use&) { return command_text(*process.facts); }},
};

}  // namespace

std::span<const FieldInfo> all_fields() { return kFields; }

const FieldInfo& info_of(Field field) { return kFields.at(static_cast<size_t>(field)); }

std::optional<Field> field_named(std::string_view name) {
  const auto* const found = std::ranges::find(kFields, name, &FieldInfo::name);
  return found == kFields.end() ? std::nullopt : std::optional(found->field);
}

std::optional<uint64_t> figure_of(Field field, const Process& process, const Use& use) {
  switch (field) {
    case Field::kMemory:
      return use.process.used_bytes;
    case Field::kHostMemory:
      return use.process.host_bytes;
    case Field::kBusy:
      return use.process.busy_percent;
    case Field::kAllocated:
      return posted(use, &Figures::allocated_bytes);
    case Field::kReserved:
      return posted(use, &Figures::reserved_bytes);
    case Field::kCached:
      return posted(use, &Figures::cached_bytes);
    case Field::kPeak:
      return posted(use, &Figures::peak_bytes);
    case Field::kBeyond:
      return beyond(use);
    case Field::kStepTime:
      return process.step_ns;
    default:
      return std::nullopt;
  }
}

Line split_bar(const Use& use, std::optional<uint64_t> whole_bytes, int columns) {
  const auto allocated = posted(use, &Figures::allocated_bytes);
  const auto reserved = posted(use, &Figures::reserved_bytes);
  if (!allocated || !reserved || !whole_bytes) return Line(kUnknown);
  const uint64_t whole = *whole_bytes;
  const uint64_t in_tensors = std::min(*allocated, whole);
  const uint64_t idle = std::min(*reserved - std::min(*allocated, *reserved), whole - in_tensors);
  const uint64_t other = std::min(beyond(use).value_or(0), whole - in_tensors - idle);
  const BarPart parts[] = {{in_tensors, "█", Style::kActive},
                           {idle, "▒", Style::kWarning},
                           {other, "░", Style::kReserved},
                           {whole - in_tensors - idle - other, "·", Style::kFaint}};
  return stacked_bar(parts, columns);
}

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
    VRAM_TRY_ASSIGN(auto condition, parse_word(word));
    filter.conditions_.push_back(std::move(condition));
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
