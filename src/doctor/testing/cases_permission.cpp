#include "doctor/testing/cases.hpp"

#include <algorithm>
#include <array>

namespace vram::doctor::testing {
namespace {

constexpr auto kPermissionCases = std::to_array<Case>(
    {{"permissions.nodes_missing", take_nodes_away,
      [](Facts& f) {
        put_into_container(f);
        take_nodes_away(f);
      }},
     {"permissions.uvm_missing",
      [](Facts& f) {
        std::erase_if(f.nvidia.nodes,
                      [](const DeviceNode& node) { return node.path == "/dev/nvidia-uvm"; });
        break_cuda(f, 999);
      },
      [](Facts& f) { break_cuda(f, 999); }},
     {"permissions.nvidia_denied", [](Facts& f) { f.nvidia.nodes[0].refused = EACCES; },
      [](Facts& f) { f.nvidia.nodes[0].refused = EPERM; }},
     {"permissions.dri_denied", [](Facts& f) { have_amd(f, EACCES); },
      [](Facts& f) { have_amd(f, 0); }},
     {"permissions.kfd_denied", [](Facts& f) { have_amd(f, EACCES); },
      [](Facts& f) { have_amd(f, 0); }},
     {"permissions.shared_memory", [](Facts& f) { f.shared_memory.is_writable = false; }, nothing},
     {"permissions.board_folder",
      [](Facts& f) {
        f.boards = {{.path = "/dev/shm/vram-1000", .exists = true, .uid = 1000U, .mode = 0755U}};
      },
      [](Facts& f) {
        f.boards = {{.path = "/dev/shm/vram-1000", .exists = true, .uid = 1000U, .mode = 0700U}};
      }},
     {"permissions.processes_hidden", [](Facts& f) { f.platform.hides_processes = true; },
      [](Facts& f) {
        f.platform.hides_processes = true;
        f.process.uid = 0;
      }},
     {"permissions.ptrace",
      [](Facts& f) {
        f.platform.ptrace_scope = 1;
        torch(f, "expandable_segments:True");
      },
      [](Facts& f) { f.platform.ptrace_scope = 1; }},
     {"permissions.environment_hidden",
      [](Facts& f) {
        f.process.pid = 77;
        f.process.is_environment_known = false;
      },
      [](Facts& f) { f.process.pid = 77; }},
     {"permissions.good", nothing, [](Facts& f) { f.nvidia.nodes[0].refused = EACCES; }}});

}  // namespace

std::span<const Case> permission_cases() { return kPermissionCases; }

}  // namespace vram::doctor::testing
