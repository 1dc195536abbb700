// A program under test's own eyes: started with arguments, ended whatever happens; and the output
// of one that ends by itself.
#pragma once

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace vram::alerts::testing {

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
inline std::string output_of(const std::string& command) {
  std::string output;
  FILE* const pipe = popen(("timeout 60 " + command).c_str(), "re");
  if (pipe == nullptr) return output;
  std::array<char, 4096> part{};
  for (size_t got = 0; (got = fread(part.data(), 1, part.size(), pipe)) > 0;)
    output.append(part.data(), got);
  (void)pclose(pipe);
  return output;
}

}  // namespace vram::alerts::testing
