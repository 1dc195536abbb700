# The description of the server's API as a string in the program. `vram serve` serves it, and tests compare the answers with it.
set(vram_openapi "${CMAKE_CURRENT_SOURCE_DIR}/serve/openapi.json")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${vram_openapi}")
file(READ "${vram_openapi}" VRAM_OPENAPI)
string(REPLACE "VERSION_OF_VRAM" "${PROJECT_VERSION}" VRAM_OPENAPI "${VRAM_OPENAPI}")
configure_file("${CMAKE_CURRENT_SOURCE_DIR}/serve/openapi.cpp.in" "${CMAKE_CURRENT_BINARY_DIR}/serve_openapi_template.cpp" @ONLY)
target_sources(vram_serve PRIVATE "${CMAKE_CURRENT_BINARY_DIR}/serve_openapi_template.cpp")
