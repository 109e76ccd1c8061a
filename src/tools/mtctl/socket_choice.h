#pragma once

#include <string>

#include "base/result.h"

namespace mtl::tools {

inline constexpr const char* kSocketDirectory = "/run/mtlink";

/// The control socket to use: `asked` (of -s) if not empty, else `environment` (of MTLINK_SOCKET;
/// may be nullptr), else the only socket in `directory`. Error: none is there, or several, which it
/// lists.
Result<std::string> choose_socket(const std::string& asked, const char* environment,
                                  const std::string& directory = kSocketDirectory);

}  // namespace mtl::tools
