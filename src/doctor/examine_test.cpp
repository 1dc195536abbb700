// Each finding by a machine that has it and one that is as near to it as can be and has not; and
// what a finding says where the words matter.
#include "doctor/examine.hpp"

#include "doctor/testing/machines.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <set>

namespace vram::doctor {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using namespace testing;
using Facts = MachineFacts;

struct Case {
  std::string_view id;
  void (*ill)(Facts&);
  void (*well)(Facts&);
};

void be_a_wsl(Facts& f) {
  f.platform.is_wsl = true;
  f.platform.kernel = "5.15.153.1-microsoft-standard-WSL2";
  f.platform.has_dxg = true;
  f.platform.has_wsl_library = true;
  f.gpus.clear();
  f.nvidia.has_module = false;
  f.nvidia.nodes.clear();
}

void have_amd(Facts& f, int refused) {
  f.gpus = {{"0000:03:00.0", gpu::Vendor::kAmd, 0x744c, "amdgpu"}};
  f.nvidia = {};
  f.snapshot->devices.front().identity.vendor = gpu::Vendor::kAmd;
  f.snapshot->devices.pop_back();
  f.drm = {{"0000:03:00.0", "amdgpu", {"/dev/dri/renderD128", true, 0660U, "render", refused}}};
  f.kfd = DeviceNode{"/dev/kfd", true, 0660U, "render", refused};
}

void be_mig(Facts& f, size_t parts) {
  first_device(f).health.is_mig = true;
  for (uint32_t i = 0; i < parts; ++i) {
    gpu::MigInstance part;
    part.gpu_instance = i;
    part.uuid = "MIG-" + std::to_string(i);
    first_device(f).health.mig_instances.push_back(part);
  }
}

void log_xid(Facts& f, uint32_t xid) { f.xids->push_back({"0000:19:00", xid, 2, "79, GPU"}); }

void add_holder(Facts& f, bool is_gone, bool is_idle) {
  watch::Holder holder;
  holder.facts.pid = 4711;
  holder.held_bytes = 3 * kGiB;
  holder.is_gone = is_gone;
  holder.is_idle = is_idle;
  f.holders->holders.push_back(holder);
}

constexpr const char* kTorch = "PYTORCH_CUDA_ALLOC_CONF";
void torch(Facts& f, const std::string& value) { set(f, kTorch, value); }
void nothing(Facts&) {}

const std::vector<Case>& driver_cases() {
  static const std::vector<Case> kCases = {
      {"platform.no_gpu",
       [](Facts& f) {
         take_driver_away(f);
         f.gpus.clear();
       },
       [](Facts& f) { take_driver_away(f); }},
      {"platform.gpu_passthrough", [](Facts& f) { f.gpus[1].driver = "vfio-pci"; }, nothing},
      {"platform.gpu_without_driver",
       [](Facts& f) {
         have_amd(f, 0);
         f.gpus[0].driver.clear();
       },
       [](Facts& f) { have_amd(f, 0); }},
      {"platform.old_kernel",
       [](Facts& f) {
         have_amd(f, 0);
         f.platform.kernel = "5.13.19-generic";
       },
       [](Facts& f) {
         have_amd(f, 0);
         f.platform.kernel = "5.14.0-generic";
       }},
      {"platform.unified_memory", [](Facts& f) { first_device(f).identity.name = "NVIDIA GB10"; },
       [](Facts& f) { first_device(f).identity.name = "NVIDIA GB200"; }},
      {"platform.wsl_no_gpu_device",
       [](Facts& f) {
         be_a_wsl(f);
         f.platform.has_dxg = false;
       },
       be_a_wsl},
      {"platform.wsl_library_path",
       [](Facts& f) {
         be_a_wsl(f);
         f.nvidia.nvml.load_error = "not found";
       },
       be_a_wsl},
      {"platform.wsl_old_kernel",
       [](Facts& f) {
         be_a_wsl(f);
         f.platform.kernel = "5.10.16.3-microsoft-standard-WSL2";
       },
       [](Facts& f) {
         be_a_wsl(f);
         f.platform.kernel = "5.10.43.3-microsoft-standard-WSL2";
       }},
      {"platform.wsl_linux_driver",
       [](Facts& f) {
         be_a_wsl(f);
         f.nvidia.libraries = {{"/usr/lib/libcuda.so.535.54.03", "libcuda", "535.54.03"}};
       },
       be_a_wsl},
      {"platform.wsl_no_process_memory", be_a_wsl, nothing},
      {"driver.nouveau",
       [](Facts& f) {
         take_driver_away(f);
         f.gpus[0].driver = "nouveau";
       },
       take_driver_away},
      {"driver.not_built",
       [](Facts& f) {
         take_driver_away(f);
         f.nvidia.has_module_source = true;
       },
       [](Facts& f) {
         take_driver_away(f);
         f.nvidia.has_module_source = true;
         f.nvidia.has_module_file = true;
       }},
      {"driver.not_loaded", take_driver_away, nothing},
      {"driver.version_mismatch", [](Facts& f) { break_nvml(f, 18); },
       [](Facts& f) { break_nvml(f, 999); }},
      {"driver.library_missing",
       [](Facts& f) {
         break_nvml(f, 0);
         f.nvidia.nvml.load_error = "no such file";
       },
       [](Facts& f) { break_nvml(f, 999); }},
      {"driver.nvml_failed", [](Facts& f) { break_nvml(f, 999); },
       [](Facts& f) { break_nvml(f, 18); }},
      {"driver.hangs",
       [](Facts& f) {
         break_nvml(f, 0);
         f.nvidia.nvml.is_hanging = true;
       },
       nothing},
      {"driver.cuda_missing",
       [](Facts& f) {
         break_cuda(f, 0);
         f.nvidia.cuda.load_error = "no such file";
       },
       nothing},
      {"driver.cuda_failed", [](Facts& f) { break_cuda(f, 802); },
       [](Facts& f) {
         break_cuda(f, 100);
         set(f, "CUDA_VISIBLE_DEVICES", "");
       }},
      {"driver.libraries_differ",
       [](Facts& f) {
         f.nvidia.libraries = {{"/usr/lib/libcuda.so.535.54.03", "libcuda", "535.54.03"},
                               {"/usr/lib64/libcuda.so.580.95.05", "libcuda", "580.95.05"}};
       },
       [](Facts& f) {
         f.nvidia.libraries = {{"/usr/lib/libcuda.so.580.95.05", "libcuda", "580.95.05"},
                               {"/usr/local/cuda/compat/libcuda.so.590.1.1", "libcuda", "590.1.1"},
                               {"/usr/lib/libnvidia-ml.so.580.95.05", "libnvidia-ml", "580.95.05"}};
       }},
      {"driver.old", [](Facts& f) { f.nvidia.nvml.version = "575.57.08"; },
       [](Facts& f) { f.nvidia.nvml.version = "580.65.06"; }},
      {"driver.unsupported_gpu",
       [](Facts& f) {
         f.gpus[1].chip = 0x2b85;  // Blackwell
         f.nvidia.is_open = false;
         f.nvidia.nvml.devices = 1;
       },
       [](Facts& f) {
         f.gpus[1].chip = 0x2b85;
         f.nvidia.nvml.devices = 1;
       }},
      {"driver.gpu_missing", [](Facts& f) { f.nvidia.nvml.devices = 1; },
       [](Facts& f) {
         put_into_container(f);
         f.nvidia.nvml.devices = 1;
       }},
      {"driver.gpu_fell_off", [](Facts& f) { f.gpus[1].is_gone = true; }, nothing},
      {"driver.good", nothing, [](Facts& f) { break_cuda(f, 802); }}};
  return kCases;
}

const std::vector<Case>& permission_cases() {
  static const std::vector<Case> kCases = {
      {"permissions.nodes_missing", take_nodes_away,
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
      {"permissions.good", nothing, [](Facts& f) { f.nvidia.nodes[0].refused = EACCES; }},
      {"container.no_gpu_given",
       [](Facts& f) {
         put_into_container(f);
         take_nodes_away(f);
       },
       put_into_container},
      {"container.hidden_by_variable",
       [](Facts& f) {
         put_into_container(f);
         take_nodes_away(f);
         set(f, "NVIDIA_VISIBLE_DEVICES", "void");
       },
       [](Facts& f) {
         put_into_container(f);
         take_nodes_away(f);
         set(f, "NVIDIA_VISIBLE_DEVICES", "all");
       }},
      {"container.kubernetes_no_gpu",
       [](Facts& f) {
         put_into_container(f);
         f.container.runtime = "kubernetes";
         take_nodes_away(f);
       },
       [](Facts& f) {
         put_into_container(f);
         f.container.runtime = "kubernetes";
       }},
      {"container.capabilities",
       [](Facts& f) {
         put_into_container(f);
         break_cuda(f, 0);
         f.nvidia.cuda.load_error = "no such file";
         set(f, "NVIDIA_DRIVER_CAPABILITIES", "utility");
       },
       [](Facts& f) {
         put_into_container(f);
         break_cuda(f, 0);
         set(f, "NVIDIA_DRIVER_CAPABILITIES", "compute,utility");
       }},
      {"container.devices_lost",
       [](Facts& f) {
         put_into_container(f);
         break_nvml(f, 999);
       },
       [](Facts& f) { break_nvml(f, 999); }},
      {"container.no_dri",
       [](Facts& f) {
         put_into_container(f);
         have_amd(f, 0);
         f.drm[0].node.exists = false;
       },
       [](Facts& f) {
         put_into_container(f);
         have_amd(f, 0);
       }},
      {"container.small_shm",
       [](Facts& f) {
         put_into_container(f);
         f.shared_memory.total_bytes = 64 * kMiB;
       },
       [](Facts& f) {
         put_into_container(f);
         f.shared_memory.total_bytes = 65 * kMiB;
       }},
      {"container.memory_limit", [](Facts& f) { f.container.memory_limit_bytes = 140 * kGiB; },
       [](Facts& f) { f.container.memory_limit_bytes = 141 * kGiB; }},
      {"container.pid_namespace",
       [](Facts& f) {
         put_into_container(f);
         f.container.is_host_pid_namespace = false;
       },
       put_into_container},
      {"container.good", put_into_container, nothing}};
  return kCases;
}

const std::vector<Case>& sharing_cases() {
  static const std::vector<Case> kCases = {
      {"mps.prohibited", [](Facts& f) { first_device(f).health.compute_mode = "prohibited"; },
       nothing},
      {"mps.exclusive_without",
       [](Facts& f) { first_device(f).health.compute_mode = "exclusive process"; },
       [](Facts& f) {
         first_device(f).health.compute_mode = "exclusive process";
         f.mps.processes = 2;
       }},
      {"mps.limits", [](Facts& f) { set(f, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "20"); },
       [](Facts& f) { set(f, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "100"); }},
      {"mps.stale_pipe", [](Facts& f) { f.mps.has_pipe = true; },
       [](Facts& f) {
         f.mps.has_pipe = true;
         f.container.is_host_pid_namespace = false;
       }},
      {"mig.no_instances", [](Facts& f) { be_mig(f, 0); }, [](Facts& f) { be_mig(f, 1); }},
      {"mig.one_visible", [](Facts& f) { be_mig(f, 2); },
       [](Facts& f) {
         be_mig(f, 2);
         set(f, "CUDA_VISIBLE_DEVICES", "MIG-1");
       }},
      {"persistence.off", [](Facts& f) { first_device(f).health.is_persistent = false; },
       [](Facts& f) {
         first_device(f).health.is_persistent = false;
         f.platform.has_display = true;
       }},
      {"limits.address_space", [](Facts& f) { f.process.limits.address_space_bytes = 64 * kGiB; },
       nothing},
      {"limits.locked_memory",
       [](Facts& f) {
         f.platform.has_infiniband = true;
         f.process.limits.locked_bytes = 64 * kKiB;
       },
       [](Facts& f) { f.process.limits.locked_bytes = 64 * kKiB; }},
      {"limits.open_files", [](Facts& f) { f.process.limits.open_files = 1024; }, nothing},
      {"limits.overcommit", [](Facts& f) { f.platform.overcommit = 2; },
       [](Facts& f) { f.platform.overcommit = 1; }},
      {"limits.host_memory", [](Facts& f) { f.platform.memory_bytes = 64 * kGiB; },
       [](Facts& f) {
         f.platform.memory_bytes = 64 * kGiB;
         f.platform.swap_bytes = 77 * kGiB;
       }},
      {"health.trouble", [](Facts& f) { first_device(f).sample.trouble = "GPU is lost (15)"; },
       nothing},
      {"health.recovery", [](Facts& f) { first_device(f).health.recovery_action = "reset"; },
       nothing},
      {"health.ecc", [](Facts& f) { first_device(f).health.ecc_since_boot.uncorrected = 1; },
       [](Facts& f) { first_device(f).health.ecc_since_boot.corrected = 9; }},
      {"health.row_remap_failed",
       [](Facts& f) { first_device(f).health.remapped_rows->has_failed = true; },
       [](Facts& f) { first_device(f).health.remapped_rows->uncorrected = 1; }},
      {"health.row_remap_pending",
       [](Facts& f) { first_device(f).health.remapped_rows->is_pending = true; }, nothing},
      {"health.throttling",
       [](Facts& f) { first_device(f).sample.throttle_reasons = {"hardware thermal"}; },
       [](Facts& f) { first_device(f).sample.throttle_reasons = {"power cap", "sync boost"}; }},
      {"health.small_bar", [](Facts& f) { first_device(f).health.bar1->total_bytes = 256 * kMiB; },
       nothing},
      {"health.xid", [](Facts& f) { log_xid(f, 79); }, nothing},
      {"health.xid_unknown", [](Facts& f) { f.xids.reset(); }, nothing},
      {"health.zombie", [](Facts& f) { add_holder(f, true, false); },
       [](Facts& f) {
         add_holder(f, true, false);
         f.container.is_host_pid_namespace = false;
       }},
      {"health.idle_holder", [](Facts& f) { add_holder(f, false, true); },
       [](Facts& f) { add_holder(f, false, false); }},
      {"health.good", nothing, [](Facts& f) { first_device(f).sample.is_asleep = true; }}};
  return kCases;
}

const std::vector<Case>& variable_cases() {
  static const std::vector<Case> kCases = {
      {"torch.unknown_key", [](Facts& f) { torch(f, "max_split_size:512"); },
       [](Facts& f) { torch(f, "max_split_size_mb:512"); }},
      {"torch.bad_value", [](Facts& f) { torch(f, "max_split_size_mb:20"); },
       [](Facts& f) { torch(f, "max_split_size_mb:21"); }},
      {"torch.small_split", [](Facts& f) { torch(f, "max_split_size_mb:64"); },
       [](Facts& f) { torch(f, "max_split_size_mb:128"); }},
      {"torch.split_with_expandable",
       [](Facts& f) { torch(f, "max_split_size_mb:512,expandable_segments:True"); },
       [](Facts& f) { torch(f, "max_split_size_mb:512,expandable_segments:False"); }},
      {"torch.gc_with_expandable",
       [](Facts& f) { torch(f, "garbage_collection_threshold:0.8,expandable_segments:True"); },
       [](Facts& f) { torch(f, "garbage_collection_threshold:0.8"); }},
      {"torch.gc_without_fraction", [](Facts& f) { torch(f, "garbage_collection_threshold:0.8"); },
       [](Facts& f) {
         torch(f, "garbage_collection_threshold:0.8,per_process_memory_fraction:0.9");
       }},
      {"torch.async_ignores",
       [](Facts& f) { torch(f, "backend:cudaMallocAsync,max_split_size_mb:512"); },
       [](Facts& f) { torch(f, "backend:cudaMallocAsync"); }},
      {"torch.coarse_rounding",
       [](Facts& f) { torch(f, "roundup_power2_divisions:[256:1,512:4,>:8]"); },
       [](Facts& f) { torch(f, "roundup_power2_divisions:[256:1,>:16]"); }},
      {"torch.two_variables",
       [](Facts& f) {
         torch(f, "expandable_segments:True");
         set(f, "PYTORCH_ALLOC_CONF", "expandable_segments:False");
       },
       [](Facts& f) {
         torch(f, "expandable_segments:True");
         set(f, "PYTORCH_ALLOC_CONF", "expandable_segments:True");
       }},
      {"torch.new_name", [](Facts& f) { set(f, "PYTORCH_ALLOC_CONF", "expandable_segments:True"); },
       [](Facts& f) { torch(f, "expandable_segments:True"); }},
      {"torch.not_expandable", [](Facts& f) { torch(f, "max_split_size_mb:512"); }, nothing},
      {"torch.no_caching", [](Facts& f) { set(f, "PYTORCH_NO_CUDA_MEMORY_CACHING", "0"); },
       nothing},
      {"torch.good", [](Facts& f) { torch(f, "expandable_segments:True"); },
       [](Facts& f) { torch(f, "expandable_segments:true"); }},
      {"cuda.visible_none", [](Facts& f) { set(f, "CUDA_VISIBLE_DEVICES", "-1"); },
       [](Facts& f) { set(f, "CUDA_VISIBLE_DEVICES", "0,-1"); }},
      {"cuda.visible_invalid", [](Facts& f) { set(f, "CUDA_VISIBLE_DEVICES", "0,2"); },
       [](Facts& f) { set(f, "CUDA_VISIBLE_DEVICES", "1, 0"); }},
      {"cuda.visible_twice", [](Facts& f) { set(f, "CUDA_VISIBLE_DEVICES", "1,0,1"); },
       [](Facts& f) { set(f, "CUDA_VISIBLE_DEVICES", "GPU-0a,GPU-1"); }},
      {"cuda.device_order", [](Facts& f) { first_device(f).identity.name = "NVIDIA A100"; },
       [](Facts& f) {
         first_device(f).identity.name = "NVIDIA A100";
         set(f, "CUDA_DEVICE_ORDER", "PCI_BUS_ID");
       }},
      {"cuda.launch_blocking", [](Facts& f) { set(f, "CUDA_LAUNCH_BLOCKING", "1"); },
       [](Facts& f) { set(f, "CUDA_LAUNCH_BLOCKING", "0"); }},
      {"cuda.cache_disabled", [](Facts& f) { set(f, "CUDA_CACHE_DISABLE", "1"); },
       [](Facts& f) { set(f, "CUDA_CACHE_DISABLE", "0"); }},
      {"cuda.eager_loading", [](Facts& f) { set(f, "CUDA_MODULE_LOADING", "EAGER"); },
       [](Facts& f) { set(f, "CUDA_MODULE_LOADING", "LAZY"); }},
      {"cuda.preload",
       [](Facts& f) { f.process.preloaded = {{"/usr/local/vgpu/libvgpu.so", true}}; },
       [](Facts& f) { f.process.preloaded = {{"/usr/lib/libjemalloc.so.2", true}}; }},
      {"cuda.preload_missing",
       [](Facts& f) { f.process.preloaded = {{"/usr/lib/libjemalloc.so.2", false}}; },
       [](Facts& f) { f.process.preloaded = {{"/usr/lib/libjemalloc.so.2", true}}; }},
      {"nccl.p2p_disabled", [](Facts& f) { set(f, "NCCL_P2P_DISABLE", "1"); },
       [](Facts& f) { set(f, "NCCL_P2P_DISABLE", "0"); }},
      {"nccl.large_buffers", [](Facts& f) { set(f, "NCCL_BUFFSIZE", "4194305"); },
       [](Facts& f) { set(f, "NCCL_BUFFSIZE", "4194304"); }},
      {"jax.preallocates", [](Facts& f) { set(f, "JAX_PLATFORMS", "cuda"); },
       [](Facts& f) {
         set(f, "JAX_PLATFORMS", "cuda");
         set(f, "XLA_PYTHON_CLIENT_PREALLOCATE", "false");
       }},
      {"jax.fraction", [](Facts& f) { set(f, "XLA_PYTHON_CLIENT_MEM_FRACTION", "75"); },
       [](Facts& f) { set(f, "XLA_PYTHON_CLIENT_MEM_FRACTION", ".75"); }},
      {"jax.platform_allocator",
       [](Facts& f) { set(f, "XLA_PYTHON_CLIENT_ALLOCATOR", "platform"); },
       [](Facts& f) { set(f, "XLA_PYTHON_CLIENT_ALLOCATOR", "bfc"); }},
      {"tf.takes_all", [](Facts& f) { set(f, "TF_FORCE_GPU_ALLOW_GROWTH", "false"); },
       [](Facts& f) { set(f, "TF_FORCE_GPU_ALLOW_GROWTH", "true"); }},
      {"tf.unknown_allocator", [](Facts& f) { set(f, "TF_GPU_ALLOCATOR", "cuda_async"); },
       [](Facts& f) { set(f, "TF_GPU_ALLOCATOR", "cuda_malloc_async"); }},
      {"frameworks.both_preallocate",
       [](Facts& f) {
         set(f, "JAX_PLATFORMS", "cuda");
         set(f, "TF_CPP_MIN_LOG_LEVEL", "1");
       },
       [](Facts& f) {
         set(f, "JAX_PLATFORMS", "cuda");
         set(f, "TF_FORCE_GPU_ALLOW_GROWTH", "true");
       }},
      {"vram.unknown_variable", [](Facts& f) { set(f, "VRAM_BORD", "/tmp/x"); },
       [](Facts& f) { set(f, "VRAM_BOARD", "/tmp/x"); }},
      {"vram.other_library", [](Facts& f) { set(f, "VRAM_NVML", "/tmp/x.so"); },
       [](Facts& f) { set(f, "VRAM_NVML", ""); }}};
  return kCases;
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const auto* part :
       {&driver_cases(), &permission_cases(), &sharing_cases(), &variable_cases()})
    cases.insert(cases.end(), part->begin(), part->end());
  return cases;
}

Report report_of(void (*change)(Facts&)) {
  Facts facts = healthy();
  change(facts);
  return examine(facts);
}

std::vector<std::string> ids_in(const Report& report) {
  std::vector<std::string> ids;
  for (const Finding& finding : report.findings) ids.push_back(finding.id);
  return ids;
}

const Finding& finding_in(const Report& report, std::string_view id) {
  const auto found = std::ranges::find(report.findings, id, &Finding::id);
  EXPECT_NE(found, report.findings.end()) << id;
  return *found;
}

TEST(Examine, FindsWhatIsThereAndNothingElse) {
  for (const Case& one : all_cases()) {
    EXPECT_THAT(ids_in(report_of(one.ill)), Contains(one.id)) << "where it is ill";
    EXPECT_THAT(ids_in(report_of(one.well)), Not(Contains(one.id))) << "where it is well";
  }
}

TEST(Examine, EveryFindingHasItsCase) {
  std::set<std::string_view> tried;
  for (const Case& one : all_cases()) EXPECT_TRUE(tried.insert(one.id).second) << one.id;
  const std::set<std::string_view> all(finding_ids().begin(), finding_ids().end());
  EXPECT_EQ(tried, all);
}

TEST(Examine, EveryFindingIsDocumented) {
  std::ifstream file(VRAM_TEST_DATA "/../../docs/doctor.md");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  for (const std::string_view id : finding_ids())
    EXPECT_THAT(text, HasSubstr("| `" + std::string(id) + "` |"));
  const auto rows = std::ranges::count(text, '`') / 2;
  EXPECT_GE(rows, static_cast<std::ptrdiff_t>(finding_ids().size()));
}

// Whoever reads a finding learns what, why and what to do.
TEST(Examine, EveryFindingIsWhole) {
  for (const Case& one : all_cases()) {
    for (const Finding& finding : report_of(one.ill).findings) {
      EXPECT_FALSE(finding.what.empty()) << finding.id;
      EXPECT_EQ(finding.what.find('\n'), std::string::npos) << finding.id;
      if (finding.severity == Severity::kGood) continue;
      EXPECT_FALSE(finding.why.empty()) << finding.id;
      EXPECT_FALSE(finding.repair.how.empty() && finding.repair.commands.empty()) << finding.id;
      EXPECT_FALSE(finding.repair.how.ends_with('.')) << finding.id;
    }
  }
}

TEST(Examine, OfAHealthyMachineOnlyGoodIsTold) {
  const Report report = report_of(nothing);
  EXPECT_THAT(ids_in(report), ElementsAre("driver.good", "permissions.good", "health.good"));
  EXPECT_EQ(report.usable_gpus, 2U);
}

TEST(Examine, NothingIsHeldAgainstWhatIsUnknown) {
  const Report report = examine(MachineFacts{});
  EXPECT_THAT(ids_in(report), ElementsAre("platform.no_gpu"));
  EXPECT_EQ(report.usable_gpus, 0U);
}

TEST(Examine, CountsTheGpusThatProgramsCanUse) {
  EXPECT_EQ(report_of([](Facts& f) { first_device(f).sample.trouble = "lost"; }).usable_gpus, 1U);
  EXPECT_EQ(report_of([](Facts& f) { break_cuda(f, 802); }).usable_gpus, 0U);
  EXPECT_EQ(report_of([](Facts& f) { have_amd(f, 0); }).usable_gpus, 1U);
}

TEST(Examine, SubjectsStayTogetherAndTheWorstComesFirst) {
  const Report report = report_of([](Facts& f) {
    first_device(f).health.bar1->total_bytes = 256 * kMiB;
    first_device(f).health.ecc_since_boot.uncorrected = 1;
    torch(f, "max_split_size_mb:64,expandible_segments:True");
  });
  EXPECT_THAT(ids_in(report), ElementsAre("driver.good", "permissions.good", "torch.unknown_key",
                                          "torch.small_split", "torch.not_expandable", "health.ecc",
                                          "health.small_bar"));
}

TEST(Examine, RepairsAreForWhoAsksAndWhere) {
  const auto commands = [](void (*change)(Facts&), std::string_view id) {
    return finding_in(report_of(change), id).repair.commands;
  };
  const auto mismatch = [](Facts& f) { break_nvml(f, 18); };
  EXPECT_EQ(commands(mismatch, "driver.version_mismatch")[0], "sudo reboot");
  const auto as_root = [](Facts& f) {
    break_nvml(f, 18);
    f.process.uid = 0;
  };
  EXPECT_EQ(commands(as_root, "driver.version_mismatch")[0], "reboot");
  const auto inside = [](Facts& f) {
    put_into_container(f);
    break_nvml(f, 18);
  };
  EXPECT_EQ(commands(inside, "driver.version_mismatch")[0], "docker restart CONTAINER");
  const auto podman = [](Facts& f) {
    put_into_container(f);
    f.container.runtime = "podman";
    take_nodes_away(f);
  };
  EXPECT_EQ(commands(podman, "container.no_gpu_given")[0],
            "podman run --device nvidia.com/gpu=all …");
  const auto amd = [](Facts& f) { have_amd(f, EACCES); };
  EXPECT_THAT(commands(amd, "permissions.dri_denied"),
              ElementsAre("sudo usermod -aG render $USER"));
}

TEST(Examine, TorchSettingsAreCorrected) {
  const auto command = [](const std::string& value) {
    Facts facts = healthy();
    torch(facts, value);
    const Report report = examine(facts);
    const auto bad = std::ranges::find(report.findings, Severity::kBad, &Finding::severity);
    return bad == report.findings.end() ? "" : bad->repair.commands.front();
  };
  EXPECT_EQ(command("expandible_segments:true"),
            "export PYTORCH_CUDA_ALLOC_CONF='expandable_segments:True'");
  EXPECT_EQ(command("max_split_size:512,garbage_collection_threshold:80"),
            "export PYTORCH_CUDA_ALLOC_CONF='max_split_size_mb:512'");
  EXPECT_EQ(command("dance:1"), "unset PYTORCH_CUDA_ALLOC_CONF");
}

// An environment is its process's choice, and commands are copied into shells.
TEST(Examine, NoWordOfAnEnvironmentGetsIntoACommand) {
  const std::string evil = "';touch /tmp/x;'";
  for (const char* name :
       {kTorch, "PYTORCH_ALLOC_CONF", "CUDA_VISIBLE_DEVICES", "CUDA_MPS_PIPE_DIRECTORY",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "LD_PRELOAD", "VRAM_BOARD", "VRAM_BORD", "VRAM_NVML",
        "NVIDIA_VISIBLE_DEVICES", "TF_GPU_ALLOCATOR", "XLA_CLIENT_MEM_FRACTION"}) {
    Facts facts = healthy();
    set(facts, name, "backend:" + evil + ",max_split_size_mb:" + evil + "," + evil);
    facts.mps = {0U, evil, true};
    facts.process.preloaded = {{evil, false}};
    facts.boards = {{.path = evil, .exists = true, .uid = 1U, .mode = 0777U}};
    set(facts, "VRAM_BOARD", evil);
    for (const Finding& finding : examine(facts).findings) {
      for (const std::string& command : finding.repair.commands)
        EXPECT_THAT(command, Not(HasSubstr("touch"))) << finding.id << " by " << name;
    }
  }
}

TEST(Examine, AnOldDriverLosesMoreTheOlderItIs) {
  const auto finding = [](const char* version) {
    Facts facts = healthy();
    facts.nvidia.nvml.version = version;
    return finding_in(examine(facts), "driver.old");
  };
  EXPECT_EQ(finding("550.54.15").severity, Severity::kNote);
  EXPECT_THAT(finding("550.54.15").why, Not(HasSubstr("CUDA 12")));
  EXPECT_EQ(finding("470.223.02").severity, Severity::kWarning);
  EXPECT_THAT(finding("470.223.02").why, HasSubstr("CUDA 12"));
  EXPECT_THAT(finding("418.40").why, HasSubstr("pool"));
}

TEST(Examine, XidsOfProgramsAreNotHeldAgainstTheGpu) {
  Facts facts = healthy();
  log_xid(facts, 31);
  EXPECT_EQ(finding_in(examine(facts), "health.xid").severity, Severity::kNote);
  facts = healthy();
  log_xid(facts, 79);
  const Finding finding = finding_in(examine(facts), "health.xid");
  EXPECT_EQ(finding.severity, Severity::kBad);
  EXPECT_THAT(finding.what, HasSubstr("2 times"));
}

TEST(Examine, AContainerIsToldOfItsOwnTroubleOnly) {
  const Report report = report_of([](Facts& f) {
    put_into_container(f);
    break_nvml(f, 999);
    f.nvidia.nodes[0].refused = EPERM;
  });
  EXPECT_THAT(ids_in(report), ElementsAre("container.devices_lost"));
}

}  // namespace
}  // namespace vram::doctor
