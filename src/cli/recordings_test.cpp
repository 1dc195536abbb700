#include "cli/recordings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

namespace vram::cli {
namespace {

namespace fs = std::filesystem;

class RecordingsTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_ / "inner.vtrace"); }
  void TearDown() override { fs::remove_all(folder_); }
  void make(const std::string& name) const { std::ofstream(folder_ / name) << "x"; }
  [[nodiscard]] std::string path(const std::string& name) const {
    return (folder_ / name).string();
  }
  const fs::path folder_ =
      fs::temp_directory_path() / ("vram-recordings-" + std::to_string(getpid()));
};

TEST_F(RecordingsTest, AFolderStandsForWhatIsRecordedInIt) {
  for (const char* name : {"run.rank1.vtrace", "run.rank0.vtrace", "run.rank0.old.vtrace",
                           "notes.txt", "run.pickle.xz", "run.tar.gz"})
    make(name);
  // A reader that opened it would wait for a writer.
  ASSERT_EQ(mkfifo((folder_ / "pipe.vtrace").c_str(), 0600), 0);
  const auto found = find_recordings({folder_.string()});
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_THAT(found->paths, testing::ElementsAre(path("run.pickle.xz"), path("run.rank0.vtrace"),
                                                 path("run.rank1.vtrace")));
  EXPECT_TRUE(found->is_folder);
  EXPECT_FALSE(found->are_named_ranks);
}

TEST_F(RecordingsTest, FilesNamedByRankAreReadTogetherAndOthersOneByOne) {
  EXPECT_TRUE(find_recordings({"a.rank0.vtrace", "a.rank1.vtrace"}).value().are_named_ranks);
  EXPECT_FALSE(find_recordings({"a.rank0.vtrace", "b.vtrace"}).value().are_named_ranks);
  EXPECT_FALSE(find_recordings({"a.rank0.vtrace"}).value().are_named_ranks);
}

TEST_F(RecordingsTest, AFolderWithoutRecordingsIsAnError) {
  const auto found = find_recordings({folder_.string()});
  ASSERT_FALSE(found);
  EXPECT_NE(found.error().message.find("found none"), std::string::npos);
}

TEST_F(RecordingsTest, WhatProcessesOfEarlierRunsLeft) {
  for (const char* name : {"run.vtrace", "run.4711.vtrace", "run.rank0.12.vtrace",
                           "run.rank0.vtrace", "run.old.vtrace", "run.2nd.vtrace", "run.4711.json",
                           "other.4711.vtrace", "run.1.2.vtrace", "run..vtrace"})
    make(name);
  EXPECT_THAT(left_by_processes(path("run.vtrace")),
              testing::ElementsAre("run.4711.vtrace", "run.rank0.12.vtrace"));
  EXPECT_THAT(left_by_processes(path("no/such/run.vtrace")), testing::IsEmpty());
}

TEST(RankInName, IsTheNumberBehindRank) {
  EXPECT_EQ(rank_in_name("runs/a.rank12.vtrace"), 12u);
  EXPECT_EQ(rank_in_name("a.rank3.pickle.xz"), 3u);
  EXPECT_FALSE(rank_in_name("a.rankx.vtrace"));
  EXPECT_FALSE(rank_in_name("a.rank3x.vtrace"));
  EXPECT_FALSE(rank_in_name("run.rank3/a.vtrace"));
}

}  // namespace
}  // namespace vram::cli
