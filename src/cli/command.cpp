#include "cli/command.hpp"

namespace vram::cli {

std::vector<std::unique_ptr<Command>> all_commands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(demo_command());
  commands.push_back(report_command());
  commands.push_back(replay_command());
  commands.push_back(tune_command());
  commands.push_back(convert_command());
  commands.push_back(run_command());
  commands.push_back(status_command());
  commands.push_back(top_command());
  commands.push_back(free_command());
  commands.push_back(doctor_command());
  commands.push_back(serve_command());
  return commands;
}

}  // namespace vram::cli
