# The built-in alert rules as a string in the program: deploy/rules.toml, which people start from too.
set(vram_rules "${CMAKE_SOURCE_DIR}/deploy/rules.toml")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${vram_rules}")
file(READ "${vram_rules}" VRAM_RULES)
configure_file("${CMAKE_CURRENT_SOURCE_DIR}/alerts/rules/built_in_text.cpp.in" "${CMAKE_CURRENT_BINARY_DIR}/alerts_built_in_text.cpp" @ONLY)
target_sources(vram_alerts PRIVATE "${CMAKE_CURRENT_BINARY_DIR}/alerts_built_in_text.cpp")
