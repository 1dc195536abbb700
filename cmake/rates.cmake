# The rates of GPUs by which dry runs estimate times, as a string in the program.
set(vram_rates "${CMAKE_SOURCE_DIR}/python/vram/dry/rates.json")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${vram_rates}")
file(READ "${vram_rates}" VRAM_RATES)
configure_file("${CMAKE_CURRENT_SOURCE_DIR}/plan/split/rates_text.cpp.in" "${CMAKE_CURRENT_BINARY_DIR}/plan_rates_text.cpp" @ONLY)
target_sources(vram_plan PRIVATE "${CMAKE_CURRENT_BINARY_DIR}/plan_rates_text.cpp")
