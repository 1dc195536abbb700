#include "doctor/testing/cases.hpp"

#include <algorithm>
#include <array>

namespace vram::doctor::testing {
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
