#pragma once

#include <sys/types.h>

#include <string>

#include "base/result.h"

namespace mtl::phy {

/// Whether a capture file can be read, and has Ethernet frames. Errors name the file and the
/// remedy.
Result<void> readable_capture(const std::string& path);

/// Whether a capture file can be written. Errors: it is there and may not be overwritten; its
/// directory is missing, or may not be written.
Result<void> writable_capture(const std::string& path, bool overwrite);

/// A file that was made: whatever else has its name later is another one.
struct MadeCapture {
  std::string path;
  dev_t device = 0;
  ino_t inode = 0;
};

/// Makes an empty capture file, which only its owner may read. Error: it, or a symbolic link of
/// that name, is there, also since writable_capture(); it cannot be made.
Result<MadeCapture> make_capture(const std::string& path);
/// Removes it, whatever was written to it, if it still has its name.
void remove_capture(const MadeCapture& made);

}  // namespace mtl::phy
