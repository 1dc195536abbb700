// Alerts over kill -9 at every moment. A child lives through two alerts, from the first sign to the
// end, and is killed at its first call that others can see (it writes the history or the log, talks
// to a receiver), then at its second, and so on to the last; others go on where it was. In the end
// every receiver has received each beginning and each end.
#include "alerts/alert_engine.hpp"
#include "alerts/testing/delivery.hpp"
#include "alerts/testing/samples.hpp"
#include "base/json.hpp"
#include "base/time.hpp"
#include "history/testing/history_samples.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace vram::alerts {
namespace {

using alerts::testing::kBeginning;
using history::testing::Folder;
using testing::answer_with;
using testing::StubServer;
using ::testing::UnorderedElementsAre;

constexpr const char* kFolderVariable = "VRAM_TEST_LIFE";
constexpr const char* kUrlsVariable = "VRAM_TEST_LIFE_URLS";  // two webhooks', an Alertmanager's
constexpr uint64_t kPeriodS = 10;
constexpr uint64_t kIllFromS = 20;
constexpr uint64_t kIllToS = 60;
constexpr uint64_t kEndS = 100;
constexpr const char* kRules = R"(
[rules.memory-full]
for = "0s"
clear_for = "0s"
[rules.memory-almost-full]
enabled = false
[rules.temperature]
for = "20s"
clear_for = "20s"
)";

// The second that a child has come to, for the one after it; written without a call.
class Progress {
 public:
  explicit Progress(const std::string& folder) {
    const int file = open((folder + "/progress").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    EXPECT_EQ(ftruncate(file, sizeof(*second_)), 0);
    second_ = static_cast<std::atomic<uint64_t>*>(
        mmap(nullptr, sizeof(*second_), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    EXPECT_NE(second_, MAP_FAILED);
    (void)close(file);
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { munmap(second_, sizeof(*second_)); }
  std::atomic<uint64_t>& second() { return *second_; }

 private:
  std::atomic<uint64_t>* second_ = nullptr;
};

watch::Sampled seen_at(uint64_t second) {
  watch::Sampled sampled;
  sampled.begin_ns = second * kSecondNs;
  sampled.snapshot.time_ns = kBeginning + static_cast<int64_t>(sampled.begin_ns);
  sampled.snapshot.host = "node17";
  watch::Device device = alerts::testing::healthy_device();
  if (second >= kIllFromS && second < kIllToS) {
    device.sample.memory = {100 * kGiB, 99 * kGiB, 0, kGiB};
    device.sample.celsius = 95;
  }
  sampled.snapshot.devices.push_back(std::move(device));
  return sampled;
}

AlertEngineOptions desk_options(const std::string& folder, uint64_t second) {
  AlertEngineOptions options;
  options.rules_file = folder + "/rules.toml";
  std::istringstream urls(std::getenv(kUrlsVariable));
  NotifierOptions& receivers = options.receivers;
  receivers.webhooks.resize(2);
  receivers.alertmanagers.resize(1);
  urls >> receivers.webhooks[0] >> receivers.webhooks[1] >> receivers.alertmanagers[0];
  receivers.first_pause = receivers.max_pause = std::chrono::milliseconds(1);
  receivers.log = LogForm::kJson;
  const int log = open((folder + "/log").c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  receivers.write = [log](std::string_view line) {
    const std::string whole = fmt::format("{}\n", line);
    (void)!write(log, whole.data(), whole.size());
  };
  options.host = "node17";
  options.history =
      std::make_shared<history::History>(history::testing::opened(folder + "/history.db"));
  options.now = {.now_ns = second * kSecondNs,
                 .unix_ns = kBeginning + static_cast<int64_t>(second * kSecondNs),
                 .boot = 1};
  return options;
}

// What is killed: samples from where the one before it was, and ends by itself.
TEST(AlertLife, DISABLED_IsLived) {
  const char* const folder = std::getenv(kFolderVariable);
  if (folder == nullptr) GTEST_SKIP();
  Progress progress(folder);
  {
    const auto alert_engine = AlertEngine::open(desk_options(folder, progress.second())).value();
    for (; progress.second() <= kEndS; progress.second() += kPeriodS) {
      alert_engine->judge(seen_at(progress.second()));
      usleep(2000);  // receivers are notified meanwhile, as a rule
    }
  }
  _exit(0);
}

// Calls that others see.
constexpr std::array kCalls = {SYS_pwrite64, SYS_write,   SYS_ftruncate, SYS_fdatasync,
                               SYS_fsync,    SYS_sendmsg, SYS_sendto,    SYS_recvmsg,
                               SYS_recvfrom, SYS_connect, SYS_unlinkat,  SYS_exit_group};

pid_t start_traced() {
  std::string filter = "--gtest_filter=AlertLife.*";
  std::string also = "--gtest_also_run_disabled_tests";
  std::string program = "/proc/self/exe";
  char* const arguments[] = {program.data(), filter.data(), also.data(), nullptr};
  const pid_t child = fork();
  if (child != 0) return child;
  const int nowhere = open("/dev/null", O_WRONLY);
  (void)dup2(nowhere, STDOUT_FILENO);
  (void)ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
  execv(program.c_str(), arguments);
  _exit(127);
}

// The number of the call of that kind which a thread begins.
std::optional<int> seen_by_others(pid_t thread) {
  __ptrace_syscall_info info{};
  if (ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof info, &info) <= 0) return std::nullopt;
  if (info.op != PTRACE_SYSCALL_INFO_ENTRY) return std::nullopt;
  const auto found = std::ranges::find(kCalls, static_cast<int>(info.entry.nr));
  return found == kCalls.end() ? std::nullopt : std::optional(*found);
}

// A child until before the moment of this number; false: it has ended before. Calls of the same
// kind after one another are one moment: a write of the history is complete or absent, of which
// history_faults_test.cpp makes sure.
bool lives_until(size_t moment) {
  constexpr int kCallStop = SIGTRAP | 0x80;
  constexpr long kOptions = PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE;
  const pid_t child = start_traced();
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSTOPPED(status)) << "it may not be traced";
  (void)ptrace(PTRACE_SETOPTIONS, child, nullptr, kOptions);
  (void)ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
  size_t moments = 0;
  int last = -1;
  while (true) {
    const pid_t thread = waitpid(-1, &status, __WALL);
    if (thread < 0) throw std::runtime_error("waitpid: the child is gone");
    if (thread == child && !WIFSTOPPED(status)) return WIFSIGNALED(status);
    if (!WIFSTOPPED(status)) continue;
    const int signal = WSTOPSIG(status);
    const auto call = signal == kCallStop ? seen_by_others(thread) : std::nullopt;
    if (call && std::exchange(last, *call) != *call && ++moments == moment) kill(child, SIGKILL);
    const bool is_of_tracing = signal == kCallStop || signal == SIGTRAP || signal == SIGSTOP;
    (void)ptrace(PTRACE_SYSCALL, thread, nullptr, is_of_tracing ? 0L : long{signal});
  }
}

// Of one whose sender was killed meanwhile: discarded.
Json document_of(const std::string& request) {
  const size_t head = request.find("\r\n\r\n");
  return Json::parse(head == std::string::npos ? "" : request.substr(head + 4), nullptr, false);
}

// The alerts in a document of a webhook: "firing temperature/… 1795…".
void add_alerts(const std::string& request, std::set<std::string>& told) {
  const Json body = document_of(request);
  if (body.is_discarded()) return;
  for (const Json& alert : body["alerts"])
    told.insert(
        fmt::format("{} {} {}", alert["state"].get<std::string>(), alert["rule"].get<std::string>(),
                    (alert["started_unix_ns"].get<int64_t>() - kBeginning) / kSignedSecondNs));
}

// What a test's receivers heard of one life.
struct Heard {
  std::set<std::string> well;    // by a webhook that takes all
  std::set<std::string> seldom;  // by one that takes each second document
  std::set<std::string> log;
  std::set<std::string> open;  // what the Alertmanager has to take for firing
};

class Life {
 public:
  Life()
      : well_([](size_t) { return answer_with(200); }),
        seldom_([](size_t number) { return answer_with(number % 2 == 0 ? 503 : 200); }),
        manager_([](size_t) { return answer_with(200); }) {
    std::ofstream(folder_.file("rules.toml")) << kRules;
    setenv(kFolderVariable, folder_.path().c_str(), 1);
    setenv(kUrlsVariable,
           fmt::format("{} {} {}", well_.url("/a"), seldom_.url("/b"), manager_.url()).c_str(), 1);
  }
  Life(const Life&) = delete;
  Life& operator=(const Life&) = delete;
  ~Life() {
    unsetenv(kFolderVariable);
    unsetenv(kUrlsVariable);
  }

  // Until all is delivered that is to be delivered.
  void live_to_its_end() {
    constexpr int kMaxTries = 20;
    for (int i = 0; i < kMaxTries; ++i) {
      EXPECT_FALSE(lives_until(SIZE_MAX));
      const std::string outbox = history::testing::opened(folder_.file()).kept("alert outbox");
      if (Json::parse(outbox)["news"].empty()) return;
    }
    ADD_FAILURE() << "somebody is owed something for ever";
  }

  Heard heard() {
    Heard heard;
    for (const std::string& request : well_.wait_for(0)) add_alerts(request, heard.well);
    const auto seldom = seldom_.wait_for(0);
    for (size_t i = 1; i < seldom.size(); i += 2) add_alerts(seldom[i], heard.seldom);
    std::ifstream log(folder_.file("log"));
    for (std::string line; std::getline(log, line);) {
      const Json json = Json::parse(line);
      heard.log.insert(json["event.action"].get<std::string>() + " " +
                       json["rule.name"].get<std::string>());
    }
    for (const std::string& request : manager_.wait_for(0)) {
      const Json body = document_of(request);
      if (body.is_discarded()) continue;
      for (const Json& alert : body) {
        const std::string rule = alert["labels"]["alertname"];
        if (alert["annotations"].contains("ending"))
          heard.open.erase(rule);
        else
          heard.open.insert(rule);
      }
    }
    return heard;
  }

 private:
  Folder folder_;
  StubServer well_;
  StubServer seldom_;
  StubServer manager_;
};

void expect_all(const Heard& heard) {
  const auto all = UnorderedElementsAre("firing memory-full 20", "resolved memory-full 20",
                                        "firing temperature 40", "resolved temperature 40");
  EXPECT_THAT(heard.well, all);
  EXPECT_THAT(heard.seldom, all);
  EXPECT_THAT(heard.log, UnorderedElementsAre("firing memory-full", "resolved memory-full",
                                              "firing temperature", "resolved temperature"));
  EXPECT_THAT(heard.open, ::testing::IsEmpty());
}

TEST(AlertKills, WheneverItIsKilledEachReceiverIsToldOfEachBeginningAndEnd) {
  constexpr size_t kFewestMoments = 30;
  size_t moment = 1;
  for (bool was_killed = true; was_killed && !HasFailure(); ++moment) {
    SCOPED_TRACE(fmt::format("killed at moment {}", moment));
    Life life;
    was_killed = lives_until(moment);
    (void)lives_until(moment / 2 + 1);  // the next one does not come far either
    life.live_to_its_end();
    expect_all(life.heard());
  }
  EXPECT_GE(moment, kFewestMoments);
  RecordProperty("moments", static_cast<int>(moment));
}

}  // namespace
}  // namespace vram::alerts
