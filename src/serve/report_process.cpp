#include "serve/report_process.hpp"

#include "base/text.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <string_view>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace vram::serve {
namespace {

constexpr int kRecording = 3;  // the descriptor in the process
constexpr int kNice = 15;
constexpr std::chrono::milliseconds kWaitPause{20};
constexpr size_t kMaxErrorBytes = 4096;

// What the new process needs, prepared before it is forked: after that, only calls that are safe in
// a copy of a program with several threads.
struct Prepared {
  std::vector<std::string> words;
  std::vector<char*> pointers;
  Descriptor output;
  Descriptor errors;
  int recording = -1;
  pid_t parent = 0;
};

bool set_limit(int what, uint64_t value) {
  const rlimit both{.rlim_cur = value, .rlim_max = value};
  return setrlimit(static_cast<__rlimit_resource_t>(what), &both) == 0;
}

// In the new process.
[[noreturn]] void become_report(const Prepared& prepared, const ReportLimits& limits) {
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != prepared.parent) _exit(127);
  sigset_t none{};
  sigemptyset(&none);
  (void)sigprocmask(SIG_SETMASK, &none, nullptr);
  (void)setpriority(PRIO_PROCESS, 0, kNice);
  const auto seconds =
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(limits.time).count());
  const bool has_limits = set_limit(RLIMIT_AS, limits.memory_bytes) && set_limit(RLIMIT_CORE, 0) &&
                          set_limit(RLIMIT_FSIZE, limits.output_bytes) &&
                          set_limit(RLIMIT_CPU, 4 * seconds + 1);
  // Descriptors above 3 are closed at exec.
  const bool has_files = dup2(prepared.output.number(), STDOUT_FILENO) >= 0 &&
                         dup2(prepared.errors.number(), STDERR_FILENO) >= 0 &&
                         dup2(prepared.recording, kRecording) >= 0 &&
                         fcntl(kRecording, F_SETFD, 0) == 0;
  if (has_limits && has_files) execv(prepared.words.front().c_str(), prepared.pointers.data());
  _exit(127);
}

Result<Descriptor> new_file(const std::string& path) {
  Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.is_open()) return fail(Code::kIo, "cannot write {}: {}", path, std::strerror(errno));
  return file;
}

// The last line of what it wrote, without its "error: ".
std::string report_error(const std::string& folder) {
  const auto text = read_whole(folder + "/errors", kMaxErrorBytes);
  std::string reason = text ? *text : "it wrote a long text of errors";
  while (reason.ends_with('\n')) reason.pop_back();
  constexpr std::string_view kError = "error: ";
  const size_t begin = reason.rfind(kError);
  if (begin != std::string::npos) reason.erase(0, begin + kError.size());
  return printable(reason);
}

// Its exit status; nothing: it was killed because its time was over or `must_end`.
std::optional<int> wait_for(pid_t pid, const ReportLimits& limits,
                            const std::atomic<bool>& must_end) {
  const auto deadline = std::chrono::steady_clock::now() + limits.time;
  int status = 0;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    if (must_end || std::chrono::steady_clock::now() > deadline) {
      (void)kill(pid, SIGKILL);
      (void)waitpid(pid, &status, 0);
      return std::nullopt;
    }
    std::this_thread::sleep_for(kWaitPause);
  }
  return status;
}

}  // namespace

Result<> run_report(const ReportRun& run, const Descriptor& recording, const ReportLimits& limits,
                    const std::atomic<bool>& must_end) {
  // So that the report shows its name.
  const std::string path = run.folder + "/" + run.name;
  (void)unlink(path.c_str());
  if (symlink(fmt::format("/proc/self/fd/{}", kRecording).c_str(), path.c_str()) != 0)
    return fail(Code::kIo, "cannot create {}: {}", path, std::strerror(errno));
  Prepared prepared;
  prepared.recording = recording.number();
  prepared.parent = getpid();
  prepared.words = {run.program, "report", path};
  prepared.words.insert(prepared.words.end(), run.arguments.begin(), run.arguments.end());
  for (std::string& word : prepared.words) prepared.pointers.push_back(word.data());
  prepared.pointers.push_back(nullptr);
  VRAM_TRY_ASSIGN(prepared.output, new_file(run.folder + "/output"));
  VRAM_TRY_ASSIGN(prepared.errors, new_file(run.folder + "/errors"));
  const pid_t pid = fork();
  if (pid < 0) return fail(Code::kIo, "cannot start vram report: {}", std::strerror(errno));
  if (pid == 0) become_report(prepared, limits);
  const auto status = wait_for(pid, limits, must_end);
  (void)unlink(path.c_str());
  if (!status)
    return fail(Code::kBadInput, "the report took longer than {} s and was ended",
                std::chrono::duration_cast<std::chrono::seconds>(limits.time).count());
  if (WIFEXITED(*status) && WEXITSTATUS(*status) == 0) return {};
  const std::string reason = report_error(run.folder);
  if (!reason.empty()) return fail(Code::kBadInput, "{}", reason);
  return fail(Code::kBadInput,
              "vram report ended without a result (status {}); perhaps it had too "
              "little memory",
              *status);
}

}  // namespace vram::serve
