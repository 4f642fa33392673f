# SPDX-License-Identifier: BSD-3-Clause
# torch_openreg::torch_openreg gives a C++ program of libtorch the device "openreg".
# The linker must keep the library although the program calls none of its functions.
get_filename_component(_package "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET torch_openreg::torch_openreg)
  add_library(torch_openreg::torch_openreg INTERFACE IMPORTED)
  set_target_properties(torch_openreg::torch_openreg PROPERTIES
    INTERFACE_LINK_OPTIONS
    "LINKER:--push-state,--no-as-needed,${_package}/lib/libtorch_openreg.so,--pop-state;LINKER:-rpath,${_package}/lib")
endif()
unset(_package)
