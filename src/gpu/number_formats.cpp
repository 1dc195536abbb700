#include "gpu/number_formats.hpp"

#include <charconv>
#include <map>
#include <string_view>

namespace vram::gpu {
namespace {

using Formats = std::optional<std::vector<std::string>>;

constexpr std::string_view kFirstWithTensorCores = "7.0";
constexpr std::string_view kTuring = "7.5";

// By compute capability, without FP64. From 7.5 on this is table 33 ("Input Data Types Supported by
// Tensor Core Acceleration per Compute Capability") of NVIDIA's CUDA Programming Guide 13, with one
// exception. 7.0 and 7.2, which that edition no longer lists, are by the PTX ISA: it has wmma for
// floating point from 7.0, for integers from 7.2, and for integers of 4 bits from 7.5 on.
//
// The exception is INT8 on 10.3. The guide lists it, perhaps because mma.sync takes it, but it is
// not fast: tcgen05.mma has .kind::i8 on 10.0 and 11.0 only (PTX ISA 9.0), and comparisons state
// 0.15 POPS for a B300 in INT8, and 2.25 PFLOPS in FP16.
const std::map<std::string, Formats, std::less<>>& table() {
  static const std::vector<std::string> kAmpere = {"FP16", "BF16", "TF32", "INT8", "INT4"};
  static const std::vector<std::string> kBlackwell = {"FP16", "BF16", "TF32", "FP8",
                                                      "FP6",  "FP4",  "INT8"};
  static const std::vector<std::string> kWithoutIntegers = {"FP16", "BF16", "TF32",
                                                            "FP8",  "FP6",  "FP4"};
  static const std::map<std::string, Formats, std::less<>> kTable = {
      {"7.0", {{"FP16"}}},
      {"7.2", {{"FP16", "INT8"}}},
      {"7.5", {{"FP16", "INT8", "INT4"}}},
      {"8.0", kAmpere},
      {"8.6", kAmpere},
      {"8.7", kAmpere},
      {"8.9", {{"FP16", "BF16", "TF32", "FP8", "INT8", "INT4"}}},
      {"9.0", {{"FP16", "BF16", "TF32", "FP8", "INT8"}}},
      {"10.0", kBlackwell},
      {"10.3", kWithoutIntegers},
      {"10.7", kWithoutIntegers},
      {"11.0", kBlackwell},
      {"12.0", kBlackwell},
      {"12.1", kBlackwell}};
  return kTable;
}

int major_of(std::string_view capability) {
  int major = 0;
  std::from_chars(capability.data(), capability.data() + capability.size(), major);
  return major;
}

// Turing's TU116 and TU117 have none, and the names of products tell them apart.
bool is_turing_with_tensor_cores(const std::optional<std::string>& name) {
  if (!name) return false;
  return name->find("RTX") != std::string::npos || name->ends_with(" T4") ||
         name->ends_with(" T4G");
}

}  // namespace

const Formats& tensor_core_formats(const DeviceIdentity& identity) {
  static const Formats kUnknown;
  static const Formats kNone = std::vector<std::string>();
  if (!identity.compute_capability) return kUnknown;
  const std::string& capability = *identity.compute_capability;
  const int major = major_of(capability);
  if (major > 0 && major < major_of(kFirstWithTensorCores)) return kNone;
  if (capability == kTuring && !is_turing_with_tensor_cores(identity.name)) return kUnknown;
  const auto known = table().find(capability);
  return known != table().end() ? known->second : kUnknown;
}

}  // namespace vram::gpu
