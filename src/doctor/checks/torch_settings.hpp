// PyTorch's allocator settings as it reads them: "key:value,key:[256:1,512:2]". Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vram::doctor {

struct TorchSetting {
  std::string key;
  std::string value;
};

// Spaces don't count, commas between brackets belong to the value. A word without a colon is a key
// without a value.
[[nodiscard]] std::vector<TorchSetting> torch_settings(std::string_view text);

// Every key of any PyTorch version.
[[nodiscard]] const std::vector<std::string>& torch_keys();

// Why PyTorch would refuse the value of a known key; empty: it accepts it.
[[nodiscard]] std::string why_refused(const TorchSetting& setting);

[[nodiscard]] std::optional<double> as_fraction(std::string_view text);

}  // namespace vram::doctor
