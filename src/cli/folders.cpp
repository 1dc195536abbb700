#include "cli/folders.hpp"

#include "base/environment.hpp"
#include "base/language.hpp"

#include <array>
#include <filesystem>
#include <system_error>

namespace vram::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::array kRecordings = {
    DemoRecording{"unet", "unet_multiscale.pickle.xz",
                  tr_later("a U-Net whose image sizes change every step; its memory fragments"),
                  true},
    DemoRecording{"leak", "leak.stacks.pickle.xz",
                  tr_later("a ResNet-18 with Python stacks, and two leaks planted in it")}};

// As a person would write it: relative below the working directory, else absolute.
std::string displayed(const fs::path& path) {
  std::error_code error;
  const fs::path resolved = fs::canonical(path, error);
  if (error) return path.string();
  const fs::path relative = fs::proximate(resolved, error);
  return error || relative.empty() || *relative.begin() == ".." ? path.string() : relative.string();
}

}  // namespace

std::filesystem::path user_folder(const char* variable, const char* below_home) {
  std::filesystem::path folder = environment(variable);
  const std::filesystem::path home = environment("HOME");
  if (folder.is_relative() && home.is_absolute()) folder = home / below_home;
  return folder.is_relative() ? std::filesystem::path() : folder / "vram";
}

std::filesystem::path program_path() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error);
}

std::filesystem::path installation_prefix() { return program_path().parent_path().parent_path(); }

std::span<const DemoRecording> demo_recordings() { return kRecordings; }

Result<std::string> demo_path(const DemoRecording& recording) {
  const fs::path path = installation_prefix() / "share" / "vram" / "demo" / recording.file;
  std::error_code error;
  if (fs::is_regular_file(path, error)) return displayed(path);
  return fail(Code::kNotFound,
              "no {}: the demo recordings are installed with the program, and {} was copied or "
              "installed without them; install vram with pip, or name a recording of your own "
              "(vram report FILE, --gpu sim:FILE)",
              path.string(), program_path().string());
}

}  // namespace vram::cli
