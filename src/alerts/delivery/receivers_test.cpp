// A real Alertmanager (Debian's package) receives what a Judge finds: the alert shows there with
// its labels, and is gone when it is resolved. amtool is the eye: it asks the API.
#include "alerts/delivery/notifier.hpp"
#include "alerts/judge/judge.hpp"
#include "alerts/testing/delivery.hpp"
#include "base/json.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <optional>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace vram::alerts {
namespace {

using testing::kTimeout;

// A program under test's own eyes: started with arguments, ended whatever happens; and the output
// of one that ends by itself.
class Program {
 public:
  // Its output goes to a file.
  Program(std::vector<std::string> words, const std::string& log) {
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                           0600);
    (void)posix_spawn_file_actions_adddup2(&actions, 1, 2);
    if (posix_spawnp(&pid_, arguments[0], &actions, nullptr, arguments.data(), environ) != 0)
      pid_ = -1;
    (void)posix_spawn_file_actions_destroy(&actions);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    if (pid_ < 0) return;
    (void)kill(pid_, SIGKILL);
    (void)waitpid(pid_, nullptr, 0);
  }

  // Nothing: there is no such program.
  bool has_started() const { return pid_ > 0; }

 private:
  pid_t pid_ = -1;
};

// Returns a command's output; the words need no quoting. A command that hangs is killed after a
// minute.
std::string output_of(const std::string& command) {
  std::string output;
  FILE* const pipe = popen(("timeout 60 " + command).c_str(), "re");
  if (pipe == nullptr) return output;
  std::array<char, 4096> part{};
  for (size_t got = 0; (got = fread(part.data(), 1, part.size(), pipe)) > 0;)
    output.append(part.data(), got);
  (void)pclose(pipe);
  return output;
}

constexpr const char* kConfig = R"(
route:
  receiver: nobody
  group_wait: 0s
receivers:
  - name: nobody
)";

// A port that was free a moment ago.
unsigned free_port() {
  const testing::StubServer taken([](size_t) { return ""; });
  const std::string url = taken.url("");
  return static_cast<unsigned>(std::stoul(url.substr(url.rfind(':') + 1)));
}

class AlertmanagerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ("vram-alertmanager-test-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / "am.yml") << kConfig;
    // Another may take the port between: then another port.
    for (int tries = 0; tries < 5 && !is_up(); ++tries) start();
    if (!alertmanager_->has_started()) GTEST_SKIP() << "prometheus-alertmanager is not installed";
    ASSERT_TRUE(is_up()) << output_of("cat " + (folder_ / "log").string());
  }
  void TearDown() override {
    notifier_.reset();
    alertmanager_.reset();
    std::filesystem::remove_all(folder_);
  }

  void start() {
    url_ = "http://127.0.0.1:" + std::to_string(free_port());
    alertmanager_.emplace(
        std::vector<std::string>{"prometheus-alertmanager",
                                 "--config.file=" + (folder_ / "am.yml").string(),
                                 "--storage.path=" + (folder_ / "data").string(),
                                 "--web.listen-address=" + url_.substr(7),
                                 "--web.route-prefix=/alerts-of-gpus", "--cluster.listen-address="},
        (folder_ / "log").string());
    if (!alertmanager_->has_started()) return;
    const auto deadline = std::chrono::steady_clock::now() + kTimeout / 4;
    while (!is_up() && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }

  std::string api() const { return url_ + "/alerts-of-gpus"; }
  std::string amtool(const std::string& words) const {
    return output_of("amtool --alertmanager.url=" + api() + " " + words + " 2>/dev/null");
  }
  bool is_up() const { return alertmanager_ && !amtool("cluster show").empty(); }

  // The alerts there, once there are so many.
  Json wait_for(size_t count) const {
    const auto deadline = std::chrono::steady_clock::now() + kTimeout;
    while (true) {
      const Json alerts = Json::parse(amtool("alert query -o json"), nullptr, false);
      if (alerts.is_array() && alerts.size() == count) return alerts;
      if (std::chrono::steady_clock::now() > deadline) return alerts;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }

  void open_notifier() {
    NotifierOptions options;
    options.log = LogForm::kNone;
    options.timeout = kTimeout;
    std::string url = api();
    options.alertmanagers = {url.insert(7, "ann:s3cret@")};  // it accepts any user
    options.link = "http://node17:9877/";
    notifier_ = Notifier::open(options).value();
  }

  // A device whose driver asks for a reset, or not: looked at now.
  void sample(bool is_ill) {
    watch::Sampled sampled;
    watch::Snapshot& snapshot = sampled.snapshot;
    snapshot.host = "node17";
    snapshot.time_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                           std::chrono::system_clock::now().time_since_epoch())
                           .count();
    watch::Device& device = snapshot.devices.emplace_back();
    device.identity.name = "NVIDIA \"H200\"";
    device.identity.uuid = "GPU-0000";
    device.health.recovery_action = is_ill ? "reset" : "none";
    sampled.begin_ns = now_ns_ += 2 * kMinuteNs;
    AlertUpdate update;
    update.moment = {snapshot.time_ns, snapshot.host};
    update.changes = judge_.judge(sampled);
    update.alerts = judge_.alerts();
    notifier_->publish(update);
  }

  std::filesystem::path folder_;
  std::string url_;
  std::optional<Program> alertmanager_;
  std::unique_ptr<Notifier> notifier_;
  Judge judge_{RuleBook::parse("[rules.recovery-action]\nclear_for = \"0s\"\n"
                               "labels = { team = \"ml\" }\n",
                               "r")
                   .value()};
  uint64_t now_ns_ = kHourNs;
};

TEST_F(AlertmanagerTest, ShowsWhatFiresUntilItIsResolved) {
  open_notifier();
  sample(true);
  const Json alerts = wait_for(1);
  ASSERT_EQ(alerts.size(), 1U);
  const Json& alert = alerts[0];
  EXPECT_EQ(alert["labels"], Json({{"alertname", "recovery-action"},
                                   {"gpu", "0"},
                                   {"instance", "node17"},
                                   {"severity", "critical"},
                                   {"team", "ml"},
                                   {"uuid", "GPU-0000"}}));
  EXPECT_EQ(alert["annotations"]["summary"], "GPU 0 (NVIDIA \"H200\"): the driver asks for: reset");
  EXPECT_EQ(alert["generatorURL"], "http://node17:9877/");
  EXPECT_EQ(alert["status"]["state"], "active");
  EXPECT_LT(alert["startsAt"].get<std::string>(), alert["endsAt"].get<std::string>());
  EXPECT_THAT(amtool("alert query team=ml severity=critical"),
              ::testing::HasSubstr("recovery-action"));
  sample(false);
  sample(false);
  EXPECT_EQ(wait_for(0).size(), 0U);
  const ReceiverState state = notifier_->receivers().at(1);
  EXPECT_EQ(state.failed, 0U) << state.trouble;
  EXPECT_EQ(state.name, url_);
}

}  // namespace
}  // namespace vram::alerts
