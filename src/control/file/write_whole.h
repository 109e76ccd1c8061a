#pragma once

#include <filesystem>
#include <string_view>

#include "base/result.h"

namespace mtl::control {

/// Gives the file this content, whole or not at all, whatever becomes of the process or the
/// machine: it is written beside it, brought to the disk, and takes its place. A symbolic link goes
/// on leading to the file that it leads to.
///
/// Errors name the file, why, and what to do; the file is then as it was: the folder is not there
/// or not writable, no room, no regular file (a device, a pipe and a folder are not replaced), a
/// link to nothing. Blocks; control plane only.
Result<void> write_whole(const std::filesystem::path& file, std::string_view text);

/// "FILE: cannot be written: WHY; name a file in a folder that is there and writable".
Error unwritable(const std::filesystem::path& file, std::string_view why);

}  // namespace mtl::control
