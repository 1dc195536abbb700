#include "trace/import/pickle/machine.hpp"

#include "trace/testing/import_bytes.hpp"
#include "trace/testing/tree_sink.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

namespace vram::trace::pickle {
namespace {

using namespace std::string_literals;
using testing::HasSubstr;

struct Decoded {
  std::string text;  // empty: failed
  std::string error;
  Code code = Code::kBadInput;
  std::optional<uint64_t> cut;
};

Decoded decode(std::string_view bytes, const Limits& limits = {}) {
  const auto source = memory_source(bytes_of(bytes));
  ByteWindow window(*source, {});
  const auto sink = std::make_unique<TreeSink>();
  const Result<Outcome> outcome = Machine(window, *sink, limits).run();
  if (!outcome) return {"", outcome.error().message, outcome.error().code, {}};
  return {sink->print(outcome->root), "", {}, outcome->truncated_at_byte};
}

std::string proto(std::string_view body) { return "\x80\x04"s + std::string(body); }

TEST(MachineTest, ReadsWhatPythonPickles) {
  std::string expected = test_file("pickles/nested.txt");
  expected.pop_back();
  for (const char* protocol : {"2", "3", "4", "5"}) {
    SCOPED_TRACE(protocol);
    const Decoded decoded = decode(test_file("pickles/nested.p"s + protocol + ".pickle"));
    EXPECT_EQ(decoded.error, "");
    EXPECT_FALSE(decoded.cut);
    EXPECT_TRUE(decoded.text == expected);
  }
}

TEST(MachineTest, ReadsEveryBatching) {
  // {'a': [1, 2], 'b': ()} with singular opcodes, with one MARK, and in two batches.
  const std::string singular = proto(
      "}\x8c\x01"s
      "a]K\x01"s
      "aK\x02"s
      "as\x8c\x01"s
      "b)s.");
  const std::string at_once = proto(
      "}(\x8c\x01"s
      "a](K\x01K\x02"s
      "e\x8c\x01"s
      "b)u.");
  const std::string twice = proto(
      "}(\x8c\x01"s
      "a](K\x01"s
      "e(K\x02"s
      "eu(\x8c\x01"s
      "b)u.");
  for (const std::string& bytes : {singular, at_once, twice}) {
    const Decoded decoded = decode(bytes);
    EXPECT_EQ(decoded.error, "");
    EXPECT_EQ(decoded.text, "{'a': [1, 2], 'b': ()}");
  }
}

TEST(MachineTest, ReadsManyEmptyContainersOfOneMark) {
  for (const char* empty : {"]", "}", "](e"}) {
    std::string items;
    for (int i = 0; i < 5000; ++i) items += empty;
    const Decoded decoded = decode(proto("](" + items + "e."));
    EXPECT_EQ(decoded.error, "");
    EXPECT_EQ(decoded.text.size(), 5000 * 4U);  // "[[], [], …]"
  }
}

TEST(MachineTest, ReadsSharedContainersBeforeTheirParentsAreComplete) {
  // [x := ['s'], {'k': x}, x], x memoised at once (Python), and after its items (torch.jit).
  EXPECT_EQ(decode(proto("]\x94(]\x94(\x8c\x01s\x94"s
                         "e}\x94\x8c\x01k\x94h\x01sh\x01"s
                         "e."))
                .text,
            "[['s'], {'k': ['s']}, ['s']]");
  EXPECT_EQ(decode(proto("](](\x8c\x01s"s
                         "eq\x00}(\x8c\x01kh\x00uh\x00"s
                         "e."s))
                .text,
            "[['s'], {'k': ['s']}, ['s']]");
}

TEST(MachineTest, ReadsIntegersOfEverySize) {
  EXPECT_EQ(decode(proto("](\x8a\x00\x8a\x01\xff\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00"s
                         "\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80\x8b\x03\x00\x00\x00\x01\x02\x00"s
                         "J\xfe\xff\xff\xff"s
                         "e."))
                .text,
            "[0, -1, 18446744073709551615, -9223372036854775808, 513, -2]");
}

TEST(MachineTest, RefusesEveryOpcodeThatNamesCode) {
  const std::pair<std::string, const char*> opcodes[] = {{"cos\nsystem\n", "GLOBAL"},
                                                         {"\x93", "STACK_GLOBAL"},
                                                         {"R", "REDUCE"},
                                                         {"b", "BUILD"},
                                                         {"ios\nsystem\n", "INST"},
                                                         {"o", "OBJ"},
                                                         {"\x81", "NEWOBJ"},
                                                         {"\x92", "NEWOBJ_EX"},
                                                         {"\x82\x01", "EXT1"},
                                                         {"\x83\x01\x01", "EXT2"},
                                                         {"\x84\x01\x01\x01\x01", "EXT4"},
                                                         {"P1\n", "PERSID"},
                                                         {"Q", "BINPERSID"},
                                                         {"\x97", "NEXT_BUFFER"},
                                                         {"\x98", "READONLY_BUFFER"}};
  for (const auto& [bytes, name] : opcodes) {
    const Decoded decoded = decode(proto("](" + bytes + std::string(20, 'N') + "e."));
    EXPECT_THAT(decoded.error, HasSubstr("opcode "s + name + " at byte 4 ")) << name;
    EXPECT_EQ(decoded.code, Code::kBadInput);
  }
}

TEST(MachineTest, SaysWhatToDoAboutTextProtocols) {
  const Decoded decoded = decode(proto("(dp0\n."));
  EXPECT_EQ(decoded.code, Code::kUnsupported);
  EXPECT_THAT(decoded.error, HasSubstr("DICT at byte 3"));
  EXPECT_THAT(decoded.error, HasSubstr("protocol=4"));
}

TEST(MachineTest, RefusesBytesThatAreNoOpcodes) {
  EXPECT_THAT(decode(proto("]\xff."s)).error, HasSubstr("at byte 3, found the byte 0xff"));
}

TEST(MachineTest, RefusesOpcodesWithoutTheirValues) {
  for (const char* body : {"u.", "e.", "a.", "s.", "t.", "0.", "1.", "2.", "\x85.", "\x94.", "q0.",
                           ".", "}K\x01u.", "}(K\x01u.",
                           "K\x01(K\x02"
                           "e.",
                           "](K\x01u.",
                           "(K\x01"
                           "a."}) {
    const Decoded decoded = decode(proto(body));
    EXPECT_NE(decoded.error, "") << body;
    EXPECT_EQ(decoded.text, "") << body;
  }
}

TEST(MachineTest, RefusesDataThatRefersToItself) {
  EXPECT_THAT(decode(proto("]\x94h\x00"s
                           "a."s))
                  .error,
              HasSubstr("refers to itself"));
  EXPECT_THAT(decode(proto("}\x94(\x8c\x01kh\x00u."s)).error, HasSubstr("refers to itself"));
  EXPECT_THAT(decode(proto("]\x94(]\x94h\x00"s
                           "ae."s))
                  .error,
              HasSubstr("refers to itself"));
}

TEST(MachineTest, RefusesUnknownMemoEntries) {
  EXPECT_THAT(decode(proto("h\x07.")).error, HasSubstr("memo entry 7"));
  EXPECT_THAT(decode(proto("](N\x94j\x01\x00\x00\x00"s
                           "e."s))
                  .error,
              HasSubstr("memo entry 1"));
}

TEST(MachineTest, DoesNotAllocateForAGiantMemoIndex) {
  const Decoded decoded = decode(proto("Nr\xff\xff\xff\x7f."s));
  EXPECT_EQ(decoded.code, Code::kTooLarge);
  EXPECT_THAT(decoded.error, HasSubstr("memo entry 2147483647"));
}

TEST(MachineTest, LimitsDepth) {
  EXPECT_NE(decode(proto(std::string(100, ']') + std::string(99, 'a') + '.')).text, "");
  for (const char* nest : {"](", "}(\x8c\x01k"}) {
    std::string deep;
    for (int i = 0; i < 100'000; ++i) deep += nest;
    const Decoded decoded = decode(proto(deep));
    EXPECT_EQ(decoded.code, Code::kTooLarge);
    EXPECT_THAT(decoded.error, HasSubstr("nested deeper"));
  }
  EXPECT_THAT(decode(proto(std::string(1000, ']') + std::string(999, 'a') + '.')).error,
              HasSubstr("changes a container after it was used"));
  EXPECT_THAT(decode(proto(std::string(100'000, '('))).error, HasSubstr("nested deeper"));
}

TEST(MachineTest, LimitsTextsByWhatIsReallyThere) {
  // Claims 2 GiB: refused; claims 15 MiB and has 3 bytes: cut, not allocated.
  const Decoded refused =
      decode(proto("X\x00\x00\x00\x80"
                   "abc"s));
  EXPECT_EQ(refused.code, Code::kTooLarge);
  const Decoded cut =
      decode(proto("X\x00\x00\xf0\x00"
                   "abc"s));
  EXPECT_EQ(cut.error, "");
  EXPECT_EQ(cut.cut, 10U);
}

TEST(MachineTest, LimitsMemory) {
  std::string many = "](";
  for (int i = 0; i < 300'000; ++i) many += "X\x04\x00\x00\x00"s + std::to_string(1000 + i % 9000);
  EXPECT_NE(decode(proto(many + "e.")).text, "");
  // Values, then memo entries, without end.
  for (const auto& [begin, repeated] : {std::pair("](", 'N'), std::pair("N", '\x94')}) {
    std::string endless = begin;
    endless.resize(4'000'000, repeated);
    EXPECT_EQ(decode(proto(endless)).code, Code::kTooLarge);
  }
}

TEST(MachineTest, FindsMemoEntriesInPagesGivenBack) {
  // A million lists, each memoised, then references to some of the first.
  std::string bytes = "](";
  for (int i = 0; i < 1'000'000; ++i) bytes += "]\x94";
  bytes +=
      "1](]K\x07"s
      "a\x94";  // the memo's next: 1,000,000
  bytes +=
      "j\x00\x00\x00\x00j\xff\xff\x01\x00j\x40\x42\x0f\x00"s
      "e.";
  EXPECT_EQ(decode(proto("0"s + bytes).replace(2, 1, "")).text, "[[7], [], [], [7]]");
}

TEST(MachineTest, FoldsWhatIsCompleteWhenTheInputEnds) {
  // {'a': [1, 2, 3]} cut after the 2, with and without marks.
  EXPECT_EQ(decode(proto("}(\x8c\x01"s
                         "a](K\x01K\x02"))
                .text,
            "{'a': [1, 2]}");
  EXPECT_EQ(decode(proto("}\x8c\x01"s
                         "a]K\x01"s
                         "aK\x02"s))
                .text,
            "{'a': [1, 2]}");
  // A key without its value, a value half there.
  EXPECT_EQ(decode(proto("}(\x8c\x01"s
                         "aK\x01\x8c\x01"s
                         "b"))
                .text,
            "{'a': 1}");
  EXPECT_EQ(decode(proto("}(\x8c\x01"s
                         "aK\x01\x8c\x01"s
                         "bJ\x01\x00"s))
                .text,
            "{'a': 1}");
  EXPECT_EQ(decode(proto("](](K\x01"s
                         "e](K\x02"))
                .text,
            "[[1], [2]]");
  EXPECT_EQ(decode(proto("]](K\x01")).text, "[[1]]");
}

}  // namespace
}  // namespace vram::trace::pickle
