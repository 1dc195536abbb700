// A strict parser of metrics pages, for tests: anything unexpected is a failure. Written from the
// formats' specifications, not from our writer.
#pragma once

#include "show/testing/lines.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <regex>
#include <set>
#include <string>

namespace vram::show::testing {

struct ParsedFamily {
  std::string type;
  std::string unit;
  std::string help;
};

struct ParsedPage {
  std::map<std::string, ParsedFamily> families;  // by the name in their heads
  std::map<std::string, double> series;          // by name and labels, as written
  std::map<std::string, std::string> family_of;  // of each series
};

class PageReader {
 public:
  explicit PageReader(bool is_openmetrics) : is_openmetrics_(is_openmetrics) {}

  ParsedPage read(const std::string& text) {
    EXPECT_TRUE(text.empty() || text.back() == '\n');
    for (const std::string& line : lines_of(text)) {
      EXPECT_FALSE(has_ended_) << line;
      if (line == "# EOF") {
        has_ended_ = true;
      } else if (line.starts_with('#')) {
        read_head(line);
      } else {
        read_sample(line);
      }
    }
    EXPECT_EQ(has_ended_, is_openmetrics_);
    return page_;
  }

 private:
  void read_head(const std::string& line) {
    static const std::regex kHead("# (HELP|TYPE|UNIT) ([a-zA-Z_:][a-zA-Z0-9_:]*) ([^\"\\\\]+)");
    std::smatch match;
    ASSERT_TRUE(std::regex_match(line, match, kHead)) << line;
    if (match[2] != current_) {
      current_ = match[2];
      EXPECT_TRUE(page_.families.try_emplace(current_).second) << "in two places: " << line;
    }
    ParsedFamily& family = page_.families[current_];
    std::string& part = match[1] == "HELP"   ? family.help
                        : match[1] == "TYPE" ? family.type
                                             : family.unit;
    EXPECT_TRUE(part.empty()) << "twice: " << line;
    part = match[3];
    if (match[1] == "UNIT") {
      EXPECT_TRUE(is_openmetrics_ && current_.ends_with("_" + part)) << line;
      EXPECT_NE(family.type, "info") << line;
    }
  }

  [[nodiscard]] std::string ending() const {
    if (!is_openmetrics_) return "";
    const std::string& type = page_.families.at(current_).type;
    return type == "counter" ? "_total" : type == "info" ? "_info" : "";
  }

  void read_sample(const std::string& line) {
    static const std::regex kSample(
        R"re(([a-zA-Z_:][a-zA-Z0-9_:]*)(\{.*\})? (-?[0-9]+(\.[0-9]+)?(e[+-][0-9]+)?))re");
    std::smatch match;
    ASSERT_TRUE(std::regex_match(line, match, kSample)) << line;
    ASSERT_EQ(match[1], current_ + ending()) << "outside its family: " << line;
    const ParsedFamily& family = page_.families[current_];
    EXPECT_FALSE(family.type.empty() || family.help.empty()) << line;
    read_labels(match[2]);
    const double value = std::stod(match[3]);
    EXPECT_TRUE(std::isfinite(value)) << line;
    if (family.type == "counter") {
      EXPECT_TRUE(value >= 0 &&
                  (match[1].str().ends_with("_total") || !match[1].str().starts_with("vram_")))
          << line;
    }
    const std::string key = match[1].str() + match[2].str();
    EXPECT_TRUE(page_.series.emplace(key, value).second) << "twice: " << line;
    page_.family_of[key] = current_;
  }

  static void read_labels(const std::string& text) {
    static const std::regex kLabel(
        R"re(([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(,|\}$))re");
    std::set<std::string> names;
    size_t at = text.empty() ? 0 : 1;
    while (at < text.size()) {
      std::smatch match;
      const std::string rest = text.substr(at);
      ASSERT_TRUE(std::regex_search(rest, match, kLabel, std::regex_constants::match_continuous))
          << text;
      EXPECT_TRUE(names.insert(match[1]).second) << text;
      at += static_cast<size_t>(match.length(0));
    }
  }

  bool is_openmetrics_;
  bool has_ended_ = false;
  std::string current_;
  ParsedPage page_;
};

}  // namespace vram::show::testing
