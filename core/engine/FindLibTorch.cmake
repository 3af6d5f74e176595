# FindLibTorch: imported targets LibTorch::cpu (c10, torch_cpu) and, for a CUDA wheel, LibTorch::cuda (c10_cuda, torch_cuda).
#
# find_package(Torch) is not used: with a CUDA wheel it stops when no toolkit is found, enables CUDA by itself and
# overrides architectures. Looked for in: SLOTSCOPE_LIBTORCH (variable or environment), CMAKE_PREFIX_PATH (the torch
# folder, its share/cmake, or site-packages), then the cache that resources/dependencies.sh fills
# (SLOTSCOPE_CACHE or the user's cache). System paths are never searched: Debian's libtorch 1.13 must not be picked up.
set(SLOTSCOPE_LIBTORCH_VERSION 2.11.0)
set(_candidates "")
foreach(_root IN ITEMS "${SLOTSCOPE_LIBTORCH}" "$ENV{SLOTSCOPE_LIBTORCH}")
  if(_root)
    list(APPEND _candidates "${_root}" "${_root}/torch")
  endif()
endforeach()
foreach(_root IN LISTS CMAKE_PREFIX_PATH)
  list(APPEND _candidates "${_root}" "${_root}/torch" "${_root}/../..")
endforeach()
if(DEFINED ENV{SLOTSCOPE_CACHE})
  set(_cache "$ENV{SLOTSCOPE_CACHE}")
elseif(DEFINED ENV{XDG_CACHE_HOME})
  set(_cache "$ENV{XDG_CACHE_HOME}/slotscope")
else()
  set(_cache "$ENV{HOME}/.cache/slotscope")
endif()
list(APPEND _candidates "${_cache}/libtorch-${SLOTSCOPE_LIBTORCH_VERSION}/torch")

find_path(LibTorch_INCLUDE_DIR ATen/ATen.h PATHS ${_candidates} PATH_SUFFIXES include NO_DEFAULT_PATH)
if(LibTorch_INCLUDE_DIR)
  get_filename_component(LibTorch_ROOT "${LibTorch_INCLUDE_DIR}" DIRECTORY)
  foreach(_lib c10 torch_cpu torch c10_cuda torch_cuda)
    find_library(LibTorch_${_lib}_LIBRARY ${_lib} PATHS "${LibTorch_ROOT}/lib" NO_DEFAULT_PATH)
  endforeach()
  # torch/version.h moved into torch/headeronly in recent releases; read whichever exists.
  foreach(_header torch/headeronly/version.h torch/csrc/api/include/torch/version.h)
    if(EXISTS "${LibTorch_INCLUDE_DIR}/${_header}" AND NOT LibTorch_VERSION)
      file(READ "${LibTorch_INCLUDE_DIR}/${_header}" _version)
      if(_version MATCHES "TORCH_VERSION_MAJOR ([0-9]+)")
        set(_major ${CMAKE_MATCH_1})
        string(REGEX MATCH "TORCH_VERSION_MINOR ([0-9]+)" _ "${_version}")
        set(_minor ${CMAKE_MATCH_1})
        string(REGEX MATCH "TORCH_VERSION_PATCH ([0-9]+)" _ "${_version}")
        set(LibTorch_VERSION ${_major}.${_minor}.${CMAKE_MATCH_1})
      endif()
    endif()
  endforeach()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_INCLUDE_DIR LibTorch_torch_cpu_LIBRARY LibTorch_c10_LIBRARY
  VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE "run `sh resources/dependencies.sh` (it fetches the pinned wheel into ${_cache}), or set SLOTSCOPE_LIBTORCH to a folder that holds torch/include and torch/lib")
if(NOT LibTorch_FOUND)
  return()
endif()
if(LibTorch_VERSION VERSION_LESS 2.8)
  message(FATAL_ERROR "LibTorch ${LibTorch_VERSION} in ${LibTorch_ROOT} is too old: 2.8 or newer is needed "
    "(${SLOTSCOPE_LIBTORCH_VERSION} is tested).")
endif()
if(NOT LibTorch_VERSION VERSION_EQUAL SLOTSCOPE_LIBTORCH_VERSION)
  message(STATUS "LibTorch ${LibTorch_VERSION} differs from the tested ${SLOTSCOPE_LIBTORCH_VERSION}")
endif()

# A build with the old std::string ABI links against nothing of ours: say so here and not 200 files later.
set(_abi_source "${CMAKE_BINARY_DIR}/CMakeFiles/libtorch_abi.cpp")
file(WRITE "${_abi_source}" "#include <c10/util/Exception.h>\n#include <string>\n"
  "int main() { try { throw ::c10::Error(::c10::SourceLocation{\"f\", \"g\", 1}, std::string(\"a\")); } catch (const std::exception&) {} }\n")
try_compile(LibTorch_NEW_ABI "${CMAKE_BINARY_DIR}/CMakeFiles/libtorch_abi" "${_abi_source}"
  CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${LibTorch_INCLUDE_DIR}"
  LINK_LIBRARIES "${LibTorch_c10_LIBRARY}" CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON
  OUTPUT_VARIABLE _abi_log)
if(NOT LibTorch_NEW_ABI)
  message(FATAL_ERROR "LibTorch in ${LibTorch_ROOT} does not link with std::string arguments: it was built with the "
    "old C++ ABI or for another compiler. Use the wheel torch==${SLOTSCOPE_LIBTORCH_VERSION}.\n${_abi_log}")
endif()

if(NOT TARGET LibTorch::cpu)
  add_library(LibTorch::c10 SHARED IMPORTED)
  set_target_properties(LibTorch::c10 PROPERTIES IMPORTED_LOCATION "${LibTorch_c10_LIBRARY}")
  add_library(LibTorch::cpu SHARED IMPORTED)
  set_target_properties(LibTorch::cpu PROPERTIES
    IMPORTED_LOCATION "${LibTorch_torch_cpu_LIBRARY}"
    INTERFACE_LINK_LIBRARIES "LibTorch::c10")
  target_include_directories(LibTorch::cpu SYSTEM INTERFACE
    "${LibTorch_INCLUDE_DIR}" "${LibTorch_INCLUDE_DIR}/torch/csrc/api/include")
  # torch_cuda registers its operators when loaded and no symbol of it is named: --no-as-needed keeps linkers that
  # default to --as-needed from dropping it. Headers of c10/cuda need the toolkit's, so the target wants CUDAToolkit.
  find_package(CUDAToolkit QUIET)
  if(LibTorch_torch_cuda_LIBRARY AND LibTorch_c10_cuda_LIBRARY)
    add_library(LibTorch::cuda INTERFACE IMPORTED)
    set_property(TARGET LibTorch::cuda PROPERTY INTERFACE_LINK_LIBRARIES LibTorch::cpu
      "-Wl,--no-as-needed,${LibTorch_torch_cuda_LIBRARY},${LibTorch_c10_cuda_LIBRARY},--as-needed")
  endif()
endif()
mark_as_advanced(LibTorch_INCLUDE_DIR)
