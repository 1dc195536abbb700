#include "serve/log.hpp"

#include "base/json.hpp"
#include "base/testing/hostile_text.hpp"
#include "base/threads.hpp"
#include "show/testing/sample_snapshot.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fcntl.h>
#include <memory>
#include <unistd.h>

namespace vram::serve {
namespace {

using show::testing::kSnapshotTime;

TEST(LogLine, HasTheNamesOfTheElasticCommonSchema) {
  const LogEvent event{.level = LogLevel::kWarning,
                       .action = "source-note",
                       .message = "nvml: gone",
                       .fields = {{"client.address", "127.0.0.1:1"}, {"vram.count", int64_t{3}}}};
  const std::string line = log_line(event, LogFormat::kJson, "gpu01", kSnapshotTime);
  EXPECT_EQ(line.back(), '\n');
  const auto json = Json::parse(line);
  EXPECT_EQ(json["@timestamp"], "2026-11-22T09:14:05.000Z");
  EXPECT_EQ(json["log.level"], "warn");
  EXPECT_EQ(json["message"], "nvml: gone");
  EXPECT_EQ(json["event.action"], "source-note");
  EXPECT_EQ(json["service.name"], "vram");
  EXPECT_EQ(json["host.name"], "gpu01");
  EXPECT_EQ(json["process.pid"], getpid());
  EXPECT_EQ(json["client.address"], "127.0.0.1:1");
  EXPECT_EQ(json["vram.count"], 3);
}

TEST(LogLine, IsTextForPeople) {
  EXPECT_EQ(log_line({.action = "started", .message = "here"}, LogFormat::kText, "gpu01",
                     kSnapshotTime + 7'000'000),
            "2026-11-22T09:14:05.007Z info  started: here\n");
}

// The author of the text can neither forge a line nor move the cursor.
TEST(LogLine, StaysOneLineOfPlainTextWhateverItHolds) {
  const LogEvent event{.action = "note",
                       .message = vram::testing::hostile_text() + "\n{\"forged\":1}\x1b[2J\xff"};
  for (const LogFormat format : {LogFormat::kText, LogFormat::kJson}) {
    const std::string line = log_line(event, format, "h", kSnapshotTime);
    EXPECT_EQ(line.find('\n'), line.size() - 1);
    EXPECT_EQ(line.find('\x1b'), std::string::npos);
  }
  EXPECT_TRUE(Json::accept(log_line(event, LogFormat::kJson, "h", kSnapshotTime)));
}

class LogPipe : public ::testing::Test {
 protected:
  LogPipe() { EXPECT_EQ(pipe2(ends_.data(), O_NONBLOCK), 0); }
  ~LogPipe() override {
    for (const int end : ends_) close(end);
  }
  std::string read_all() const {
    std::string all;
    std::array<char, 65536> buffer{};
    while (true) {
      const ssize_t count = read(ends_[0], buffer.data(), buffer.size());
      if (count <= 0) return all;
      all.append(buffer.data(), static_cast<size_t>(count));
    }
  }
  static size_t lines(const std::string& text) {
    return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
  }
  std::array<int, 2> ends_{};
};

TEST_F(LogPipe, AStormOfAKindIsAFewLines) {
  Log log(LogFormat::kText, "h", ends_[1]);
  for (int i = 0; i < 1000; ++i) log.write_rate_limited({.action = "a", .message = "x"});
  log.write_rate_limited({.action = "b", .message = "y"});
  const std::string text = read_all();
  EXPECT_LE(lines(text), 11U);  // five a budget of ten seconds, should one end meanwhile
  EXPECT_NE(text.find("b: y"), std::string::npos);
}

TEST_F(LogPipe, AReaderThatDoesNotReadMakesNobodyWait) {
  Log log(LogFormat::kText, "h", ends_[1]);
  for (int i = 0; i < 5000; ++i) log.write({.action = "a", .message = std::string(900, 'x')});
  const std::string first = read_all();
  EXPECT_LT(lines(first), 5000U);
  log.write({.action = "z", .message = "after"});
  const std::string text = read_all();
  EXPECT_EQ(lines(text), 2U);
  EXPECT_NE(text.find(std::to_string(5000 - lines(first)) +
                      " lines were dropped because nothing read the log"),
            std::string::npos);
  EXPECT_NE(text.find("z: after"), std::string::npos);
}

// As standard error is: a write of more than the pipe takes would wait for its reader.
TEST_F(LogPipe, ALineLongerThanThePipeMakesNobodyWait) {
  EXPECT_EQ(fcntl(ends_[1], F_SETPIPE_SZ, 4096), 4096);
  EXPECT_EQ(fcntl(ends_[1], F_SETFL, 0), 0);
  const auto log = std::make_shared<Log>(LogFormat::kText, "h", ends_[1]);
  const std::string line(10'000, 'x');
  DetachableThread writing([log, line] { log->write_line(line); });
  ASSERT_TRUE(writing.join_for(std::chrono::seconds(20)));
  std::string text;
  for (int i = 0; i < 10; ++i) {
    text += read_all();
    log->write_line("later");
  }
  EXPECT_TRUE(text.starts_with(line + "\n")) << text.substr(line.size());
  EXPECT_NE(text.find(" lines were dropped because nothing read the log\nlater\n"),
            std::string::npos);
}

}  // namespace
}  // namespace vram::serve
