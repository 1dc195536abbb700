#include "base/file.hpp"

#include "base/export_marks.hpp"
#include "base/testing/forked_copy.hpp"
#include "base/testing/refused_links.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace vram {
namespace {

namespace fs = std::filesystem;

class FileTest : public testing::Test {
 protected:
  FileTest() {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(testing::TempDir()) /
              ("vram_file_" + std::to_string(getpid()) + "_" + info->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~FileTest() override { fs::remove_all(folder_); }

  [[nodiscard]] std::string path(const char* name) const { return (folder_ / name).string(); }
  static std::string content(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
  }
  [[nodiscard]] long count_files() const {
    return std::distance(fs::directory_iterator(folder_), fs::directory_iterator());
  }

 private:
  fs::path folder_;
};

TEST_F(FileTest, AppearsOnlyWhenCommitted) {
  auto file = AtomicFile::create(path("out")).value();
  ASSERT_TRUE(file.write("half").has_value());
  EXPECT_FALSE(fs::exists(path("out")));
  ASSERT_TRUE(file.write(" and whole").has_value());
  ASSERT_TRUE(file.commit().has_value());
  EXPECT_EQ(content(path("out")), "half and whole");
  EXPECT_EQ(count_files(), 1);
}

TEST_F(FileTest, AbandonedLeavesWhatWasThere) {
  const std::string old = std::string(kVtraceStart) + "old";
  std::ofstream(path("out")) << old;
  {
    auto file = AtomicFile::create(path("out")).value();
    ASSERT_TRUE(file.write(std::string(1 << 20, 'x')).has_value());
  }
  EXPECT_EQ(content(path("out")), old);
  EXPECT_EQ(count_files(), 1);
}

TEST_F(FileTest, AProcessThatIsKilledLeavesNothing) {
  if (!Descriptor(open(path(".").c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600)).is_open())
    GTEST_SKIP() << "the filesystem has no files without a name";
  const pid_t child = fork();
  if (child == 0) {
    auto file = AtomicFile::create(path("out")).value();
    if (file.write(std::string(size_t{1} << 20, 'x'))) (void)kill(getpid(), SIGKILL);
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(count_files(), 0);
}

// Such as FUSE and network filesystems: they have files without a name, and cannot give them one.
TEST_F(FileTest, AFileThatCannotBeLinkedIsCopied) {
  const std::string text(size_t{1} << 20, 'x');
  const pid_t child = fork();
  if (child == 0) {
    auto file = AtomicFile::create(path("out")).value();
    const bool is_written = file.write(text) && refuse_links() && file.commit();
    _exit(is_written ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(content(path("out")) == text);
  EXPECT_EQ(count_files(), 1);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  EXPECT_EQ(static_cast<unsigned>(fs::status(path("out")).permissions()), 0666U & ~mask);
}

TEST_F(FileTest, AMovedFileIsCommittedOnce) {
  auto first = AtomicFile::create(path("out")).value();
  ASSERT_TRUE(first.write("moved").has_value());
  AtomicFile second = std::move(first);
  ASSERT_TRUE(second.commit().has_value());
  EXPECT_EQ(content(path("out")), "moved");
}

TEST_F(FileTest, GetsOrdinaryPermissions) {
  auto file = AtomicFile::create(path("out")).value();
  ASSERT_TRUE(file.commit().has_value());
  const mode_t mask = ::umask(0);
  ::umask(mask);
  EXPECT_EQ(static_cast<unsigned>(fs::status(path("out")).permissions()), 0666U & ~mask);
}

TEST_F(FileTest, SaysWhatIsWrong) {
  const auto missing = InputFile::open(path("missing"));
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  EXPECT_NE(missing.error().message.find("missing"), std::string::npos);
  EXPECT_NE(InputFile::open(path("")).error().message.find("directory"), std::string::npos);
  EXPECT_EQ(AtomicFile::create(path("no/such/folder")).error().code, Code::kNotFound);
}

TEST_F(FileTest, ReadsFrontToBackAndAtAnOffset) {
  std::ofstream(path("in")) << "0123456789";
  auto file = InputFile::open(path("in")).value();
  EXPECT_EQ(file.size_bytes(), 10U);
  std::array<std::byte, 4> buffer{};
  EXPECT_EQ(file.read_at(7, buffer).value(), 3U);
  EXPECT_EQ(buffer[0], std::byte{'7'});
  EXPECT_EQ(file.read(buffer).value(), 4U);
  EXPECT_EQ(buffer[0], std::byte{'0'});
  EXPECT_EQ(file.read_at(100, buffer).value(), 0U);
}

TEST_F(FileTest, AWholeFileIsReadUpToABound) {
  const std::string text(1'000'000, 'x');
  std::ofstream(path("in")) << text;
  EXPECT_EQ(read_whole(path("in"), 1'000'000).value(), text);
  const auto larger = read_whole(path("in"), 999'999);
  ASSERT_FALSE(larger.has_value());
  EXPECT_EQ(larger.error().code, Code::kTooLarge);
  EXPECT_EQ(read_whole("/dev/zero", 10).error().code, Code::kTooLarge);
  EXPECT_EQ(read_whole("/dev/null", 0).value(), "");
  EXPECT_EQ(read_whole(path("none"), 10).error().code, Code::kNotFound);
}

namespace fs = std::filesystem;
using testing::HasSubstr;
using Kind = OutputTarget::Kind;

const std::string kRecording = std::string(kVtraceStart) + "and so on";

class OutputTargetTest : public testing::Test {
 protected:
  OutputTargetTest() {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(testing::TempDir()) /
              ("vram_output_" + std::to_string(getpid()) + "_" + info->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~OutputTargetTest() override { fs::remove_all(folder_); }

  [[nodiscard]] std::string path(const std::string& name) const {
    return (folder_ / name).string();
  }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
  }
  [[nodiscard]] std::string content(const std::string& name) const {
    std::ifstream in(path(name), std::ios::binary);
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
  }
  [[nodiscard]] std::string refusal(const std::string& name,
                                    Replace replace = Replace::kOwn) const {
    const auto found = find_output_target(path(name), replace);
    return found ? "" : found.error().message;
  }
  // As -o does it.
  static Result<> put(const std::string& path, const std::string& text,
                      Replace replace = Replace::kOwn) {
    auto file = AtomicFile::create(path, replace);
    if (!file) return tl::unexpected(file.error());
    if (auto done = file->write(text); !done) return done;
    return file->commit();
  }

  fs::path folder_;
};

TEST_F(OutputTargetTest, AFileThatVramDidNotWriteStays) {
  write("weights.pt", "PK\x03\x04 six months of training");
  EXPECT_THAT(refusal("weights.pt"), HasSubstr("weights.pt was not written by vram"));
  EXPECT_FALSE(put(path("weights.pt"), "{}"));
  EXPECT_EQ(content("weights.pt"), "PK\x03\x04 six months of training");
  ASSERT_TRUE(put(path("weights.pt"), "{}", Replace::kAny));
  EXPECT_EQ(content("weights.pt"), "{}");
}

TEST_F(OutputTargetTest, WhatVramWroteIsReplacedAndSoIsAnEmptyFile) {
  write("empty", "");
  write("run.vtrace", kRecording);
  write("cut.vtrace", std::string(kVtraceStart));
  write("run.csv", std::string(kCsvStart) + "action\r\n0,gpu,0,,alloc\r\n");
  write("run.jsonl", R"({"device":0,"device_kind":"gpu","index":0})");
  write("run.json", "{\n  \"schema\": \"vram.report/1\",\n  \"path\": \"x\"\n}\n");
  write("two.json", "[\n{\n  \"schema\": \"vram.report/1\"}]\n");
  write("run.txt", std::string(4000, 'x') + "\n\n" + std::string(kTextEnd) + "0.1.0\n");
  const std::string text = std::string(kTextEnd) + "0.1.0";
  write("run.pftrace", "\x0a\x30\xe2\x03\x2d\x72\x15" + text);
  write("run.pb.gz", std::string(kCommentedGzip) + std::string(6, '\0') + text);
  write("run.folded", "main;f 12\n" + text + " 0\n");
  write("run.speedscope.json", std::string(kSpeedscopeStart) + "0.1.0\"}");
  write("run.trace.json", std::string(kChromeTraceStart) + "0.1.0\"}}");
  write("run.parquet", "PAR1 rows " + std::string(kParquetWriter) + "0.1.0 PAR1");
  write("run.pickle", std::string(kSnapshotStart) + "}");
  write("map.json", std::string(kPlanJsonStart) + "  \"model\": 0\n}\n");
  write("fsdp.yaml", std::string(kPlanYamlStart) + text + "\nnum_machines: 1\n");
  for (const char* name :
       {"map.json", "fsdp.yaml", "empty", "run.vtrace", "cut.vtrace", "run.csv", "run.jsonl",
        "run.json", "two.json", "run.txt", "run.pftrace", "run.pb.gz", "run.folded",
        "run.speedscope.json", "run.trace.json", "run.parquet", "run.pickle"}) {
    EXPECT_EQ(refusal(name), "") << name;
    ASSERT_TRUE(put(path(name), kRecording)) << name;
    EXPECT_EQ(content(name), kRecording) << name;
  }
}

TEST_F(OutputTargetTest, WhatOnlyLooksLikeItStays) {
  write("a", "\x89PNG\r\n");
  write("b", R"({"device":"gpu0","temperature":61})");
  write("c", R"({"schema": "other.report/1"})");
  write("d", "Written by vram 0.1.0\nand by hand\n");
  write("e", "device,temperature\n");
  write("f", "\x0a\x30\xe2\x03\x2d\x72\x15 of another program");
  write("g", "\x1f\x8b\x08\x10 of another program");
  write("h", "PAR1 rows parquet-cpp-arrow version 26.0.1 PAR1");
  write("i", R"({"exporter":"speedscope@1.25.0"})");
  write("j", R"({"otherData":{"writer":"chrome"}})");
  write("k", std::string("\x80\x04}\x94(\x8c\x04vram", 11));  // as Python writes it
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"})
    EXPECT_NE(refusal(name), "") << name;
}

TEST_F(OutputTargetTest, AFileThatIsBeingWrittenStaysWhateverIsAsked) {
  write("run.vtrace", kRecording);
  const Descriptor writer(open(path("run.vtrace").c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_EQ(flock(writer.number(), LOCK_EX), 0);
  for (const Replace replace : {Replace::kOwn, Replace::kAny}) {
    EXPECT_THAT(refusal("run.vtrace", replace), HasSubstr("is being written by another"));
    EXPECT_FALSE(put(path("run.vtrace"), "{}", replace));
  }
  EXPECT_EQ(content("run.vtrace"), kRecording);
}

TEST_F(OutputTargetTest, AFileIsFreeWithItsTargetThoughACopyOfTheProcessLives) {
  write("run.vtrace", kRecording);
  auto target = find_output_target(path("run.vtrace"), Replace::kOwn);
  ASSERT_TRUE(target);
  const ForkedCopy copy;
  EXPECT_THAT(refusal("run.vtrace"), HasSubstr("is being written by another"));
  target = OutputTarget();
  EXPECT_EQ(refusal("run.vtrace"), "");
}

// It may have begun after the command did.
TEST_F(OutputTargetTest, WhatIsThereIsExaminedAgainBeforeItIsReplaced) {
  auto file = AtomicFile::create(path("out")).value();
  ASSERT_TRUE(file.write("{}"));
  write("out", "somebody's notes");
  const auto committed = file.commit();
  ASSERT_FALSE(committed);
  EXPECT_THAT(committed.error().message, HasSubstr("is left unchanged"));
  EXPECT_EQ(content("out"), "somebody's notes");
}

TEST_F(OutputTargetTest, LinksStayAndWhatIsBehindThemIsWritten) {
  fs::create_directories(folder_ / "disk");
  write("disk/run.json", kRecording);
  fs::create_symlink("disk", path("place"));
  fs::create_symlink("place/run.json", path("link"));
  fs::create_symlink(path("disk/none.json"), path("dangling"));
  ASSERT_TRUE(put(path("link"), "{}"));
  ASSERT_TRUE(put(path("dangling"), "new"));
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_TRUE(fs::is_symlink(path("dangling")));
  EXPECT_EQ(content("disk/run.json"), "{}");
  EXPECT_EQ(content("disk/none.json"), "new");
  write("disk/run.json", "mine");
  EXPECT_THAT(refusal("link"), HasSubstr("is left unchanged"));
  fs::create_symlink("round", path("round"));
  EXPECT_THAT(refusal("round"), HasSubstr("Too many levels of symbolic links"));
}

TEST_F(OutputTargetTest, PermissionsAndOwnerOfTheFileStay) {
  write("run.json", kRecording);
  ASSERT_EQ(chmod(path("run.json").c_str(), 0640), 0);
  const bool is_root = geteuid() == 0;
  if (is_root) {
    ASSERT_EQ(chown(path("run.json").c_str(), 65534, 65534), 0);
  }
  ASSERT_TRUE(put(path("run.json"), "{}"));
  struct stat found{};
  ASSERT_EQ(stat(path("run.json").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777U, 0640U);
  EXPECT_EQ(found.st_uid, is_root ? 65534 : geteuid());
}

TEST_F(OutputTargetTest, APipeIsWrittenInPlace) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  std::string read;
  std::thread reader([&] { read = content("pipe"); });
  ASSERT_TRUE(put(path("pipe"), "through the pipe"));
  reader.join();
  EXPECT_EQ(read, "through the pipe");
  EXPECT_EQ(fs::status(path("pipe")).type(), fs::file_type::fifo);
}

TEST_F(OutputTargetTest, APipeThatNobodyReadsIsNotWaitedForByWhoMustNotWait) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  const auto target = find_output_target(path("pipe"), Replace::kOwn).value();
  EXPECT_EQ(target.kind, Kind::kInPlace);
  const auto opened = open_in_place(target, Opening::kAtOnce);
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("no process reads this pipe"));
}

TEST_F(OutputTargetTest, ADeviceIsWrittenInPlace) {
  ASSERT_TRUE(put("/dev/null", "gone"));
  EXPECT_EQ(fs::status("/dev/null").type(), fs::file_type::character);
  const auto full = put("/dev/full", "too much");
  ASSERT_FALSE(full);
  EXPECT_THAT(full.error().message, HasSubstr("No space left"));
  EXPECT_EQ(fs::status("/dev/full").type(), fs::file_type::character);
}

// What is written after it by others who have it open comes after it.
TEST_F(OutputTargetTest, AnOpenDescriptorIsWrittenWhereItStands) {
  const Descriptor out(open(path("out").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::write(out.number(), "before ", 7), 7);
  const std::string name = "/proc/self/fd/" + std::to_string(out.number());
  fs::create_symlink(name, path("link"));
  ASSERT_TRUE(put("/dev/fd/" + std::to_string(out.number()), "one "));
  ASSERT_TRUE(put(path("link"), "two "));
  ASSERT_EQ(::write(out.number(), "after", 5), 5);
  EXPECT_EQ(content("out"), "before one two after");
}

TEST_F(OutputTargetTest, FoldersAreRefused) {
  const auto found = find_output_target(folder_.string(), Replace::kAny);
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message, HasSubstr("is a folder: name a file in it"));
}

TEST_F(OutputTargetTest, DisksAreLeftAlone) {
  const std::string disk = path("disk");
  if (mknod(disk.c_str(), S_IFBLK | 0600, makedev(7, 250)) != 0)
    GTEST_SKIP() << "only root can make a device";
  EXPECT_THAT(refusal("disk"), HasSubstr("is a block device"));
  EXPECT_EQ(find_output_target(disk, Replace::kAny).value().kind, Kind::kInPlace);
}

TEST_F(OutputTargetTest, AFileThatCannotBeReadStays) {
  write("secret", kRecording);
  ASSERT_EQ(chmod(path("secret").c_str(), 0), 0);
  if (access(path("secret").c_str(), R_OK) == 0) GTEST_SKIP() << "root reads everything";
  EXPECT_THAT(refusal("secret"), HasSubstr("(Permission denied)"));
}

}  // namespace
}  // namespace vram
