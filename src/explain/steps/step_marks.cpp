#include "explain/steps/step_marks.hpp"

#include "base/language.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>

namespace vram::explain {
namespace {

// The words a step's name is made of: one of the first and any of the second.
constexpr std::array<std::string_view, 5> kStepWords = {"step", "iteration", "iter", "batch",
                                                        "minibatch"};
constexpr std::array<std::string_view, 9> kOtherWords = {
    "train", "training", "global", "loop", "one", "run", "model", "the", "outer"};
// Scopes of libraries that repeat within a step or outside it.
constexpr std::array<std::string_view, 6> kLibraryStarts = {
    "Optimizer.", "nccl:", "enumerate(DataLoader", "ProfilerStep#", "autograd:", "DataParallel"};
constexpr size_t kMinRepeats = 3;
constexpr double kMinCovered =
    0.6;  // share of the time from the first to the last that plain scopes must fill

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

// "trainStep_12" → train, step. Digits end a word.
std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words(1);
  char before = ' ';
  for (const char c : name) {
    const bool new_hump = std::isupper(static_cast<unsigned char>(c)) != 0 &&
                          std::islower(static_cast<unsigned char>(before)) != 0;
    if ((!is_letter(c) || new_hump) && !words.back().empty()) words.emplace_back();
    if (is_letter(c))
      words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    before = c;
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

struct Numbered {
  std::string_view stem;
  std::optional<uint64_t> number;
};

Numbered split_number(std::string_view name) {
  size_t digits = name.size();
  while (digits > 0 && is_digit(name[digits - 1])) --digits;
  Numbered split{name.substr(0, digits), std::nullopt};
  uint64_t number = 0;
  const auto [end, error] =
      std::from_chars(name.data() + digits, name.data() + name.size(), number);
  if (digits < name.size() && error == std::errc() && end == name.data() + name.size())
    split.number = number;
  return split;
}

// The scopes of one name, or of one name with a number behind it.
struct Group {
  std::vector<uint32_t> scopes;
  std::vector<uint64_t> numbers;
  uint32_t depth = 0xffffffff;
  double covered_ns = 0;  // files may hold any times: no integer differences
  double span_ns = 0;
};

using Groups = std::map<std::string_view, Group>;

// Scopes inside one of their own name (recursion, a wrapped loop) are not counted again.
Groups group_by_name(const trace::Tables& tables, const Scopes& scopes) {
  Groups groups;
  for (uint32_t i = 0; i < scopes.all.size(); ++i) {
    const Scope& scope = scopes.all[i];
    const Numbered name = split_number(tables.strings[scope.name]);
    Group& group = groups[name.stem];
    if (!group.scopes.empty() && scopes.all[group.scopes.back()].end_ns > scope.begin_ns) continue;
    group.scopes.push_back(i);
    if (name.number) group.numbers.push_back(*name.number);
    group.depth = std::min(group.depth, scope.depth);
    group.covered_ns += static_cast<double>(scope.end_ns) - static_cast<double>(scope.begin_ns);
    group.span_ns = static_cast<double>(scope.end_ns) -
                    static_cast<double>(scopes.all[group.scopes.front()].begin_ns);
  }
  return groups;
}

bool counts_up(const Group& group) {
  if (group.numbers.size() < kMinRepeats || group.numbers.size() != group.scopes.size())
    return false;
  for (size_t i = 1; i < group.numbers.size(); ++i) {
    if (group.numbers[i] != group.numbers[i - 1] + 1) return false;
  }
  return true;
}

bool is_library(std::string_view name) {
  return std::any_of(kLibraryStarts.begin(), kLibraryStarts.end(),
                     [&](std::string_view start) { return name.starts_with(start); });
}

bool covers_its_span(const Group& group) { return group.covered_ns >= kMinCovered * group.span_ns; }

std::string counted_name(std::string_view name, size_t count) {
  return trf("annotation {}, {} times", name, count);
}

// The outermost, then the longest, of the groups a rule accepts.
template <typename Rule>
const Groups::value_type* pick(const Groups& groups, Rule&& accepts) {
  const Groups::value_type* best = nullptr;
  for (const auto& entry : groups) {
    if (!accepts(entry.first, entry.second)) continue;
    const bool better = best == nullptr || entry.second.depth < best->second.depth ||
                        (entry.second.depth == best->second.depth &&
                         entry.second.covered_ns > best->second.covered_ns);
    if (better) best = &entry;
  }
  return best;
}

void add_regions(const Groups::value_type* entry, bool is_step, std::vector<StepMarks>* out) {
  if (entry == nullptr) return;
  const bool numbered = !entry->second.numbers.empty();
  out->push_back({StepMarks::Kind::kRegions, is_step, entry->second.scopes,
                  counted_name(std::string(entry->first) + (numbered ? "N" : ""),
                               entry->second.scopes.size())});
}

// One optimizer call a step. Of several optimizers the one that steps most rarely gives the period
// (a critic may step more often than the generator). Where a gradient scaler skips steps, zero_grad
// was still called.
void add_optimizer_periods(const Groups& groups, std::vector<StepMarks>* out) {
  const Groups::value_type* step = nullptr;
  size_t optimizers = 0;
  for (const auto& entry : groups) {
    if (!entry.first.starts_with("Optimizer.step#") || entry.second.scopes.empty()) continue;
    ++optimizers;
    if (step == nullptr || entry.second.scopes.size() < step->second.scopes.size()) step = &entry;
  }
  if (step == nullptr) return;
  const size_t count = step->second.scopes.size();
  StepMarks marks{StepMarks::Kind::kPeriods, true, step->second.scopes,
                  counted_name(step->first, count)};
  if (optimizers > 1) marks.evidence += trf(" (the rarest of {} optimizers)", optimizers);
  for (const auto& [name, group] : groups) {
    const bool fills_in = name.starts_with("Optimizer.zero_grad#") && group.scopes.size() > count &&
                          (group.scopes.size() < 2 * count || count == 1) && optimizers == 1;
    if (!fills_in) continue;
    marks.scopes = group.scopes;
    marks.evidence =
        counted_name(name, group.scopes.size()) +
        trf(" (the optimizer stepped {} times: a gradient scaler skipped the others)", count);
  }
  if (marks.scopes.size() >= 2) out->push_back(std::move(marks));
}

}  // namespace

bool names_a_step(std::string_view name) {
  bool step = false;
  for (const std::string& word : words_of(name)) {
    const bool is_step = std::find(kStepWords.begin(), kStepWords.end(), word) != kStepWords.end();
    if (!is_step && std::find(kOtherWords.begin(), kOtherWords.end(), word) == kOtherWords.end())
      return false;
    step = step || is_step;
  }
  return step;
}

std::vector<StepMarks> find_step_marks(const trace::Tables& tables, const Scopes& scopes) {
  const Groups groups = group_by_name(tables, scopes);
  std::vector<StepMarks> marks;
  add_regions(
      pick(groups, [](std::string_view name,
                      const Group& g) { return name == "ProfilerStep#" && g.scopes.size() >= 2; }),
      true, &marks);
  add_regions(pick(groups,
                   [](std::string_view name, const Group& g) {
                     return !is_library(name) && names_a_step(name) && g.scopes.size() >= 2;
                   }),
              true, &marks);
  add_optimizer_periods(groups, &marks);
  add_regions(pick(groups,
                   [](std::string_view name, const Group& g) {
                     return !is_library(name) && counts_up(g) && covers_its_span(g);
                   }),
              false, &marks);
  add_regions(pick(groups,
                   [](std::string_view name, const Group& g) {
                     return !is_library(name) && g.depth == 0 && g.scopes.size() >= kMinRepeats &&
                            covers_its_span(g);
                   }),
              false, &marks);
  return marks;
}

}  // namespace vram::explain
