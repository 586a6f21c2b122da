# What an installed prefix holds beside libraries and programs: headers,
# pkg-config files (with the prefix known at install time), CMake's package.
include(CMakePackageConfigHelpers)

set(LULL_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/lull)
configure_package_config_file(cmake/lullConfig.cmake.in
  ${CMAKE_BINARY_DIR}/lullConfig.cmake
  INSTALL_DESTINATION ${LULL_PACKAGE_DIR})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/lullConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/lullConfig.cmake
  ${CMAKE_BINARY_DIR}/lullConfigVersion.cmake DESTINATION ${LULL_PACKAGE_DIR}
  COMPONENT dev)
install(EXPORT lullTargets NAMESPACE lull:: DESTINATION ${LULL_PACKAGE_DIR}
  COMPONENT dev)
install(DIRECTORY include/lull DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  COMPONENT dev FILES_MATCHING PATTERN "*.h"
  PATTERN "comm.h" EXCLUDE)
if(LULL_MPI)
  install(FILES include/lull/comm.h COMPONENT dev
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/lull)
endif()
find_program(GZIP gzip REQUIRED)
configure_file(docs/man/lull.3.in ${CMAKE_BINARY_DIR}/share/man/lull.3 @ONLY)
add_custom_command(OUTPUT share/man/lull.3.gz
  COMMAND ${GZIP} -9nkf share/man/lull.3
  DEPENDS ${PROJECT_SOURCE_DIR}/docs/man/lull.3.in VERBATIM)
add_custom_target(lull_overview ALL DEPENDS share/man/lull.3.gz)
install(FILES ${CMAKE_BINARY_DIR}/share/man/lull.3.gz COMPONENT dev
  DESTINATION ${CMAKE_INSTALL_MANDIR}/man3)

set(PC_FILES lull)
if(LULL_MPI)
  list(APPEND PC_FILES lull_mpi)
  foreach(dir IN LISTS MPI_C_INCLUDE_DIRS)
    string(APPEND LULL_PC_MPI_CFLAGS " -I${dir}")
  endforeach()
  foreach(library IN LISTS MPI_C_LIBRARIES)
    string(APPEND LULL_PC_MPI_LIBS " ${library}")
  endforeach()
endif()
foreach(name IN LISTS PC_FILES)
  # CMAKE_INSTALL_PREFIX may be given to `cmake --install`, so it is filled in
  # there and the rest here.
  set(KEPT_PREFIX ${CMAKE_INSTALL_PREFIX})
  set(CMAKE_INSTALL_PREFIX "@CMAKE_INSTALL_PREFIX@")
  configure_file(cmake/${name}.pc.in ${CMAKE_BINARY_DIR}/${name}.pc.in @ONLY)
  set(CMAKE_INSTALL_PREFIX ${KEPT_PREFIX})
  install(CODE "
    configure_file(${CMAKE_BINARY_DIR}/${name}.pc.in
                   ${CMAKE_BINARY_DIR}/${name}.pc @ONLY)" COMPONENT dev)
  install(FILES ${CMAKE_BINARY_DIR}/${name}.pc
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
endforeach()
include(cmake/debian.cmake)
