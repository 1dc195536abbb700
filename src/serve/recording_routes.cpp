#include "serve/recording_routes.hpp"

#include "serve/http.hpp"
#include "serve/target.hpp"

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace vram::serve {
namespace {

constexpr size_t kPagePieceBytes = size_t{64} << 10;

// A page while it is sent: only one piece of it is in memory.
class FileStream final : public Stream {
 public:
  explicit FileStream(Descriptor file) : file_(std::move(file)) {}

  [[nodiscard]] Result<std::string> next() override {
    std::string piece(kPagePieceBytes, '\0');
    const ssize_t count = ::read(file_.number(), piece.data(), piece.size());
    if (count < 0) return fail(Code::kIo, "cannot read the report: {}", std::strerror(errno));
    piece.resize(static_cast<size_t>(count));
    return piece;
  }
  [[nodiscard]] size_t held_bytes() const override { return kPagePieceBytes; }

 private:
  Descriptor file_;
};

Response answer_of(const Result<std::string>& text) {
  return text ? json_response(*text) : error_response(text.error());
}

// A page of its own origin: even if a recording could make it run a script, that script could not
// use what the browser knows of this server.
Response page_response(Result<Descriptor> file) {
  if (!file) return error_response(file.error());
  return {.status = 200,
          .content_type = "text/html; charset=utf-8",
          .body = nullptr,
          .stream = std::make_shared<FileStream>(*std::move(file)),
          .headers = {{"Content-Security-Policy",
                       "sandbox allow-scripts allow-downloads; frame-ancestors 'none'"},
                      {"Referrer-Policy", "no-referrer"}}};
}

}  // namespace

std::vector<Route> recording_routes(const std::shared_ptr<Recordings>& recordings) {
  const auto with = [recordings](auto answer) {
    return [recordings, answer](const Request& request, std::string_view rest) {
      if (!recordings)
        return error_response(404,
                              "there is no folder of recordings: start it with --recordings DIR");
      return answer(*recordings, request, rest);
    };
  };
  const std::string path(kRecordingsPath);
  return {{path,
           {},
           "the recordings in the folder of --recordings, with their findings",
           with([](Recordings& all, const Request&, std::string_view) {
             return answer_of(all.list());
           })},
          {path + "/page",
           {"name"},
           "makes the report of a recording, as a page for browsers",
           with([](Recordings& all, const Request& request, std::string_view) {
             const auto name = parameter(request.query, "name");
             if (!name) return error_response(400, "name: expected the name of a recording");
             return answer_of(all.request_page(std::string(*name)));
           })},
          {std::string(kRecordingPagesPath) + "{key}",
           {},
           "such a page",
           with([](Recordings& all, const Request&, std::string_view key) {
             return page_response(all.page(key));
           })}};
}

bool is_page_of_recording(const Request& request) {
  return request.path.starts_with(kRecordingPagesPath);
}

bool is_about_recordings(const Request& request) {
  return request.path.starts_with(kRecordingsPath) || is_page_of_recording(request);
}

}  // namespace vram::serve
