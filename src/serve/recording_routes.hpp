// API endpoints of the recordings in a folder: the list, the request for a report, and the report
// as a page. Answers read from disk, so they are made on the server's second thread; a page is read
// while it is sent.
//
//     Recordings ─▶ recording_routes ─▶ Router
//
// Like the dashboard, a page needs no token: its address is a secret.
#pragma once

#include "serve/http.hpp"
#include "serve/recordings.hpp"
#include "serve/router.hpp"

#include <memory>
#include <vector>

namespace vram::serve {

// Without a folder (null), answers say how to name one.
[[nodiscard]] std::vector<Route> recording_routes(const std::shared_ptr<Recordings>& recordings);

// "/recordings/KEY": needs no token.
[[nodiscard]] bool is_page_of_recording(const Request& request);
// All paths of these routes: their answers may wait for the disk.
[[nodiscard]] bool is_about_recordings(const Request& request);

}  // namespace vram::serve
