#include "trace/open.hpp"

#include "trace/testing/import_bytes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <tuple>
#include <unistd.h>

namespace vram::trace {
namespace {

using namespace std::string_literals;
using testing::HasSubstr;

class OpenTest : public testing::Test {
 protected:
  Result<Trace> open_bytes(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary) << bytes;
    return open_trace(path_);
  }
  void TearDown() override { std::filesystem::remove(path_); }
  std::string path_ = testing::TempDir() + "open_test." + std::to_string(getpid());
};

TEST_F(OpenTest, OpensASnapshotWhateverItsName) {
  const std::string bytes = test_file("snapshots/v2.8.p4.pickle");
  const Result<Trace> trace = open_bytes(bytes);
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->origin.path, path_);
  EXPECT_EQ(trace->origin.file_bytes, bytes.size());
  EXPECT_GT(trace->events.size(), 0U);
}

TEST_F(OpenTest, ReportsProgress) {
  const std::string bytes = test_file("snapshots/main.p4.pickle");
  std::ofstream(path_, std::ios::binary) << bytes;
  uint64_t done = 0;
  uint64_t total = 0;
  OpenOptions options;
  options.progress = [&](uint64_t done_bytes, uint64_t total_bytes) {
    EXPECT_GE(done_bytes, done);
    done = done_bytes;
    total = total_bytes;
  };
  ASSERT_TRUE(open_trace(path_, options));
  EXPECT_EQ(done, bytes.size());
  EXPECT_EQ(total, bytes.size());
}

TEST_F(OpenTest, SaysInOneLineWhatAFileIsInstead) {
  const std::tuple<std::string, Code, const char*> files[] = {
      {"", Code::kBadInput, "found an empty file"},
      {"\x80", Code::kBadInput, "found a file of one byte"},
      {"\x80\x06", Code::kUnsupported, "byte 1 names pickle protocol 6"},
      {"(dp0\nS'segments'\n", Code::kUnsupported, "protocol 0 or 1"},
      {"}q\x00(X"s, Code::kUnsupported, "protocol 0 or 1"},
      {"PK\x03\x04............", Code::kUnsupported, "found a zip archive, as torch.save writes"},
      {"{\"traceEvents\": []}", Code::kBadInput, "no [memory] events of torch.profiler"},
      {"\r\n [{\"ph\": \"X\"}]", Code::kUnsupported, "looks like JSON"},
      {"SQLite format 3\0"s, Code::kUnsupported, "an SQLite database"},
      {"\x7f"
       "ELF\x02\x01\x01\x00\x00"s,
       Code::kBadInput, "found the bytes 7f 45 4c 46 02 01 01 00"},
  };
  for (const auto& [bytes, code, words] : files) {
    const Result<Trace> trace = open_bytes(bytes);
    ASSERT_FALSE(trace) << words;
    EXPECT_EQ(trace.error().code, code) << words;
    EXPECT_THAT(trace.error().message, HasSubstr(words));
    EXPECT_THAT(trace.error().message, HasSubstr(path_));
    EXPECT_EQ(trace.error().message.find('\n'), std::string::npos);
  }
}

TEST_F(OpenTest, SaysWhatIsWrongWithThePath) {
  const Result<Trace> missing = open_trace(path_);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  const Result<Trace> folder = open_trace(testing::TempDir());
  ASSERT_FALSE(folder);
  EXPECT_THAT(folder.error().message, HasSubstr("directory"));
}

TEST_F(OpenTest, StopsAtTheLimitOfUnpackedBytes) {
  OpenOptions options;
  options.max_decompressed_bytes = 1000;
  std::ofstream(path_, std::ios::binary) << test_file("snapshots/v2.8.p4.pickle");
  const Result<Trace> trace = open_trace(path_, options);
  ASSERT_FALSE(trace);
  EXPECT_EQ(trace.error().code, Code::kTooLarge);
}

}  // namespace
}  // namespace vram::trace
