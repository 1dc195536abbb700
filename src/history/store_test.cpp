// The history's file in bad company: broken, another program's, newer, taken, in a folder that
// can't be written, gone.
#include "history/store.hpp"

#include "base/testing/waiting.hpp"
#include "base/time.hpp"
#include "history/database.hpp"
#include "history/history.hpp"
#include "history/testing/history_samples.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sys/wait.h>
#include <unistd.h>

namespace vram::history {
namespace {

using ::testing::ElementsAre;
using testing::Folder;
using ::testing::HasSubstr;
using testing::kDayBegin;
using testing::kHour;
using testing::kMinute;
using testing::opened;
using testing::points_of;
using testing::sample_at;

class StoreTest : public ::testing::Test {
 protected:
  HistoryOptions options() {
    HistoryOptions options;
    options.report = [this](const std::string& text) { messages_.push_back(text); };
    return options;
  }
  [[nodiscard]] std::string refusal() const {
    const auto history = History::open(folder_.file());
    return history ? "" : history.error().message;
  }
  void write(const std::string& bytes) const {
    std::ofstream(folder_.file(), std::ios::binary) << bytes;
  }
  [[nodiscard]] std::string read(const std::string& name) const {
    std::ifstream file(folder_.file(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void sql(const std::string& statements) const {
    if (!std::filesystem::exists(folder_.file())) write("");
    auto database = Database::open(folder_.file(), false);
    ASSERT_TRUE(database) << database.error().message;
    const auto done = database->execute(statements);
    ASSERT_TRUE(done) << done.error().message;
  }
  static HistoryQuery used() {
    HistoryQuery query;
    query.metric = "used_bytes";
    return query;
  }
  static void fill(History& history, int minutes) {
    for (int i = 0; i < minutes * 60; ++i)
      history.add(
          sample_at(kDayBegin + i * kSignedSecondNs, static_cast<uint64_t>(i * 7919 % 1000)));
  }

  Folder folder_;
  std::vector<std::string> messages_;
};

TEST_F(StoreTest, AFileThatIsNoDatabaseIsLeftAlone) {
  for (const std::string& text : {std::string(5000, 'x'), std::string("x"), std::string(1, '\0')}) {
    write(text);
    EXPECT_THAT(refusal(), HasSubstr("is not a history: expected a file that begins as SQLite's"));
    EXPECT_EQ(read("history.db"), text);
    EXPECT_EQ(folder_.names_with("").size(), 1u) << "and nothing is put beside it";
  }
}

TEST(Store, HasNoHistoryWhereOtherMachinesWrite) {
  EXPECT_EQ(network_file_system(0x6969), "NFS");
  EXPECT_EQ(network_file_system(0x0bd00bd0), "Lustre");
  EXPECT_EQ(network_file_system(0xfe534d42), "SMB");
  for (const uint32_t local :
       {0xef53U, 0x58465342U, 0x01021994U, 0x794c7630U})  // ext4, XFS, tmpfs, overlay
    EXPECT_EQ(network_file_system(local), std::nullopt);
}

TEST_F(StoreTest, AnotherProgramsBrokenDatabaseIsLeftAlone) {
  sql("CREATE TABLE theirs(x); INSERT INTO theirs VALUES(1);");
  const auto size = std::filesystem::file_size(folder_.file());
  {
    std::fstream file(folder_.file(), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(100);  // behind the header
    file << std::string(size - 100, '\x5a');
  }
  EXPECT_THAT(refusal(), HasSubstr("is left unchanged"));
  EXPECT_TRUE(folder_.names_with(".broken-").empty());
}

TEST_F(StoreTest, AHistoryWhoseFirstPageIsBrokenIsMovedAside) {
  (void)opened(folder_.file());
  {
    std::fstream file(folder_.file(), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(100);
    file << std::string(3000, '\x5a');
  }
  const std::string broken = read("history.db");
  {
    History history = opened(folder_.file(), options());
    history.add(sample_at(kDayBegin, 5));
    ASSERT_TRUE(history.flush());
    EXPECT_EQ(points_of(history, used()).size(), 1u);
  }
  const auto aside = folder_.names_with(".broken-");
  ASSERT_EQ(aside.size(), 1u);
  EXPECT_EQ(read(aside[0]), broken);
  ASSERT_EQ(messages_.size(), 1u);
  EXPECT_THAT(messages_[0], HasSubstr(aside[0]));
}

TEST_F(StoreTest, AFileWhereTheLockGoesStays) {
  const std::string lock = folder_.file() + ".lock";
  std::ofstream(lock) << "[[package]]\nname = \"torch\"\n";
  EXPECT_THAT(refusal(), HasSubstr("but the file there was not written by vram"));
  EXPECT_EQ(std::filesystem::file_size(lock), 27u);
}

TEST_F(StoreTest, AHistoryThatOthersMayReadIsMadePrivate) {
  {
    History history = opened(folder_.file());
    history.add(sample_at(kDayBegin, 5));
    ASSERT_TRUE(history.flush());
  }
  std::ofstream(folder_.file() + "-wal").flush();
  for (const char* end : {"", "-wal"})
    std::filesystem::permissions(folder_.file() + end, static_cast<std::filesystem::perms>(0666));
  const History history = opened(folder_.file());
  for (const char* end : {"", "-wal", "-shm"}) {
    const auto found = std::filesystem::status(folder_.file() + end);
    EXPECT_EQ(static_cast<unsigned>(found.permissions()), 0600u) << end;
  }
}

TEST_F(StoreTest, AnEmptyFileBecomesOne) {
  write("");
  EXPECT_EQ(refusal(), "");
  EXPECT_TRUE(folder_.names_with(".broken-").empty());
}

TEST_F(StoreTest, AHistoryCutInHalfIsMovedAside) {
  {
    History history = opened(folder_.file());
    fill(history, 60);
  }
  const auto size = std::filesystem::file_size(folder_.file());
  std::filesystem::resize_file(folder_.file(), size / 2 + 100);
  History history = opened(folder_.file(), options());
  history.add(sample_at(kDayBegin + 2 * kHour, 5));
  (void)history.query(used());
  EXPECT_TRUE(history.flush());
  EXPECT_EQ(folder_.names_with(".broken-").size(), 1u);
  EXPECT_EQ(points_of(history, used()).size(), 1u);
}

TEST_F(StoreTest, PagesThatBreakWhileItRunsAreMovedAside) {
  {
    History history = opened(folder_.file());
    fill(history, 60);
  }
  History history = opened(folder_.file(), options());
  // Not the first page, which says what the file is, but all that follow.
  const auto size = std::filesystem::file_size(folder_.file());
  ASSERT_GT(size, 40'000u);
  {
    std::fstream file(folder_.file(), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(4096);
    file << std::string(size - 4096, '\x5a');
  }
  for (int i = 0; i < 3; ++i) {
    history.add(sample_at(kDayBegin + 3 * kHour + i * kSignedSecondNs, 5));
    (void)history.query(used());
    (void)history.flush();
  }
  EXPECT_THAT(messages_, ElementsAre(HasSubstr("moved aside")));
  EXPECT_FALSE(folder_.names_with(".broken-").empty());
  EXPECT_TRUE(history.flush());
  EXPECT_EQ(history.facts().last_error, std::nullopt);
}

TEST_F(StoreTest, AFileThatIsTakenAwayIsBegunAnew) {
  History history = opened(folder_.file(), options());
  fill(history, 1);
  ASSERT_TRUE(history.flush());
  std::filesystem::remove(folder_.file());
  history.add(sample_at(kDayBegin + kHour, 5));
  ASSERT_TRUE(history.flush());
  EXPECT_TRUE(std::filesystem::exists(folder_.file()));
  ASSERT_EQ(messages_.size(), 1u);
  EXPECT_THAT(messages_[0], HasSubstr("was deleted"));
  EXPECT_FALSE(points_of(history, used()).empty());
}

// As when a backup is brought back. Its devices and chunks have numbers of their own.
TEST_F(StoreTest, AnotherHistoryInItsPlaceIsNotWrittenInto) {
  const std::string other = folder_.file("other.db");
  {
    History history = opened(other);
    history.add(sample_at(kDayBegin, 1, "GPU-b"));
  }
  {
    History history = opened(folder_.file(), options());
    history.add(sample_at(kDayBegin, 5));
    ASSERT_TRUE(history.flush());
    std::filesystem::rename(other, folder_.file());
    history.add(sample_at(kDayBegin + kSignedSecondNs, 6));
    EXPECT_FALSE(history.flush());
    EXPECT_FALSE(history.flush());
    EXPECT_THAT(messages_, ElementsAre(HasSubstr("another history was put in the place of")));
  }
  const History history = opened(folder_.file());
  HistoryQuery query = used();
  query.device = "GPU-b";
  const auto points = points_of(history, query);
  ASSERT_EQ(points.size(), 1u);
  EXPECT_EQ(points[0].average, 1);
}

TEST_F(StoreTest, AnotherProgramsDatabaseIsLeftAlone) {
  sql("CREATE TABLE theirs(x); INSERT INTO theirs VALUES(1);");
  EXPECT_THAT(refusal(), HasSubstr("another program"));
  EXPECT_TRUE(folder_.names_with(".broken-").empty());
}

TEST_F(StoreTest, ANewerSchemaIsRefused) {
  (void)opened(folder_.file());
  sql(fmt::format("PRAGMA user_version={}", kSchemaVersion + 1));
  EXPECT_THAT(refusal(), HasSubstr("newer vram"));
  EXPECT_TRUE(folder_.names_with(".broken-").empty());
}

TEST_F(StoreTest, ASecondWriterIsToldWhoTheFirstIs) {
  const History history = opened(folder_.file());
  EXPECT_THAT(refusal(), HasSubstr(fmt::format("process {}", getpid())));
}

TEST_F(StoreTest, AFolderThatIsNotThereIsNamed) {
  const auto history = History::open(folder_.file("none/history.db"));
  ASSERT_FALSE(history);
  EXPECT_THAT(history.error().message, HasSubstr("No such file or directory"));
}

TEST_F(StoreTest, AFolderIsNoFile) {
  std::filesystem::create_directory(folder_.file());
  EXPECT_NE(refusal(), "");
}

// Root may write everywhere, so a child without its rights tries.
TEST_F(StoreTest, AFolderThatMayNotBeWrittenIsNamed) {
  std::filesystem::permissions(folder_.path(), std::filesystem::perms(0555));
  const pid_t child = fork();
  if (child == 0) {
    const bool is_nobody = getuid() != 0 || setuid(65534) == 0;
    const std::string text = is_nobody ? refusal() : "";
    _exit(text.find("Permission denied") != std::string::npos ? 0 : 1);
  }
  const int status = status_of_child(child);
  EXPECT_EQ(status, 0);
  std::filesystem::permissions(folder_.path(), std::filesystem::perms(0755));
}

}  // namespace
}  // namespace vram::history
