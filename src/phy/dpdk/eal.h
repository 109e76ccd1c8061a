#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace mtl::phy {

/// CPUs that a thread may run on; empty: every CPU that the process may use.
using CpuList = std::vector<unsigned>;

/// How DPDK's environment (EAL) is started.
struct EalConfig {
  bool huge_pages = false;  ///< false: ordinary memory, which is all that software devices need
  std::uint32_t memory_mib = 64;  ///< of all buffer pools and rings; see MbufPool::memory()
  bool pci = false;               ///< look for NICs on the PCI bus
  std::vector<CpuList> workers;   ///< one worker thread each; several may share a CPU
  CpuList main;                   ///< of the calling thread; empty: its affinity stays what it was
  std::vector<std::string> args;  ///< further EAL arguments, the last word
  /// Where EAL's and the drivers' log lines go (without newline), from any thread; empty: nowhere.
  /// Must not call into this header.
  std::function<void(std::string_view)> log;
};

/// Memory that this machine can give without taking it from anyone, KiB; 0: unknown.
std::uint64_t available_kib();

/// Removes from `parent` the directories that earlier processes left when they were killed: those
/// named "mtlink-PID" as Eal names its own, of this user, no links, and of no process that lives.
void remove_stale_runtime_dirs(const std::string& parent);

/// DPDK's environment, at most once in the life of a process. The thread that starts it is the
/// control thread (EAL's main lcore) and is the one that destroys it, after every port and pool is
/// gone.
class Eal {
 public:
  /// Errors, each with the remedy: a CPU that is not there, no memory or huge pages for
  /// `memory_mib`, an argument that EAL refuses, a second start. What can be checked is checked
  /// before EAL begins, so that those errors leave a later attempt possible. What EAL prints, its
  /// usage when an argument is wrong, goes to stderr. Removes stale runtime directories.
  static Result<std::unique_ptr<Eal>> start(const EalConfig& config);

  /// Waits for the workers, which must have been told to end, and undoes the start.
  ~Eal();
  Eal(const Eal&) = delete;
  Eal& operator=(const Eal&) = delete;

  unsigned workers() const { return static_cast<unsigned>(bodies_.size()); }
  /// Runs `body` on worker `worker` (0 to workers()-1). An exception that leaves it ends the
  /// process. Only when that worker is idle. Control thread.
  void launch(unsigned worker, std::function<void()> body);
  /// Whether the worker's body has not returned yet. Control thread.
  bool running(unsigned worker) const;
  /// Waits until the worker's body has returned, however long that takes. Control thread.
  void join(unsigned worker);
  /// EAL's directory of this process, removed by the destructor.
  const std::string& runtime_dir() const { return runtime_dir_; }

 private:
  Eal() = default;
  std::vector<std::string> args_;  ///< EAL keeps pointers to them
  std::vector<std::function<void()>> bodies_;
  std::string runtime_dir_;
};

}  // namespace mtl::phy
