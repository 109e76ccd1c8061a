#include "tools/standard_streams.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <iostream>

namespace mtl::tools {

void hold_standard_streams() {
  std::signal(SIGXFSZ, SIG_IGN);
  // open() gives the lowest number that is free. The wrong way round, so that use of it is noticed.
  int fd = 0;
  do {
    fd = ::open("/dev/null", ::fcntl(STDIN_FILENO, F_GETFD) < 0 ? O_WRONLY : O_RDONLY);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0) ::close(fd);
}

std::optional<std::string> end_output(std::ostream& out) {
  out.flush();
  const bool lost = &out == &std::cout && std::ferror(stdout) != 0;
  if (out && !lost) return std::nullopt;
  return "standard output: cannot be written to its end; is the disk full, or the reader gone?";
}

int end_program(const char* name, int status, int failed) {
  const auto fault = end_output(std::cout);
  if (!fault) return status;
  fmt::print(stderr, "{}: {}\n", name, *fault);
  return status == 0 ? failed : status;
}

}  // namespace mtl::tools
