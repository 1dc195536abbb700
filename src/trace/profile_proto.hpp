// The numbers of the fields of pprof's profile.proto, which vram writes (exports/) and reads
// (import/foreign/).
#pragma once

#include <cstdint>

namespace vram::trace::profile_proto {

namespace profile {
inline constexpr uint32_t kSampleType = 1;
inline constexpr uint32_t kSample = 2;
inline constexpr uint32_t kLocation = 4;
inline constexpr uint32_t kFunction = 5;
inline constexpr uint32_t kText = 6;
inline constexpr uint32_t kTime = 9;
inline constexpr uint32_t kComment = 13;
inline constexpr uint32_t kDefaultSampleType = 14;
}  // namespace profile
namespace value_type {
inline constexpr uint32_t kType = 1;
inline constexpr uint32_t kUnit = 2;
}  // namespace value_type
namespace sample {
inline constexpr uint32_t kLocations = 1;
inline constexpr uint32_t kValues = 2;
inline constexpr uint32_t kLabel = 3;
}  // namespace sample
namespace label {
inline constexpr uint32_t kKey = 1;
inline constexpr uint32_t kText = 2;
}  // namespace label
namespace location {
inline constexpr uint32_t kId = 1;
inline constexpr uint32_t kLine = 4;
}  // namespace location
namespace line {
inline constexpr uint32_t kFunction = 1;
inline constexpr uint32_t kNumber = 2;
}  // namespace line
namespace function {
inline constexpr uint32_t kId = 1;
inline constexpr uint32_t kName = 2;
inline constexpr uint32_t kFile = 4;
}  // namespace function

}  // namespace vram::trace::profile_proto
