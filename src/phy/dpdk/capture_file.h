#pragma once

#include <string>

#include "base/result.h"

namespace mtl::phy {

/// Whether a capture file can be read, and has Ethernet frames. Errors name the file and the
/// remedy.
Result<void> readable_capture(const std::string& path);

/// Whether a capture file can be written. Errors: it is there and may not be overwritten; its
/// directory is missing, or may not be written.
Result<void> writable_capture(const std::string& path, bool overwrite);

/// Makes an empty capture file, which only its owner may read. Error: it, or a symbolic link of
/// that name, is there, also since writable_capture(); it cannot be made.
Result<void> make_capture(const std::string& path);

}  // namespace mtl::phy
