// MachineFacts: facts of this machine and of the examined process, without judgement. Made by
// collect() (collect.hpp), or by hand in tests; read by the checks. Plain values; what could not be
// read is absent, and no check treats absent as wrong.
#pragma once

#include "gpu/telemetry.hpp"
#include "watch/reclaim.hpp"
#include "watch/snapshot.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace vram::doctor {

// A device file under /dev.
struct DeviceNode {
  std::string path;
  bool exists = false;
  std::optional<uint32_t> mode = std::nullopt;  // the permission bits
  std::optional<std::string> group = std::nullopt;
  int refused = 0;  // why it may not be opened for reading and writing: EACCES, EPERM; 0: it may
};

// A GPU in the bus's list, with any driver.
struct PciGpu {
  std::string pci_id;  // "0000:19:00.0"
  gpu::Vendor vendor = gpu::Vendor::kNvidia;
  uint32_t chip = 0;     // PCI's number of it
  std::string driver;    // the kernel's; "": none has it
  bool is_gone = false;  // answers all ones: it fell off the bus
};

struct LibraryFile {
  std::string path;
  std::string name;     // "libnvidia-ml", "libcuda"
  std::string version;  // "535.54.03", of its file's name
};

// The result of a call to the driver's libraries.
struct LibraryAnswer {
  bool was_asked = false;
  bool is_hanging = false;      // no answer within the time it was given
  std::string load_error = {};  // "": it was opened
  int error = 0;                // of its first call
  std::string error_text = {};
  std::optional<uint32_t> devices = std::nullopt;
  std::string version = {};  // the driver's, from NVML; CUDA's, as "13.0"
};

struct NvidiaFacts {
  bool has_module = false;  // loaded
  bool has_uvm_module = false;
  bool has_module_file = false;    // built for the kernel that runs
  bool has_module_source = false;  // DKMS could build it
  std::string module_version;      // "580.95.05"; "": unknown
  std::optional<bool> is_open;     // NVIDIA's open kernel modules
  std::vector<DeviceNode> nodes;   // /dev/nvidiactl, /dev/nvidia-uvm, /dev/nvidia0, …
  std::vector<LibraryFile> libraries;
  LibraryAnswer nvml;
  LibraryAnswer cuda;
};

// An AMD or Intel card with a driver.
struct DrmFacts {
  std::string pci_id;
  std::string driver;  // "amdgpu", "i915", "xe"
  DeviceNode node;     // /dev/dri/renderD128
};

struct PlatformFacts {
  std::string kernel;  // "6.8.0-45-generic"
  bool is_wsl = false;
  bool has_dxg = false;              // /dev/dxg, WSL's way to the GPU
  bool has_wsl_library = false;      // /usr/lib/wsl/lib/libcuda.so.1
  std::optional<std::string> board;  // "NVIDIA Jetson AGX Orin", if the GPU is part of it
  std::optional<bool> secure_boot;
  std::optional<bool> has_display;  // a monitor is connected to a GPU
  bool has_infiniband = false;
  std::optional<uint32_t> overcommit;  // /proc/sys/vm/overcommit_memory
  std::optional<uint64_t> memory_bytes;
  std::optional<uint64_t> swap_bytes;
  std::optional<uint32_t> ptrace_scope;
  bool hides_processes = false;  // /proc is mounted with hidepid
  bool has_persistenced = false;
};

struct ContainerFacts {
  bool is_inside = false;
  std::string runtime;  // "docker", "kubernetes", …; "": unknown
  std::optional<bool> is_host_pid_namespace;
  std::optional<uint64_t> memory_limit_bytes;  // of the control group; absent: no limit
};

// A folder of shared memory.
struct FolderFacts {
  std::string path;
  bool exists = false;
  bool is_writable = false;
  std::optional<uint32_t> uid = std::nullopt;
  std::optional<uint32_t> mode = std::nullopt;
  std::optional<uint64_t> total_bytes = std::nullopt;  // of the file system
  std::optional<uint64_t> free_bytes = std::nullopt;
};

struct MpsFacts {
  std::optional<uint32_t> processes;  // control daemon and servers that can be seen
  std::string pipe_folder;            // where clients search for the daemon
  bool has_pipe = false;              // the pipe exists
};

// A limit of the process; absent: unlimited, or unknown.
struct LimitFacts {
  std::optional<uint64_t> address_space_bytes;
  std::optional<uint64_t> locked_bytes;
  std::optional<uint64_t> open_files;
  std::optional<uint64_t> max_open_files;  // to which it may raise the limit itself
};

struct PreloadedFile {
  std::string path;
  bool exists = false;
};

// The process whose environment is examined: this one, or another by --pid.
struct ProcessFacts {
  std::optional<uint32_t> pid;  // another's
  std::optional<uint32_t> uid;
  std::map<std::string, std::string> environment;
  bool is_environment_known = false;
  std::vector<PreloadedFile> preloaded;  // LD_PRELOAD
  LimitFacts limits;
};

// A kind of NVIDIA's error reports in the kernel's log, by GPU.
struct LoggedXid {
  std::string pci_id;
  uint32_t xid = 0;
  uint64_t count = 0;
  std::string last;  // the text of the last one
};

struct MachineFacts {
  std::vector<PciGpu> gpus;
  NvidiaFacts nvidia;
  std::vector<DrmFacts> drm;
  std::optional<DeviceNode> kfd;  // where an AMD card is
  PlatformFacts platform;
  ContainerFacts container;
  FolderFacts shared_memory;        // /dev/shm
  std::vector<FolderFacts> boards;  // folders of vram's board that exist
  MpsFacts mps;
  ProcessFacts process;
  std::optional<std::vector<LoggedXid>> xids;  // absent: the kernel's log may not be read
  std::optional<watch::Snapshot> snapshot;     // absent: no sample was taken
  std::optional<watch::Reclaimable> holders;
};

}  // namespace vram::doctor
