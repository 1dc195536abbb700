// The command lines in documents and manuals are parsed with the tables of options of their
// commands.
#include "base/testing/paths.hpp"
#include "cli/command.hpp"
#include "cli/options.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace vram::cli {
namespace {

using ::testing::IsEmpty;

struct Documented {
  std::string place;  // "docs/report.md:12"
  std::string line;   // "vram report run.vtrace  # with a comment"
  std::string error;  // what the document says that it prints; empty: it is valid
};

std::vector<std::string> documents() {
  const std::string root = source_path("");
  std::vector<std::string> names;
  for (const char* folder : {"", "docs", "docs/zh", "deploy", "demo", "examples"}) {
    for (const auto& entry : std::filesystem::directory_iterator(root + folder)) {
      if (entry.path().extension() == ".md") names.push_back(entry.path().lexically_relative(root));
    }
  }
  std::ranges::sort(names);
  return names;
}

// The words of the command of a shell's line that runs vram, without redirections.
std::vector<std::string> words_of(std::string_view line) {
  line.remove_prefix(std::min(line.find("vram "), line.size()));
  std::vector<std::string> words;
  std::string word;
  char quote = 0;
  bool is_word = false;
  constexpr std::string_view kEnds = "|>&)";
  const auto end_word = [&] {
    if (is_word) words.push_back(word);
    word.clear();
    is_word = false;
  };
  for (const char c : line) {
    if (quote != 0 ? c == quote : c == '\'' || c == '"') {
      quote = quote != 0 ? char{0} : c;
      is_word = true;
    } else if (quote == 0 && c == ' ') {
      end_word();
    } else if (quote == 0 && (kEnds.find(c) != kEnds.npos || (c == '#' && !is_word))) {
      if (c == '>' && word == "2") is_word = false;  // "2> FILE"
      break;
    } else {
      word += c;
      is_word = true;
    }
  }
  end_word();
  return words;
}

// Lines of code blocks that run vram, and texts in backticks that begin with "vram COMMAND".
void read_document(const std::string& name, std::vector<Documented>& blocks,
                   std::vector<Documented>& spans) {
  static const std::regex kLine(R"((?:\$ )?(vram [a-z].*))");
  static const std::regex kSpan(R"(`(vram [a-z]+(?: [^`]*)?)`)");
  static const std::string kError = "vram: error: ";
  std::ifstream file(source_path(name));
  bool is_block = false;
  size_t number = 0;
  for (std::string line; std::getline(file, line);) {
    const std::string place = fmt::format("{}:{}", name, ++number);
    std::smatch match;
    if (line.starts_with("```")) {
      is_block = !is_block;
    } else if (is_block && line.starts_with(kError) && !blocks.empty()) {
      blocks.back().error = line.substr(kError.size());
    } else if (is_block && std::regex_match(line, match, kLine)) {
      blocks.push_back({place, match[1], ""});
    } else if (!is_block) {
      for (std::sregex_iterator span(line.begin(), line.end(), kSpan), end; span != end; ++span)
        spans.push_back({place, (*span)[1], ""});
    }
  }
}

struct Documents {
  std::vector<Documented> blocks;
  std::vector<Documented> spans;
  Documents() {
    for (const std::string& name : documents()) read_document(name, blocks, spans);
  }
};

// The error of a command line; empty: it is valid. `vram doctor --pid` requires a running process:
// this one is.
std::string error_of(std::vector<std::string> words) {
  if (words.size() < 2 || words[1] == "help") return "";
  if (std::ranges::find(words, "--help") != words.end())
    words.resize(2);  // before options are parsed
  const auto pid = std::ranges::find(words, "--pid");
  if (words.end() - pid > 1) pid[1] = std::to_string(getpid());
  for (const auto& command : all_commands()) {
    if (command->manual().name != words[1]) continue;
    const Result<> parsed =
        parse_options(command->manual(), command->options(), {words.begin() + 2, words.end()});
    return parsed ? "" : parsed.error().message;
  }
  return fmt::format("unknown command '{}'", words[1]);
}

TEST(DocumentedCommands, AreValidOrPrintTheErrorThatFollows) {
  const Documents documents;
  EXPECT_GT(documents.blocks.size(), 80U);
  for (const auto& [place, line, error] : documents.blocks)
    EXPECT_EQ(error_of(words_of(line)), error) << place << ": " << line;
}

// In the text a command may be named without its arguments, or with a placeholder as a value.
TEST(DocumentedCommands, InTheTextHaveKnownNamesAndOptions) {
  const Documents documents;
  EXPECT_GT(documents.spans.size(), 200U);
  for (const auto& [place, line, error] : documents.spans) {
    std::vector<std::string> flags = words_of(line);
    flags.erase(std::ranges::find(flags, "--"), flags.end());
    std::erase_if(flags, [](const std::string& word) { return word.size() < 2 || word[0] != '-'; });
    std::vector<std::string> words = words_of(line);
    words.resize(2);
    for (const std::string& flag : flags) {
      words.resize(3);
      words[2] = flag.substr(0, flag.find('='));
      EXPECT_THAT(error_of(words), ::testing::Not(::testing::HasSubstr("unknown option")))
          << place << ": " << line;
    }
    words.resize(2);
    EXPECT_THAT(error_of(words), ::testing::Not(::testing::HasSubstr("unknown command")))
        << place << ": " << line;
  }
}

TEST(DocumentedCommands, OfManualsAreValid) {
  for (const auto& command : all_commands()) {
    EXPECT_THAT(command->manual().examples, ::testing::Not(IsEmpty())) << command->manual().name;
    for (const Example& example : command->manual().examples)
      EXPECT_EQ(error_of(words_of(example.command)), "") << example.command;
  }
}

}  // namespace
}  // namespace vram::cli
