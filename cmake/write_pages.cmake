# cmake -DVRAM=<program> -DFOLDER=<share> -P write_pages.cmake: writes the program's manual pages and completions.
function(write path)
  execute_process(COMMAND "${VRAM}" ${ARGN} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  file(WRITE "${FOLDER}/${path}" "${text}")
endfunction()

file(REMOVE_RECURSE "${FOLDER}/man")  # commands may have been renamed
write(man/man1/vram.1 help --man)
execute_process(COMMAND "${VRAM}" --help OUTPUT_VARIABLE help COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "\n  [a-z]+ " rows "${help}")
foreach(row IN LISTS rows)
  string(STRIP "${row}" command)
  write("man/man1/vram-${command}.1" help --man "${command}")
endforeach()
write(bash-completion/completions/vram completion bash)
write(zsh/site-functions/_vram completion zsh)
write(fish/vendor_completions.d/vram.fish completion fish)
