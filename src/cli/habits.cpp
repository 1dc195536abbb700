#include "cli/habits.hpp"

#include "base/language.hpp"
#include "base/text.hpp"
#include "base/toml.hpp"
#include "show/draw/line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace vram::cli {
namespace {

constexpr int kColumns = 100;
// Of a word that is looked for within another: "gc" is a part of too many.
constexpr size_t kMinPartBytes = 4;

Habit habit_of(const TomlValue& row) {
  Habit habit;
  const std::pair<std::string_view, std::string*> texts[] = {
      {"today", &habit.today},   {"now", &habit.now}, {"en", &habit.en},
      {"not_en", &habit.not_en}, {"zh", &habit.zh},   {"not_zh", &habit.not_zh}};
  for (const TomlValue& value : *row.table) {
    if (value.key == "words")
      for (const TomlValue& word : *value.list) habit.words.push_back(ascii_lower(*word.text));
    for (const auto& [key, text] : texts)
      if (value.key == key) *text = *value.text;
  }
  return habit;
}

std::vector<Habit> read_habits() {
  const Result<TomlValue> file = read_toml(habits_text(), "habits.toml");
  if (!file) throw std::logic_error(file.error().message);  // a test reads the file
  std::vector<Habit> rows;
  for (const TomlValue& row : *file->table->front().list) rows.push_back(habit_of(row));
  return rows;
}

// How many bytes of the row's longest word are a part of the wanted one, or the other way round.
size_t common_part(const Habit& habit, std::string_view wanted) {
  size_t longest = 0;
  for (const std::string& word : habit.words) {
    const bool is_shorter = word.size() < wanted.size();
    const std::string_view part = is_shorter ? std::string_view(word) : wanted;
    const std::string_view whole = is_shorter ? wanted : std::string_view(word);
    if (part.size() >= kMinPartBytes && whole.find(part) != std::string_view::npos)
      longest = std::max(longest, part.size());
  }
  return longest;
}

void add_entry(std::string_view name, std::string_view text, bool wraps, std::string& out) {
  const std::vector<std::string> lines =
      wraps ? show::wrap(text, kColumns - 10) : std::vector<std::string>{std::string(text)};
  for (size_t i = 0; i < lines.size(); ++i)
    out += fmt::format("  {:<7} {}\n", i == 0 ? name : "", lines[i]);
}

}  // namespace

std::span<const Habit> habits() {
  static const std::vector<Habit> rows = read_habits();
  return rows;
}

std::vector<const Habit*> find_habits(std::string_view word) {
  const std::string wanted = ascii_lower(word);
  std::vector<std::pair<size_t, const Habit*>> parts;
  std::vector<const Habit*> found;
  for (const Habit& habit : habits()) {
    if (std::ranges::find(habit.words, wanted) != habit.words.end()) found.push_back(&habit);
    if (const size_t part = common_part(habit, wanted); part > 0) parts.emplace_back(part, &habit);
  }
  if (!found.empty()) return found;
  std::ranges::stable_sort(parts, std::greater{}, [](const auto& each) { return each.first; });
  for (const auto& [part, habit] : parts)
    if (part == parts.front().first) found.push_back(habit);
  return found;
}

std::string describe_habits(std::span<const Habit* const> rows, bool in_chinese) {
  std::string out;
  for (const Habit* row : rows) {
    if (!out.empty()) out += "\n";
    add_entry(in_chinese ? "常见：" : "today", row->today, false, out);
    add_entry(in_chinese ? "vram：" : "vram", row->now, false, out);
    add_entry("", in_chinese ? row->zh : row->en, !in_chinese, out);
    add_entry(in_chinese ? "注意：" : "but", in_chinese ? row->not_zh : row->not_en, !in_chinese,
              out);
  }
  return out;
}

bool reads_chinese(std::string_view word) {
  // In UTF-8, the characters from U+3000 to U+9FFF begin with the bytes e3 to e9.
  if (std::ranges::any_of(word, [](char byte) {
        const auto lead = static_cast<unsigned char>(byte);
        return lead >= 0xe3 && lead <= 0xe9;
      }))
    return true;
  return language_of_environment().starts_with("zh");
}

}  // namespace vram::cli
