# SPDX-License-Identifier: Apache-2.0
# Rules for cmake --install, and the files that find_package(quarry) needs.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS quarry EXPORT quarry-targets)
install(DIRECTORY include/quarry DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TARGET quarry_opencl)
  install(DIRECTORY opencl/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/quarry_opencl FILES_MATCHING PATTERN "*.cl")
  install(TARGETS quarry_opencl EXPORT quarry-opencl-targets)
  install(EXPORT quarry-opencl-targets NAMESPACE quarry:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/quarry)
endif()
install(EXPORT quarry-targets NAMESPACE quarry:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/quarry)
install(TARGETS quarry_trace EXPORT quarry-trace-targets)
install(EXPORT quarry-trace-targets NAMESPACE quarry:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/quarry)
if(TARGET quarry_fibers)
  install(TARGETS quarry_fibers EXPORT quarry-fibers-targets)
  install(EXPORT quarry-fibers-targets NAMESPACE quarry:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/quarry)
endif()
configure_package_config_file(cmake/quarry-config.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/quarry-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/quarry)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/quarry-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/quarry-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/quarry-config-version.cmake
  cmake/QuarryCudaStandard.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/quarry)

# quarry-mpicc, what it links, and quarry-mpirun. The plugin and the cubins are found by quarry-mpicc.cfg alone.
if(QUARRY_WITH_COMPILER)
  install(TARGETS quarry-mpicc quarry-mpirun RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(FILES ${PROJECT_BINARY_DIR}/mpi/installed/quarry-mpicc.cfg DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(TARGETS quarry_mpi quarry_mpi_launcher quarry_mpi_processes quarry_mpi_processes_launcher ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(FILES ${PROJECT_BINARY_DIR}/mpi/gpu_complex.bc DESTINATION ${CMAKE_INSTALL_LIBDIR}/quarry)
  if(TARGET quarry-mpicc-plugin)
    install(TARGETS quarry-mpicc-plugin LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/quarry)
  endif()
  if(QUARRY_WITH_CUDA)
    install(FILES ${quarry_mpi_cubins} ${quarry_mpi_system_cubins} ${PROJECT_BINARY_DIR}/mpi/runtime.ptx ${PROJECT_BINARY_DIR}/mpi/runtime.types DESTINATION ${CMAKE_INSTALL_LIBDIR}/quarry)
  endif()
endif()
