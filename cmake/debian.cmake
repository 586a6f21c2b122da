# Debian packages, a component each: `cmake --preset deb`, build, `cpack
# --preset deb`. Names follow the sonames. Dependencies are what dpkg-shlibdeps
# finds, and the launcher that lull-train is started with.
set(LULL_SO ${PROJECT_VERSION_MAJOR})
set(LULL_DEB_DIR ${CMAKE_CURRENT_BINARY_DIR}/debian)
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME lull)
set(CPACK_PACKAGE_VENDOR "the lull authors")
set(CPACK_PACKAGE_CONTACT "the lull authors <lull@lull.invalid>")
# CPack's own default: else it stands before each package's own summary.
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${CMAKE_PROJECT_NAME} built using CMake")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
  WORLD_READ WORLD_EXECUTE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON)
set(CPACK_COMPONENTS_ALL liblull dev programs)

# lull_package(COMPONENT NAME SECTION SUMMARY TEXT): one package, with the
# files that Debian wants in each; a component is named as its library.
function(lull_package component name section summary text)
  string(TOUPPER ${component} id)
  foreach(pair "PACKAGE_NAME=${name}" "PACKAGE_SECTION=${section}"
          "DESCRIPTION=${summary}\n${text}")
    string(REGEX MATCH "^[A-Z_]+" key ${pair})
    string(REGEX REPLACE "^[A-Z_]+=" "" value "${pair}")
    set(CPACK_DEBIAN_${id}_${key} "${value}" PARENT_SCOPE)
  endforeach()
  if(component MATCHES "^lib")
    set(extra ${LULL_DEB_DIR}/${component})
    file(WRITE ${extra}/shlibs
      "${component} ${LULL_SO} ${name} (>= ${PROJECT_VERSION})\n")
    file(WRITE ${extra}/triggers "activate-noawait ldconfig\n")
    set(CPACK_DEBIAN_${id}_PACKAGE_CONTROL_EXTRA
      "${extra}/shlibs;${extra}/triggers" PARENT_SCOPE)
  endif()
  set(doc ${CMAKE_INSTALL_DATADIR}/doc/${name})
  install(FILES ${LULL_DEB_DIR}/copyright DESTINATION ${doc}
    COMPONENT ${component})
  install(FILES ${LULL_DEB_DIR}/changelog.gz
    ${LULL_DEB_DIR}/changelog.Debian.gz DESTINATION ${doc}
    COMPONENT ${component})
endfunction()

# Only where packages are made: a prefix needs no such files.
if(NOT LULL_DEBIAN)
  return()
endif()
file(READ LICENSE license)
string(REGEX REPLACE "\n\n" "\n.\n" license "${license}")
string(REGEX REPLACE "\n([^\n])" "\n \\1" license "${license}")
file(WRITE ${LULL_DEB_DIR}/copyright
"Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: lull

Files: *
Copyright: 2026, the lull authors
License: BSD-3-Clause

License: BSD-3-Clause
 ${license}")
set(stamp "Sun, 29 Nov 2026 12:00:00 +0000")
file(WRITE ${LULL_DEB_DIR}/changelog.Debian
"lull (${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) unstable; urgency=medium

  * The release ${PROJECT_VERSION}.

 -- ${CPACK_PACKAGE_CONTACT}  ${stamp}
")
configure_file(CHANGELOG.md ${LULL_DEB_DIR}/changelog COPYONLY)
execute_process(COMMAND gzip -9nkf changelog changelog.Debian
  WORKING_DIRECTORY ${LULL_DEB_DIR} COMMAND_ERROR_IS_FATAL ANY)

set(about "It saves the state of a model in training while forward and backward
leave it unchanged, and compresses what ranks send each other.")
lull_package(liblull liblull${LULL_SO} libs
  "lazy checkpoints of training state, and codecs for it"
  "${about}\nThis package has the library for checkpoints and codecs.")
lull_package(dev liblull-dev libdevel
  "lazy checkpoints and compressed communication (development)"
  "${about}\nThis package has headers, pkg-config files and CMake's package.")
lull_package(programs lull science
  "programs to inspect, verify and export checkpoints of training"
  "${about}\nThis package has lull, which looks into, verifies and exports
checkpoints, and lull-train, which trains a language model over MPI.")
set(CPACK_COMPONENT_PROGRAMS_DEPENDS liblull)
set(CPACK_COMPONENT_DEV_DEPENDS liblull)
if(LULL_MPI)
  list(APPEND CPACK_COMPONENTS_ALL liblull_mpi)
  lull_package(liblull_mpi liblull-mpi${LULL_SO} libs
    "compressed MPI communication for parallel training"
    "${about}\nThis package has the library for communication over MPI.")
  list(APPEND CPACK_COMPONENT_PROGRAMS_DEPENDS liblull_mpi)
  list(APPEND CPACK_COMPONENT_DEV_DEPENDS liblull_mpi)
  set(CPACK_COMPONENT_LIBLULL_MPI_DEPENDS liblull)
  if(MPI_C_LIBRARIES MATCHES "mpich")
    set(CPACK_DEBIAN_PROGRAMS_PACKAGE_DEPENDS mpich)
    set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS libmpich-dev)
  else()
    set(CPACK_DEBIAN_PROGRAMS_PACKAGE_DEPENDS openmpi-bin)
    set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS libopenmpi-dev)
  endif()
endif()
include(CPack)
