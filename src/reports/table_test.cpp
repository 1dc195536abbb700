#include "reports/table.hpp"

#include "reports/testing/stream.hpp"
#include "reports/trace_tables.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vram::reports {
namespace {

using testing::column;
using ::testing::ElementsAre;
using testing::Rows;
using testing::Schema;
using testing::Stream;

// Rows that are numbered from `first` on, `count` of them.
Part numbered(uint64_t first_number, uint64_t count) {
  return {count, [first_number](uint64_t first, uint64_t rows) {
            Batch batch(rows);
            batch.add("number", [&](uint64_t row) { return first_number + first + row; });
            return batch;
          }};
}

template <typename Get>
Table one_column(uint64_t rows, Get get) {
  return {{{rows, [get](uint64_t, uint64_t count) {
              Batch batch(count);
              batch.add("column", get);
              return batch;
            }}}};
}

TEST(Table, RowsOfAllPartsComeInBatchesOfLimitedSize) {
  Stream stream;
  export_stream({{numbered(0, 0), numbered(0, kMaxBatchRows + 3), numbered(kMaxBatchRows + 3, 2)}},
                stream.get());
  std::vector<int64_t> lengths;
  uint64_t next = 0;
  while (true) {
    Rows rows;
    ASSERT_EQ(stream->get_next(stream.get(), rows.get()), 0);
    if (rows->release == nullptr) break;
    lengths.push_back(rows->length);
    for (int64_t row = 0; row < rows->length; ++row)
      ASSERT_EQ(testing::number<uint64_t>(*rows->children[0], row), next++);
  }
  EXPECT_THAT(lengths, ElementsAre(kMaxBatchRows, 3, 2));
  Rows after_the_end;
  EXPECT_EQ(stream->get_next(stream.get(), after_the_end.get()), 0);
  EXPECT_EQ(after_the_end->release, nullptr);
}

TEST(Table, ASchemaNamesTheTypesOfItsColumns) {
  DictionaryBuilder texts;
  const auto index = texts.index("a");
  const Dictionary dictionary = texts.finish();
  Stream stream;
  const Part part = {0, [=](uint64_t, uint64_t count) {
                       Batch batch(count);
                       batch.add("u", [](uint64_t) { return uint32_t{1}; });
                       batch.add("d", [](uint64_t) { return 0.5; });
                       batch.add("b", [](uint64_t) { return true; });
                       batch.add("n", [](uint64_t) { return std::optional(int64_t{1}); });
                       batch.add("t", [](uint64_t) { return std::string("text"); });
                       batch.add("c", dictionary, [=](uint64_t) { return index; });
                       return batch;
                     }};
  export_stream({{part}}, stream.get());
  Schema schema;
  ASSERT_EQ(stream->get_schema(stream.get(), schema.get()), 0);
  EXPECT_STREQ(schema->format, "+s");
  std::vector<std::string> columns;
  for (int64_t i = 0; i < schema->n_children; ++i) {
    const ArrowSchema& column = *schema->children[i];
    std::string shown = std::string(column.name) + ":" + column.format;
    if ((column.flags & ARROW_FLAG_NULLABLE) != 0) shown += "?";
    if (column.dictionary != nullptr) shown += std::string("<") + column.dictionary->format;
    columns.push_back(shown);
  }
  EXPECT_THAT(columns, ElementsAre("u:I", "d:g", "b:b", "n:l?", "t:U", "c:i?<U"));
}

TEST(Table, MissingValuesAreNull) {
  Stream stream;
  export_stream(one_column(11,
                           [](uint64_t row) {
                             return row % 10 == 0 ? std::nullopt : std::optional<uint32_t>(row);
                           }),
                stream.get());
  Rows rows;
  ASSERT_EQ(stream->get_next(stream.get(), rows.get()), 0);
  const ArrowArray& array = *rows->children[0];
  EXPECT_EQ(array.null_count, 2);
  EXPECT_FALSE(testing::is_valid(array, 0));
  EXPECT_FALSE(testing::is_valid(array, 10));
  for (uint32_t row = 1; row < 10; ++row) {
    EXPECT_TRUE(testing::is_valid(array, row));
    EXPECT_EQ(testing::number<uint32_t>(array, row), row);
  }
}

TEST(Table, BoolsAreBits) {
  Stream stream;
  export_stream(one_column(10, [](uint64_t row) { return row % 3 == 0; }), stream.get());
  Rows rows;
  ASSERT_EQ(stream->get_next(stream.get(), rows.get()), 0);
  const auto* bits = static_cast<const uint8_t*>(rows->children[0]->buffers[1]);
  EXPECT_EQ(bits[0], 0b01001001);
  EXPECT_EQ(bits[1], 0b00000010);
}

TEST(Table, TextsAreValidUtf8) {
  Stream stream;
  export_stream(one_column(3,
                           [](uint64_t row) {
                             return std::string_view(row == 0 ? "né" : row == 1 ? "" : "a\xff");
                           }),
                stream.get());
  EXPECT_THAT(column<std::string>(stream.get(), "column"), ElementsAre("né", "", "a\xEF\xBF\xBD"));
}

TEST(Table, ADictionaryHasEachTextOnce) {
  DictionaryBuilder builder;
  EXPECT_EQ(builder.index("b"), 0);
  EXPECT_EQ(builder.index(""), std::nullopt);
  EXPECT_EQ(builder.index("a"), 1);
  EXPECT_EQ(builder.index("b"), 0);
  // Bytes that are no UTF-8 are shown alike, and categories must differ.
  EXPECT_EQ(builder.index("\xff"), builder.index("\xfe"));
  EXPECT_EQ(builder.finish()->length, 3U);
}

// A consumer may keep a column and release the rest, in any order.
TEST(Table, BuffersLiveAsLongAsOneReaderHasThem) {
  DictionaryBuilder texts;
  const auto index = texts.index("kept");
  Dictionary dictionary = texts.finish();
  const std::weak_ptr<const Array> watched = dictionary;
  Rows kept;
  {
    Stream stream;
    const Part part = {2, [=](uint64_t, uint64_t count) {
                         Batch batch(count);
                         batch.add("first", [](uint64_t row) { return row; });
                         batch.add("second", dictionary, [=](uint64_t) { return index; });
                         return batch;
                       }};
    export_stream({{part}}, stream.get());
    Rows rows;
    ASSERT_EQ(stream->get_next(stream.get(), rows.get()), 0);
    *kept.get() = *rows->children[1];
    rows->children[1]->release = nullptr;
  }
  dictionary = nullptr;
  ASSERT_FALSE(watched.expired());
  EXPECT_EQ(testing::text(*kept->dictionary, testing::number<int32_t>(*kept.get(), 1)), "kept");
  kept->release(kept.get());
  EXPECT_TRUE(watched.expired());
}

TEST(Table, MemoryThatIsMissingIsAnErrorOfTheStream) {
  Stream stream;
  const Part part = {1, [](uint64_t, uint64_t count) {
                       if (count > 0) throw std::bad_alloc();
                       return Batch(count);
                     }};
  export_stream({{part}}, stream.get());
  EXPECT_EQ(stream->get_last_error(stream.get()), nullptr);
  Rows rows;
  EXPECT_EQ(stream->get_next(stream.get(), rows.get()), ENOMEM);
  EXPECT_THAT(stream->get_last_error(stream.get()), ::testing::HasSubstr("not enough memory"));
}

TEST(TraceTexts, StacksThatNeedTooMuchTextAreRefused) {
  trace::Tables tables;
  const trace::StringId file = tables.strings.intern(std::string(1000, 'f'));
  const trace::FrameId frame = tables.frames.intern(
      {.function = file, .file = file, .line = 1, .fx_node = 0, .fx_trace = 0});
  const std::vector<trace::FrameId> frames(10, frame);
  (void)tables.stacks.intern(frames);
  EXPECT_TRUE(check_stack_texts(tables));
  EXPECT_TRUE(check_stack_texts(tables, 23'000));
  const auto refused = check_stack_texts(tables, 22'000);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kTooLarge);
}

}  // namespace
}  // namespace vram::reports
