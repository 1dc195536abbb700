// The functions of report.h: arguments checked, results and exceptions turned into a status.
#include "base/language.hpp"
#include "base/text.hpp"
#include "explain/moment/state.hpp"
#include "reports/recording.hpp"
#include "show/report/report_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vram/report.h>

struct vram_report {
  std::shared_ptr<const vram::reports::Recording> recording;
};

namespace {

using vram::Code;

// Of fixed size, so that an error can be reported without memory.
std::array<char, 8192>& last_error() {
  thread_local std::array<char, 8192> text = {};
  return text;
}

vram_report_status set_error(vram_report_status status, std::string_view why) noexcept {
  const size_t length = std::min(why.size(), last_error().size() - 1);
  std::copy_n(why.data(), length, last_error().data());
  last_error()[length] = '\0';
  return status;
}

vram_report_status refuse(vram_report_status status, std::string_view why) {
  return set_error(status, vram::printable(why));
}

vram_report_status status_of(Code code) {
  switch (code) {
    case Code::kBadInput:
    case Code::kUnsupported:
      return VRAM_REPORT_NO_RECORDING;
    case Code::kNotFound:
      return VRAM_REPORT_NO_FILE;
    case Code::kIo:
      return VRAM_REPORT_FILE_FAILED;
    case Code::kTooLarge:
      break;
  }
  return VRAM_REPORT_TOO_LARGE;
}

// Runs the body of a function of report.h, which returns a status. No exception reaches the caller,
// which may be C.
template <typename Body>
vram_report_status guarded(Body&& body) noexcept {
  try {
    (void)set_error(VRAM_REPORT_OK, "");
    return body();
  } catch (const std::bad_alloc&) {
    return set_error(VRAM_REPORT_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    return set_error(VRAM_REPORT_FAILED, error.what());
  }
}

vram_report_status refuse_null(const char* what) {
  return refuse(VRAM_REPORT_INVALID_VALUE, std::string("expected ") + what + ", found NULL");
}

// For the caller to free.
vram_report_status give_text(const std::string& text, char** out) {
  char* const copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  *out = copy;
  return VRAM_REPORT_OK;
}

vram_report_status state_json(const vram::reports::Recording& recording, size_t device,
                              const char* at, size_t top, char** text) {
  const auto& devices = recording.report.devices;
  if (device >= devices.size()) {
    return refuse(VRAM_REPORT_INVALID_VALUE,
                  fmt::format("expected a device below {}, found {}", devices.size(), device));
  }
  const auto state = vram::explain::parse_moment("at", at).and_then([&](const auto& request) {
    return vram::explain::find_state(recording.trace, recording.report, device, request);
  });
  if (!state) return refuse(VRAM_REPORT_INVALID_VALUE, state.error().message);
  return give_text(vram::show::json_state(*state, devices[device].steps, top).dump(), text);
}

}  // namespace

extern "C" {

const char* vram_report_version(void) { return VRAM_VERSION; }

const char* vram_report_last_error(void) { return last_error().data(); }

vram_report_status vram_report_open(const char* path, const vram_report_options* options,
                                    vram_report** report) {
  return guarded([&] {
    if (report == nullptr) return refuse_null("a place for the report");
    *report = nullptr;
    if (path == nullptr) return refuse_null("a path");
    vram::trace::OpenOptions opening;
    if (options != nullptr) {
      if (options->struct_bytes != sizeof(vram_report_options)) {
        return refuse(VRAM_REPORT_INVALID_VALUE,
                      "expected struct_bytes to be sizeof(vram_report_options)");
      }
      if (options->max_bytes != 0) opening.max_decompressed_bytes = options->max_bytes;
    }
    // Findings and errors are texts for people.
    static const bool kIsTranslated = vram::use_language(vram::language_of_environment());
    static_cast<void>(kIsTranslated);
    auto recording = vram::reports::open_recording(path, opening);
    if (!recording) return refuse(status_of(recording.error().code), recording.error().message);
    *report = std::make_unique<vram_report>(*std::move(recording)).release();
    return VRAM_REPORT_OK;
  });
}

void vram_report_close(vram_report* report) { const std::unique_ptr<vram_report> closed(report); }

vram_report_status vram_report_json(const vram_report* report, size_t top, char** text) {
  return guarded([&] {
    if (text == nullptr) return refuse_null("a place for the text");
    *text = nullptr;
    if (report == nullptr) return refuse_null("a report");
    return give_text(vram::show::report_json(report->recording->report, {.top = top}), text);
  });
}

vram_report_status vram_report_state_json(const vram_report* report, size_t device, const char* at,
                                          size_t top, char** text) {
  return guarded([&] {
    if (text == nullptr) return refuse_null("a place for the text");
    *text = nullptr;
    if (report == nullptr) return refuse_null("a report");
    if (at == nullptr) return refuse_null("a moment");
    return state_json(*report->recording, device, at, top, text);
  });
}

void vram_report_free_text(char* text) { std::free(text); }

const char* vram_report_table_name(size_t index) {
  const auto names = vram::reports::table_names();
  return index < names.size() ? names[index].data() : nullptr;
}

vram_report_status vram_report_table(const vram_report* report, const char* table,
                                     struct ArrowArrayStream* stream) {
  return guarded([&] {
    if (stream == nullptr) return refuse_null("a place for the stream");
    stream->release = nullptr;
    if (report == nullptr) return refuse_null("a report");
    if (table == nullptr) return refuse_null("the name of a table");
    auto made = vram::reports::make_table(report->recording, table);
    if (!made) {
      const bool is_too_large = made.error().code == Code::kTooLarge;
      return refuse(is_too_large ? VRAM_REPORT_TOO_LARGE : VRAM_REPORT_INVALID_VALUE,
                    made.error().message);
    }
    vram::reports::export_stream(*std::move(made), stream);
    return VRAM_REPORT_OK;
  });
}

}  // extern "C"
