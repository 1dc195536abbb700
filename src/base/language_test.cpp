#include "base/language.hpp"

#include "base/bytes.hpp"
#include "base/catalogue.hpp"
#include "base/result.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

namespace vram {
namespace {

// The variables of a test; all are as before at its end.
class Variables {
 public:
  explicit Variables(const std::map<std::string, std::string>& values) {
    for (const char* name : {"LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG"}) {
      const char* const before = std::getenv(name);
      if (before != nullptr) before_[name] = before;
      const auto value = values.find(name);
      value == values.end() ? unsetenv(name) : setenv(name, value->second.c_str(), 1);
    }
  }
  ~Variables() {
    for (const char* name : {"LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG"}) {
      const auto value = before_.find(name);
      value == before_.end() ? unsetenv(name) : setenv(name, value->second.c_str(), 1);
    }
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;

 private:
  std::map<std::string, std::string> before_;
};

std::string language_of(const std::map<std::string, std::string>& values) {
  const Variables variables(values);
  return language_of_environment();
}

class Chinese : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(use_language("zh_CN")); }
  void TearDown() override { use_language(""); }
};

// tests/package/test_texts.py has the same cases for the Python package.
TEST(Language, TheFirstVariableThatIsSetDecides) {
  EXPECT_EQ(language_of({}), "");
  EXPECT_EQ(language_of({{"LANG", "zh_CN.UTF-8"}}), "zh_CN");
  EXPECT_EQ(language_of({{"LANG", "zh_CN"}}), "zh_CN");
  EXPECT_EQ(language_of({{"LANG", "zh_CN.GB18030@stroke"}}), "zh_CN");
  EXPECT_EQ(language_of({{"LANG", "zh_CN.UTF-8"}, {"LC_MESSAGES", "en_US.UTF-8"}}), "");
  EXPECT_EQ(language_of({{"LANG", "en_US.UTF-8"}, {"LC_MESSAGES", "zh_CN.UTF-8"}}), "zh_CN");
  EXPECT_EQ(language_of({{"LC_ALL", "C"}, {"LC_MESSAGES", "zh_CN.UTF-8"}}), "");
  EXPECT_EQ(language_of({{"LC_ALL", ""}, {"LANG", "zh_CN.UTF-8"}}), "zh_CN");
  EXPECT_EQ(language_of({{"LANG", "de_DE.UTF-8"}}), "");
  EXPECT_EQ(language_of({{"LANG", "zh_SG.UTF-8"}}), "zh_CN") << "the same language";
}

TEST(Language, TheListOfLanguagesCountsButInTheCLocale) {
  EXPECT_EQ(language_of({{"LANG", "en_US.UTF-8"}, {"LANGUAGE", "zh_CN:en"}}), "zh_CN");
  EXPECT_EQ(language_of({{"LANG", "zh_CN.UTF-8"}, {"LANGUAGE", "en"}}), "");
  EXPECT_EQ(language_of({{"LANG", "zh_CN.UTF-8"}, {"LANGUAGE", "de:zh"}}), "zh_CN");
  EXPECT_EQ(language_of({{"LANG", "C.UTF-8"}, {"LANGUAGE", "zh_CN"}}), "");
  EXPECT_EQ(language_of({{"LANGUAGE", "zh_CN"}}), "");
}

TEST(Language, EnglishIsTheTextItself) {
  use_language("");
  EXPECT_STREQ(tr("no GPU was found"), "no GPU was found");
  EXPECT_EQ(trf("{} blocks", "2 MiB"), "2 MiB blocks");
  EXPECT_FALSE(use_language("tlh"));
  EXPECT_STREQ(tr("no GPU was found"), "no GPU was found");
}

TEST_F(Chinese, TextsAreTranslated) {
  EXPECT_STREQ(tr("no GPU was found"), "没有找到 GPU");
  EXPECT_EQ(tr(std::string_view("no GPU was found")), "没有找到 GPU");
  EXPECT_EQ(trf("{} blocks", "2 MiB"), "2 MiB 的块");
  EXPECT_EQ(trf("{} of the GPU's {} were neither PyTorch's nor free: see with nvidia-smi which "
                "processes share it. Or use {}.",
                "1 GiB", "8 GiB", "X"),
            "GPU 的 8 GiB 中有 1 GiB 既不属于 PyTorch 也不空闲：请用 nvidia-smi "
            "查看哪些进程共用这块 GPU。或者使用X。")
      << "arguments in another order";
}

TEST_F(Chinese, ATextWithoutATranslationIsEnglish) {
  EXPECT_STREQ(tr("a text that no catalogue has"), "a text that no catalogue has");
  EXPECT_EQ(trf("{} that no catalogue has", 7), "7 that no catalogue has");
}

TEST_F(Chinese, ErrorsAndCountsAreTranslated) {
  const Result<uint64_t> size = parse_bytes("much");
  ASSERT_FALSE(size);
  EXPECT_EQ(size.error().message, "应为 16GiB、512MiB 或 1048576 这样的大小，收到的是 'much'");
  EXPECT_EQ(counted(1, "block"), "1 个块");
  EXPECT_EQ(counted(1234, "block"), "1,234 个块");
  EXPECT_EQ(counted(2, "unheard-of thing"), "2 unheard-of things");
}

TEST(Catalogue, ReadsTheFormat) {
  const Catalogue catalogue = Catalogue::read(
      "msgid \"\"\nmsgstr \"\"\n\"Language: x\\n\"\n\n"
      "# a comment\n#: src/a.cpp\nmsgid \"one\"\nmsgstr \"eins\"\n\n"
      "msgctxt \"verb\"\nmsgid \"free\"\nmsgstr \"befreien\"\n\n"
      "msgid \"\"\n\"two \"\n\"parts\\n\"\nmsgstr \"\"\n\"zwei \\\"Teile\\\"\"\n\"\\n\"\n\n"
      "msgid \"missing\"\nmsgstr \"\"\n");
  EXPECT_EQ(catalogue.size(), 3U);
  EXPECT_STREQ(catalogue.find("", "one"), "eins");
  EXPECT_STREQ(catalogue.find("verb", "free"), "befreien");
  EXPECT_EQ(catalogue.find("", "free"), nullptr);
  EXPECT_STREQ(catalogue.find("", "two parts\n"), "zwei \"Teile\"\n");
  EXPECT_EQ(catalogue.find("", "missing"), nullptr);
}

TEST(Catalogue, OfThisProgramIsComplete) {
  for (const CatalogueFile& file : catalogue_files())
    EXPECT_GT(Catalogue::read(file.po).size(), 1000U) << file.language;
}

}  // namespace
}  // namespace vram
