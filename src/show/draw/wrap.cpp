#include "show/draw/wrap.hpp"

#include "base/text.hpp"

#include <algorithm>

namespace vram::show {
namespace {

// The longest beginning of `word` that fits, in whole characters and at least one.
size_t fitting_prefix(std::string_view word, int columns) {
  size_t end = 0;
  while (end < word.size()) {
    size_t next = end + 1;
    while (next < word.size() && (static_cast<unsigned char>(word[next]) & 0xC0U) == 0x80U) ++next;
    if (end > 0 && display_width(word.substr(0, next)) > columns) break;
    end = next;
  }
  return end;
}

class Wrapper {
 public:
  explicit Wrapper(int columns) : columns_(std::max(columns, 1)) {}

  void add_word(std::string_view word) {
    const int needed = display_width(word) + (line_.empty() ? 0 : 1);
    if (width_ + needed > columns_ && !line_.empty()) break_line();
    while (display_width(word) > columns_) {
      const size_t end = fitting_prefix(word, columns_);
      lines_.emplace_back(word.substr(0, end));
      word.remove_prefix(end);
    }
    if (!line_.empty()) line_ += ' ';
    line_ += word;
    width_ = display_width(line_);
  }
  void break_line() {
    lines_.push_back(std::move(line_));
    line_.clear();
    width_ = 0;
  }
  std::vector<std::string> finish() {
    if (!line_.empty() || lines_.empty()) break_line();
    return std::move(lines_);
  }

 private:
  int columns_;
  int width_ = 0;
  std::string line_;
  std::vector<std::string> lines_;
};

}  // namespace

std::vector<std::string> wrap(std::string_view text, int columns) {
  Wrapper wrapper(columns);
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find_first_of(" \n", begin), text.size());
    if (end > begin) wrapper.add_word(text.substr(begin, end - begin));
    if (end < text.size() && text[end] == '\n') wrapper.break_line();
    begin = end + 1;
  }
  return wrapper.finish();
}

}  // namespace vram::show
