#include "doctor/testing/cases.hpp"

#include <algorithm>
#include <array>

namespace vram::doctor::testing {
namespace {

constexpr auto kContainerCases = std::to_array<Case>(
    {{"container.no_gpu_given",
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
     {"container.good", put_into_container, nothing}});

constexpr auto kVariableCases = std::to_array<Case>(
    {{"cuda.visible_none", [](Facts& f) { set(f, "CUDA_VISIBLE_DEVICES", "-1"); },
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
     {"jax.platform_allocator", [](Facts& f) { set(f, "XLA_PYTHON_CLIENT_ALLOCATOR", "platform"); },
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
      [](Facts& f) { set(f, "VRAM_NVML", ""); }}});

}  // namespace

std::span<const Case> container_cases() { return kContainerCases; }

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

namespace {

constexpr auto kPlatformCases = std::to_array<Case>(
    {{"platform.no_gpu",
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
     {"platform.wsl_no_process_memory", be_a_wsl, nothing}});

}  // namespace

std::span<const Case> platform_cases() { return kPlatformCases; }

std::span<const Case> variable_cases() { return kVariableCases; }

namespace {

constexpr auto kTorchCases = std::to_array<Case>(
    {{"torch.unknown_key", [](Facts& f) { torch(f, "max_split_size:512"); },
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
     {"torch.no_caching", [](Facts& f) { set(f, "PYTORCH_NO_CUDA_MEMORY_CACHING", "0"); }, nothing},
     {"torch.good", [](Facts& f) { torch(f, "expandable_segments:True"); },
      [](Facts& f) { torch(f, "expandable_segments:true"); }}});

}  // namespace

std::span<const Case> torch_cases() { return kTorchCases; }

}  // namespace vram::doctor::testing
