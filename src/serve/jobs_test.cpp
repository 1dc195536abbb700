#include "serve/jobs.hpp"

#include "base/testing/waiting.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <new>
#include <string>
#include <sys/resource.h>
#include <unistd.h>

namespace vram::serve {
namespace {

Json jobs_of(const Jobs& jobs) { return Json::parse(jobs.json())["jobs"]; }

TEST(Jobs, KeepWhatCameOfThem) {
  Jobs jobs([] { return int64_t{7}; });
  ASSERT_EQ(jobs.start("trim", {{"all", true}}, [] { return Json({{"freed_bytes", 5}}); }).value(),
            1U);
  ASSERT_TRUE(jobs.end(std::chrono::minutes(1)));
  ASSERT_TRUE(jobs.start("trim", {}, []() -> Result<Json> { return fail(Code::kIo, "no \xff"); }));
  ASSERT_TRUE(jobs.end(std::chrono::minutes(1)));
  ASSERT_TRUE(jobs.start("trim", {}, []() -> Result<Json> { throw std::bad_alloc(); }));
  ASSERT_TRUE(jobs.end(std::chrono::minutes(1)));
  const Json found = jobs_of(jobs);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[2]["state"], "done");
  EXPECT_EQ(found[2]["request"]["all"], true);
  EXPECT_EQ(found[2]["result"]["freed_bytes"], 5);
  EXPECT_EQ(found[2]["ended_unix_ns"], 7);
  EXPECT_EQ(found[1]["state"], "failed");
  EXPECT_FALSE(found[1]["error"].get<std::string>().empty());
  EXPECT_EQ(found[0]["state"], "failed");
}

TEST(Jobs, RunAtMostAFewAtOnce) {
  Jobs jobs([] { return int64_t{7}; });
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  for (size_t i = 0; i < Jobs::kMaxRunning; ++i)
    ASSERT_TRUE(jobs.start("trim", {}, [released]() -> Result<Json> {
      released.wait();
      return Json();
    }));
  EXPECT_EQ(jobs.start("trim", {}, [] { return Json(); }).error().code, Code::kIo);
  EXPECT_EQ(jobs_of(jobs)[0]["state"], "running");
  release.set_value();
  EXPECT_TRUE(jobs.end(std::chrono::minutes(1)));
  for (size_t i = 0; i < 2 * Jobs::kKept; ++i) {
    ASSERT_TRUE(jobs.start("trim", {}, [] { return Json(); }));
    ASSERT_TRUE(jobs.end(std::chrono::minutes(1)));
  }
  EXPECT_EQ(jobs_of(jobs).size(), Jobs::kKept);
}

// A limit of processes, which holds for other users than root.
TEST(Jobs, AThreadThatCannotStartIsAnErrorAndNoRunningJob) {
  const pid_t child = fork();
  if (child == 0) {
    Jobs jobs([] { return int64_t{7}; });
    constexpr uid_t kNobody = 65534;
    if (geteuid() == 0 && setresuid(kNobody, kNobody, kNobody) != 0) _exit(3);
    rlimit before{};
    (void)getrlimit(RLIMIT_NPROC, &before);
    const rlimit none{0, before.rlim_max};
    for (size_t i = 0; i <= Jobs::kMaxRunning; ++i) {
      (void)setrlimit(RLIMIT_NPROC, &none);
      const auto started = jobs.start("trim", {}, [] { return Json(); });
      (void)setrlimit(RLIMIT_NPROC, &before);
      if (started || started.error().message.find("thread") == std::string::npos) _exit(1);
    }
    const bool is_empty = jobs_of(jobs).empty();
    const bool starts = jobs.start("trim", {}, [] { return Json(); }).has_value();
    _exit(is_empty && starts && jobs.end(std::chrono::minutes(1)) ? 0 : 2);
  }
  EXPECT_EQ(status_of_child(child), 0);
}

}  // namespace
}  // namespace vram::serve
