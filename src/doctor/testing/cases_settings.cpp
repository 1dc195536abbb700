#include "doctor/testing/cases.hpp"

#include <algorithm>
#include <array>

namespace vram::doctor::testing {
namespace {

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
