# The recordings of `vram demo` and `--gpu sim`: the program searches for them in <its folder>/../share/vram/demo. A wheel
# installs them there, and a build folder has a link to the sources' demo/ there.
file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/share/vram")
file(CREATE_LINK "${CMAKE_SOURCE_DIR}/demo" "${CMAKE_BINARY_DIR}/share/vram/demo" SYMBOLIC)

set(vram_demo_folder "${CMAKE_INSTALL_DATADIR}/vram/demo")
if(SKBUILD)
  set(vram_demo_folder "${SKBUILD_DATA_DIR}/share/vram/demo")
endif()
install(FILES "${CMAKE_SOURCE_DIR}/demo/leak.stacks.pickle.xz" "${CMAKE_SOURCE_DIR}/demo/unet_multiscale.pickle.xz"
  DESTINATION "${vram_demo_folder}" COMPONENT vram)
