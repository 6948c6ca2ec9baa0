# The install tree: public headers, libspindrift.so and libspindrift.a, the package files for CMake and
# pkg-config, the `spindrift` command, the licence.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Both libraries are made of the objects of the parts.
set(objects)
foreach(part base wire paths cc transport provider_module provider_shm provider_udp provider_wrap collectives plugins)
  list(APPEND objects $<TARGET_OBJECTS:spindrift_${part}>)
endforeach()
set(libraries absl::strings absl::str_format Threads::Threads hwy isal pcap ${CMAKE_DL_LIBS})

add_library(spindrift_static STATIC ${objects})
set_target_properties(spindrift_static PROPERTIES OUTPUT_NAME spindrift EXPORT_NAME static
                                                  LINKER_LANGUAGE CXX)
target_link_libraries(spindrift_static INTERFACE spindrift_api ${libraries})

add_library(spindrift_shared SHARED ${objects})
set_target_properties(
  spindrift_shared
  PROPERTIES OUTPUT_NAME spindrift
             EXPORT_NAME spindrift
             LINKER_LANGUAGE CXX
             VERSION ${PROJECT_VERSION}
             SOVERSION 0
             LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/spindrift.map)
target_link_libraries(spindrift_shared PUBLIC spindrift_api PRIVATE ${libraries})
target_link_options(
  spindrift_shared PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/spindrift.map
  -Wl,-Bsymbolic-functions -Wl,--no-undefined)

set_target_properties(spindrift_api PROPERTIES EXPORT_NAME headers)
install(TARGETS spindrift_api spindrift_shared EXPORT spindriftTargets FILE_SET HEADERS)
# A file of its own: who links the shared library does not need what the static one needs.
install(TARGETS spindrift_static EXPORT spindriftStaticTargets)
install(TARGETS spindrift_tool nccl_net_check)
# Loaded by NCCL, from the library path.
install(TARGETS spindrift_nccl LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(SPINDRIFT_NCCL_DEFAULT_LINK)
  install(FILES ${PROJECT_BINARY_DIR}/plugins/nccl/libnccl-net.so DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
# Loaded on demand (plugins/provider_modules.cc).
get_property(modules GLOBAL PROPERTY SPINDRIFT_MODULES)
foreach(module ${modules})
  install(TARGETS ${module} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/spindrift)
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/spindrift)
foreach(set spindriftTargets spindriftStaticTargets)
  install(EXPORT ${set} NAMESPACE spindrift:: DESTINATION ${package_dir})
endforeach()
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/spindriftConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/spindriftConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
# While MAJOR is 0, a MINOR release may break.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/spindriftConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/spindriftConfig.cmake
              ${PROJECT_BINARY_DIR}/spindriftConfigVersion.cmake DESTINATION ${package_dir})

# What --static adds.
spindrift_abseil_libraries(abseil absl::str_format absl::strings)
list(TRANSFORM abseil PREPEND -l)
list(JOIN abseil " " SPINDRIFT_ABSL_LIBS)
# Relative, so that the tree may be moved.
file(RELATIVE_PATH SPINDRIFT_PC_INCLUDE /${CMAKE_INSTALL_LIBDIR}/pkgconfig
     /${CMAKE_INSTALL_INCLUDEDIR})
configure_file(${PROJECT_SOURCE_DIR}/cmake/spindrift.pc.in ${PROJECT_BINARY_DIR}/spindrift.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/spindrift.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
