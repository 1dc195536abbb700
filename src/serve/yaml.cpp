#include "serve/yaml.hpp"

#include "base/result.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <optional>

namespace vram::serve {
namespace {

constexpr size_t kMaxDepth = 16;
constexpr std::string_view kBlanks = " \t";

struct YamlLine {
  size_t number = 0;
  size_t indent = 0;
  std::string_view text;  // without indentation, comment and blanks at its end
};

// Where a quoted scalar that begins at `from` ends: behind its last quote.
std::optional<size_t> end_of_quoted(std::string_view text, size_t from) {
  const char quote = text[from];
  for (size_t at = from + 1; at < text.size(); ++at) {
    if (quote == '"' && text[at] == '\\') {
      ++at;
    } else if (text[at] == quote) {
      const bool is_doubled = quote == '\'' && at + 1 < text.size() && text[at + 1] == quote;
      if (!is_doubled) return at + 1;
      ++at;
    }
  }
  return std::nullopt;
}

bool begins_quoted(std::string_view text, size_t at) {
  const bool is_quote = text[at] == '"' || text[at] == '\'';
  return is_quote && (at == 0 || text[at - 1] == ' ' || text[at - 1] == '[' || text[at - 1] == ',');
}

std::string_view without_comment(std::string_view text) {
  for (size_t at = 0; at < text.size(); ++at) {
    if (begins_quoted(text, at)) {
      const auto end = end_of_quoted(text, at);
      if (!end) break;  // the scalar's own error
      at = *end - 1;
    } else if (text[at] == '#' &&
               (at == 0 || kBlanks.find(text[at - 1]) != std::string_view::npos)) {
      text = text.substr(0, at);
      break;
    }
  }
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

class YamlParser {
 public:
  YamlParser(std::string_view text, const std::string& name) : name_(name), text_(text) {}

  Result<YamlNode> parse() {
    VRAM_TRY(split_lines());
    if (lines_.empty()) return YamlNode();
    auto node = block(lines_.front().indent, 0);
    if (node && next_ < lines_.size()) return wrong("expected nothing more at this indentation");
    return node;
  }

 private:
  [[nodiscard]] size_t line_number() const {
    return next_ < lines_.size() ? lines_[next_].number : lines_.empty() ? 1 : lines_.back().number;
  }
  // Nothing of the file is repeated: it may have passwords in it.
  tl::unexpected<Error> wrong(std::string_view expected) const {
    return fail(Code::kBadInput, "{}, line {}: {}", name_, line_number(), expected);
  }

  Result<> split_lines() {
    size_t number = 0;
    std::string_view rest = text_;
    while (!rest.empty()) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      std::string_view line = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      ++number;
      if (line.ends_with('\r')) line.remove_suffix(1);
      const size_t indent = std::min(line.find_first_not_of(' '), line.size());
      const bool has_control =
          std::ranges::any_of(line, [](unsigned char c) { return c < ' ' && c != '\t'; });
      const std::string_view content = without_comment(line.substr(indent));
      if (content.empty()) continue;
      if (content == "---" && indent == 0 && lines_.empty()) continue;
      lines_.push_back({number, indent, content});
      next_ = lines_.size() - 1;
      if (has_control) return wrong("expected text without control characters");
      if (content.front() == '\t') return wrong("expected spaces as indentation, found a tab");
      if (indent == 0 && (content == "---" || content == "..." || content.front() == '%'))
        return wrong("expected one document without directives");
    }
    next_ = 0;
    return {};
  }

  static bool is_item(std::string_view text) { return text == "-" || text.starts_with("- "); }

  Result<YamlNode> block(size_t indent, size_t depth) {
    if (depth == kMaxDepth) return wrong("expected fewer levels");
    return is_item(lines_[next_].text) ? list(indent) : map(indent, depth);
  }

  Result<YamlNode> list(size_t indent) {
    YamlNode node{.kind = YamlNode::Kind::kList, .line = line_number()};
    while (next_ < lines_.size() && lines_[next_].indent == indent && is_item(lines_[next_].text)) {
      std::string_view text = lines_[next_].text.substr(1);
      text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
      auto item = scalar(text);
      if (!item) return item;
      if (item->kind != YamlNode::Kind::kText) return wrong("expected a text behind '- '");
      node.items.push_back(*std::move(item));
      ++next_;
    }
    return node;
  }

  Result<YamlNode> map(size_t indent, size_t depth) {
    YamlNode node{.kind = YamlNode::Kind::kMap, .line = line_number()};
    while (next_ < lines_.size() && lines_[next_].indent == indent) {
      std::string_view text = lines_[next_].text;
      VRAM_TRY_ASSIGN(auto key, take_key(text));
      const bool is_known =
          std::ranges::any_of(node.entries, [&](const auto& entry) { return entry.first == key; });
      if (is_known) return wrong("expected each key once");
      auto value = text.empty() ? value_below(indent, depth) : inline_value(text);
      if (!value) return value;
      node.entries.emplace_back(std::move(key), *std::move(value));
    }
    if (next_ < lines_.size() && lines_[next_].indent > indent)
      return wrong("expected less indentation: a text is on one line");
    return node;
  }

  // Up to the colon, which goes with it.
  Result<std::string> take_key(std::string_view& text) {
    const bool is_quoted = text.front() == '"' || text.front() == '\'';
    size_t end = is_quoted ? end_of_quoted(text, 0).value_or(text.size()) : 0;
    if (!is_quoted) {
      while (end < text.size() &&
             !(text[end] == ':' && (end + 1 == text.size() || text[end + 1] == ' ')))
        ++end;
    }
    if (end >= text.size() || text[end] != ':') return wrong("expected 'key: value'");
    VRAM_TRY_ASSIGN(auto key, scalar(text.substr(0, end)));
    if (key.kind != YamlNode::Kind::kText) return wrong("expected a key before the colon");
    text.remove_prefix(end + 1);
    text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
    return std::move(key.text);
  }

  Result<YamlNode> inline_value(std::string_view text) {
    auto value = text.starts_with('[') ? flow_list(text) : scalar(text);
    ++next_;
    return value;
  }

  Result<YamlNode> value_below(size_t indent, size_t depth) {
    const size_t number = line_number();
    ++next_;
    if (next_ == lines_.size()) return YamlNode{.line = number};
    const YamlLine& below = lines_[next_];
    if (below.indent > indent) return block(below.indent, depth + 1);
    if (below.indent == indent && is_item(below.text)) return list(indent);
    return YamlNode{.line = number};
  }

  Result<YamlNode> flow_list(std::string_view text) {
    YamlNode node{.kind = YamlNode::Kind::kList, .line = line_number()};
    if (!text.ends_with(']')) return wrong("expected a list that ends with ] on the same line");
    text = text.substr(1, text.size() - 2);
    while (!text.empty()) {
      text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
      if (text.empty()) break;
      const bool is_quoted = text.front() == '"' || text.front() == '\'';
      const size_t from = is_quoted ? end_of_quoted(text, 0).value_or(text.size()) : 0;
      const size_t end = std::min(text.find(',', from), text.size());
      const std::string_view word = text.substr(0, end);
      auto item = scalar(word.substr(0, word.find_last_not_of(kBlanks) + 1));
      if (!item) return item;
      if (item->kind != YamlNode::Kind::kText) return wrong("expected texts between commas");
      node.items.push_back(*std::move(item));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return node;
  }

  Result<YamlNode> scalar(std::string_view text) {
    YamlNode node{.kind = YamlNode::Kind::kText, .line = line_number()};
    if (text == "{}") {
      node.kind = YamlNode::Kind::kMap;
      return node;
    }
    if (text.empty() || text == "~" || text == "null") {
      node.kind = YamlNode::Kind::kNull;
      return node;
    }
    if (text.front() == '"' || text.front() == '\'') return quoted(text, std::move(node));
    constexpr std::string_view kSpecial = "[]{},&*!|>%@`#";
    if (kSpecial.find(text.front()) != std::string_view::npos)
      return wrong(
          "expected a plain or quoted text on one line; anchors, tags and block texts are "
          "not understood");
    if (text.find(": ") != std::string_view::npos || text.ends_with(':'))
      return wrong("expected one colon: put a text with colons between quotes");
    node.text = text;
    return node;
  }

  Result<YamlNode> quoted(std::string_view text, YamlNode node) {
    if (end_of_quoted(text, 0) != text.size())
      return wrong("expected nothing around a text between quotes");
    const char quote = text.front();
    text = text.substr(1, text.size() - 2);
    for (size_t at = 0; at < text.size(); ++at) {
      if (quote == '\'' && text[at] == '\'') ++at;
      if (quote == '"' && text[at] == '\\') {
        ++at;
        if (text[at] != '"' && text[at] != '\\')
          return wrong("expected no escapes but \\\" and \\\\ between double quotes");
      }
      node.text += text[at];
    }
    return node;
  }

  const std::string& name_;
  std::string_view text_;
  std::vector<YamlLine> lines_;
  size_t next_ = 0;
};

}  // namespace

Result<YamlNode> parse_yaml(std::string_view text, const std::string& name) {
  if (valid_utf8(text) != text) return fail(Code::kBadInput, "{}: expected UTF-8", name);
  return YamlParser(text, name).parse();
}

}  // namespace vram::serve
