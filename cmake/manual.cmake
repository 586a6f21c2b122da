# lull_manual(TARGET): the man page and the completion of a program, made of
# its own tables (PROGRAM --table) into build/share and installed.
set(LULL_RELEASE_DATE 2026-11-29)
set(LULL_SHARE ${CMAKE_BINARY_DIR}/share)
find_program(GZIP gzip REQUIRED)
file(MAKE_DIRECTORY ${LULL_SHARE}/man ${LULL_SHARE}/completions)

function(lull_manual target)
  get_target_property(name ${target} OUTPUT_NAME)
  set(table ${CMAKE_CURRENT_BINARY_DIR}/${name}.table)
  set(man ${LULL_SHARE}/man/${name}.1)
  set(completion ${LULL_SHARE}/completions/${name})
  set(tools ${PROJECT_SOURCE_DIR}/tools)
  add_custom_command(OUTPUT ${table}
    COMMAND ${target} --table > ${table} DEPENDS ${target} VERBATIM)
  add_custom_command(OUTPUT ${man} ${man}.gz ${completion}
    COMMAND ${tools}/make_man ${LULL_RELEASE_DATE} < ${table} > ${man}
    COMMAND ${GZIP} -9nkf ${man}
    COMMAND ${tools}/make_completion < ${table} > ${completion}
    DEPENDS ${table} ${tools}/make_man ${tools}/make_completion VERBATIM)
  add_custom_target(${target}_manual ALL
    DEPENDS ${man} ${man}.gz ${completion})
  install(FILES ${man}.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
    COMPONENT programs)
  install(FILES ${completion} COMPONENT programs
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
endfunction()
