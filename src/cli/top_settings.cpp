#include "cli/top_settings.hpp"

#include "base/file.hpp"
#include "base/result.hpp"
#include "cli/folders.hpp"

#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace vram::cli {
namespace {

namespace fs = std::filesystem;
using show::top::Settings;

constexpr uint64_t kMaxSettingsFileBytes = uint64_t{64} << 10;

// What is made meanwhile is this user's alone. Of the whole process: no other thread makes files
// then.
class PrivateUmask {
 public:
  PrivateUmask() : before_(umask(077)) {}
  PrivateUmask(const PrivateUmask&) = delete;
  PrivateUmask& operator=(const PrivateUmask&) = delete;
  ~PrivateUmask() { umask(before_); }

 private:
  mode_t before_;
};

// With sudo's HOME it may be another user's, who could not read the file that root makes there.
Result<> make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  struct stat found{};
  if (stat(folder.c_str(), &found) != 0)
    return fail(Code::kIo, "cannot make {}: {}", folder.string(), error.message());
  if (found.st_uid != geteuid())
    return fail(Code::kIo, "{} belongs to another user", folder.string());
  return {};
}

}  // namespace

std::string top_settings_path() {
  const fs::path folder = user_folder("XDG_CONFIG_HOME", ".config");
  return folder.empty() ? "" : folder / "top.toml";
}

// A pipe would have to be waited for.
Result<Settings> read_top_settings(const std::string& path) {
  std::error_code error;
  const fs::file_status found = fs::status(path, error);
  if (found.type() == fs::file_type::not_found) return Settings();
  if (fs::exists(found) && !fs::is_regular_file(found))
    return fail(Code::kBadInput, "{} is no plain file", path);
  VRAM_TRY_ASSIGN(const auto text, read_whole(path, kMaxSettingsFileBytes));
  return show::top::settings_of_toml(text, path);
}

Result<> keep_top_settings(const std::string& path, const Settings& changed) {
  VRAM_TRY_ASSIGN(const auto known, read_top_settings(path));
  std::error_code error;
  const fs::path real = fs::weakly_canonical(path, error);  // a link to it stays one
  if (error) return fail(Code::kIo, "cannot find {}: {}", path, error.message());
  const PrivateUmask privately;
  if (auto made = make_folder(real.parent_path()); !made) return made;
  VRAM_TRY_ASSIGN(auto file, AtomicFile::create(real, Replace::kAny));
  VRAM_TRY(file.write(to_toml(put_over(known, changed))));
  return file.commit();
}

}  // namespace vram::cli
