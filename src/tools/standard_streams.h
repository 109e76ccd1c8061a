#pragma once

#include <optional>
#include <ostream>
#include <string>

/// What each program does about the streams it was started with. Control thread.
namespace mtl::tools {

/// Takes up the numbers 0, 1 and 2 where the program was started without (`>&-`), by descriptors
/// that refuse to read or write: else the first socket or eventfd that it opens gets one of them,
/// and what is printed goes there. Also has writing beyond the limit of a file's size fail like a
/// full disk, rather than end the program. To be called first in main().
void hold_standard_streams();

/// Sees to it that all of `out` was written; why it was not.
std::optional<std::string> end_output(std::ostream& out);

/// The same for standard output, at the end of a program: `status`, or, with a line on standard
/// error, `failed` (if the status was 0).
int end_program(const char* name, int status, int failed);

}  // namespace mtl::tools
