// What people write without vram, and what to write instead: habits.toml, by the words that find
// it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vram::cli {

struct Habit {
  std::vector<std::string> words;  // in lower case
  std::string today, now;          // code
  std::string en, not_en;          // what `now` does, and when not to use it
  std::string zh, not_zh;
};

// All rows, in the order of the file.
[[nodiscard]] std::span<const Habit> habits();
// The file, which a source that CMake writes contains.
[[nodiscard]] std::string_view habits_text();

// The rows that a word or command line means, the best first: those that have it as a word, or else
// those of which the longest word is a part of it or contains it. Upper and lower case are equal.
[[nodiscard]] std::vector<const Habit*> find_habits(std::string_view word);

// As `vram help WORD` prints them.
[[nodiscard]] std::string describe_habits(std::span<const Habit* const> rows, bool in_chinese);

// Whether a word is Chinese, or else the messages of this process are (language_of_environment()).
[[nodiscard]] bool reads_chinese(std::string_view word);

}  // namespace vram::cli
