#include "phy/dpdk/eal.h"

#include <fcntl.h>
#include <pthread.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <vector>

#include "base/fd.h"

namespace mtl::phy {
namespace {

constexpr std::size_t kLogTail = 2048;  // bytes of log kept to explain a failed start
constexpr std::uint32_t kMinMemory = 16;
constexpr rlim_t kMinDescriptors = 64;

/// Where EAL's log goes. Lives as long as the process, for EAL logs from threads of its own.
struct LogSink {
  std::mutex mutex;
  std::string tail;
  std::string line;
  std::function<void(std::string_view)> log;

  void send_to(std::function<void(std::string_view)> to) {
    const std::lock_guard lock(mutex);
    log = std::move(to);
  }
  void write(std::string_view text) {
    const std::lock_guard lock(mutex);
    tail.append(text);
    if (tail.size() > kLogTail) tail.erase(0, tail.size() - kLogTail);
    line.append(text);
    for (std::size_t end; (end = line.find('\n')) != std::string::npos; line.erase(0, end + 1))
      if (log && end > 0) log(std::string_view(line).substr(0, end));
    if (line.size() > kLogTail) line.clear();
  }
};

LogSink& sink() {
  static auto* instance = new LogSink;
  return *instance;
}

ssize_t write_log(void*, const char* text, std::size_t size) noexcept {
  sink().write({text, size});
  return static_cast<ssize_t>(size);
}

/// Takes the log off stdout, stderr and syslog.
bool redirect_log() {
  cookie_io_functions_t functions{};
  functions.write = write_log;
  std::FILE* stream = fopencookie(nullptr, "w", functions);
  return stream != nullptr && rte_openlog_stream(stream) == 0;
}

/// The end of the captured log on one line.
std::string last_log_lines() {
  const std::lock_guard lock(sink().mutex);
  std::string text = sink().tail;
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::size_t from = text.size();
  for (int lines = 0; lines < 3 && from != std::string::npos && from > 0; ++lines)
    from = text.rfind('\n', from - 1);
  if (from != std::string::npos) text.erase(0, from + 1);
  for (std::size_t at; (at = text.find('\n')) != std::string::npos;) text.replace(at, 1, "; ");
  return text.empty() ? "it gave no reason" : text;
}

CpuList allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  CpuList cpus;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

std::string join_cpus(const CpuList& cpus) {
  std::string text;
  for (const unsigned cpu : cpus) text += (text.empty() ? "" : ",") + std::to_string(cpu);
  return text;
}

std::optional<Error> check_cpus(const EalConfig& config, const CpuList& allowed) {
  const auto check = [&](const CpuList& cpus, const std::string& who) -> std::optional<Error> {
    for (const unsigned cpu : cpus)
      if (std::find(allowed.begin(), allowed.end(), cpu) == allowed.end())
        return Error{"CPU " + std::to_string(cpu) + " for " + who +
                     " does not exist or is not allowed to this process; name some of " +
                     join_cpus(allowed)};
    return std::nullopt;
  };
  if (config.workers.size() >= RTE_MAX_LCORE)
    return Error{std::to_string(config.workers.size()) + " workers are too many: at most " +
                 std::to_string(RTE_MAX_LCORE - 1)};
  for (std::size_t i = 0; i < config.workers.size(); ++i)
    if (auto error = check(config.workers[i], "worker " + std::to_string(i))) return error;
  return check(config.main, "the control thread");
}

/// Free huge pages of all sizes, in MiB.
std::uint64_t free_huge_mib() {
  std::uint64_t mib = 0;
  std::error_code ignored;
  for (const auto& entry :
       std::filesystem::directory_iterator("/sys/kernel/mm/hugepages", ignored)) {
    unsigned long kib = 0;
    std::uint64_t pages = 0;
    const std::string name = entry.path().filename().string();
    if (std::sscanf(name.c_str(), "hugepages-%lukB", &kib) != 1) continue;
    std::ifstream(entry.path() / "free_hugepages") >> pages;
    mib += pages * kib / 1024;
  }
  return mib;
}

std::optional<Error> check_memory(const EalConfig& config) {
  const std::string wanted = std::to_string(config.memory_mib) + " MiB";
  if (config.memory_mib < kMinMemory)
    return Error{wanted + " of memory for buffers is too little: at least " +
                 std::to_string(kMinMemory) + " MiB"};
  if (config.huge_pages) {
    const std::uint64_t mib = free_huge_mib();
    if (mib < config.memory_mib)
      return Error{"huge pages for " + wanted + " are wanted and " + std::to_string(mib) +
                   " MiB are free: reserve some (sysctl vm.nr_hugepages=" +
                   std::to_string((config.memory_mib + 1) / 2) + "), or run without huge pages"};
    return std::nullopt;
  }
  const std::uint64_t mib = available_kib() / 1024;
  if (mib < config.memory_mib)
    return Error{wanted + " of memory for buffers are wanted and this machine has " +
                 std::to_string(mib) + " MiB available: configure fewer or smaller buffers"};
  return std::nullopt;
}

/// DPDK aborts the process when it gets no descriptor for its alarms and interrupts.
std::optional<Error> check_descriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= kMinDescriptors)
    return std::nullopt;
  return Error{"this process may open " + std::to_string(limit.rlim_cur) +
               " files and DPDK needs some dozens: raise the limit to " +
               std::to_string(kMinDescriptors) +
               " at least (ulimit -n, or LimitNOFILE in its unit)"};
}

/// The prefix keeps processes apart that share /run or /tmp.
constexpr std::string_view kPrefix = "mtlink-";

std::string file_prefix() {
  return std::string(kPrefix) + std::to_string(getpid());
}

/// The process that a runtime directory is named after; 0: another name.
pid_t owner_of(std::string_view name) {
  if (!name.starts_with(kPrefix)) return 0;
  name.remove_prefix(kPrefix.size());
  pid_t pid = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
  return error == std::errc{} && end == name.data() + name.size() && pid > 0 ? pid : 0;
}

/// No link, and nobody else's: what is below may be removed.
bool is_our_directory(const std::filesystem::path& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid();
}

/// Until it goes, what is printed to stdout comes out at stderr.
class StdoutToStderr {
 public:
  StdoutToStderr() {
    std::fflush(stdout);
    stdout_ = Fd(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
    if (stdout_) dup2(STDERR_FILENO, STDOUT_FILENO);
  }
  ~StdoutToStderr() {
    std::fflush(stdout);
    if (stdout_) dup2(stdout_.get(), STDOUT_FILENO);
  }
  StdoutToStderr(const StdoutToStderr&) = delete;
  StdoutToStderr& operator=(const StdoutToStderr&) = delete;

 private:
  Fd stdout_;
};

int init_quietly(int argc, char** argv) {
  const StdoutToStderr redirected;  // EAL prints its usage with printf()
  return rte_eal_init(argc, argv);
}

std::vector<std::string> make_args(const EalConfig& config, const CpuList& allowed) {
  const auto group = [&](const CpuList& cpus) {
    return "@(" + join_cpus(cpus.empty() ? allowed : cpus) + ")";
  };
  std::string lcores = "0" + group(config.main);
  for (std::size_t i = 0; i < config.workers.size(); ++i)
    lcores += "," + std::to_string(i + 1) + group(config.workers[i]);
  std::vector<std::string> args{"mtlink",
                                "--no-telemetry",
                                "--file-prefix",
                                file_prefix(),
                                "--lcores",
                                lcores,
                                "--main-lcore",
                                "0",
                                "-m",
                                std::to_string(config.memory_mib)};
  if (config.huge_pages) {
    args.emplace_back("--in-memory");
  } else {
    args.insert(args.end(), {"--no-huge", "--no-shconf"});
  }
  if (!config.pci) args.emplace_back("--no-pci");
  args.insert(args.end(), config.args.begin(), config.args.end());
  return args;
}

std::string remedy(const EalConfig& config) {
  switch (rte_errno) {
    case EACCES:
    case EPERM:
      return "run it with the rights that huge pages or the device need";
    case ENOMEM:
      return "free memory, or configure fewer or smaller buffers";
    case EALREADY:
      return "start it once in a process";
    default:
      return config.args.empty() ? "check /run or XDG_RUNTIME_DIR for a writable directory"
                                 : "check runtime.eal_args of the configuration";
  }
}

int run_body(void* argument) noexcept {
  (*static_cast<std::function<void()>*>(argument))();
  return 0;
}

}  // namespace

std::uint64_t available_kib() {
  std::ifstream file("/proc/meminfo");
  for (std::string key; file >> key;) {
    std::uint64_t value = 0;
    if (key == "MemAvailable:" && file >> value) return value;
  }
  return 0;
}

// Nothing here is an error: what cannot be looked at or removed stays. A process of another PID
// namespace looks dead, but in these modes of EAL the directory holds nothing that it needs.
void remove_stale_runtime_dirs(const std::string& parent) {
  std::error_code ignored;
  if (!is_our_directory(parent)) return;
  std::vector<std::filesystem::path> stale;
  // By increment(): operator++ would throw what is no reason not to start.
  for (std::filesystem::directory_iterator entry(parent, ignored), end; !ignored && entry != end;
       entry.increment(ignored)) {
    const pid_t pid = owner_of(entry->path().filename().string());
    if (pid == 0 || kill(pid, 0) == 0 || errno != ESRCH) continue;
    if (is_our_directory(entry->path())) stale.push_back(entry->path());
  }
  for (const auto& path : stale) std::filesystem::remove_all(path, ignored);  // follows no links
}

Result<std::unique_ptr<Eal>> Eal::start(const EalConfig& config) {
  static std::atomic<bool> started{false};
  const CpuList allowed = allowed_cpus();
  if (auto error = check_cpus(config, allowed)) return *error;
  if (auto error = check_memory(config)) return *error;
  if (auto error = check_descriptors()) return *error;
  if (started.exchange(true))
    return Error{
        "DPDK was started before in this process and cannot be started again: "
        "restart the process"};
  sink().send_to(config.log);
  if (!redirect_log()) return Error{"no memory for DPDK's log: free some and restart"};

  std::unique_ptr<Eal> eal(new Eal);
  eal->args_ = make_args(config, allowed);
  std::vector<char*> argv;
  for (std::string& arg : eal->args_) argv.push_back(arg.data());
  const auto argc = static_cast<int>(argv.size());
  argv.push_back(nullptr);
  cpu_set_t affinity;
  const bool saved = pthread_getaffinity_np(pthread_self(), sizeof affinity, &affinity) == 0;
  const int rc = init_quietly(argc, argv.data());
  // EAL binds the caller to the main lcore; the threads that the caller makes later would inherit
  // it.
  if (saved && config.main.empty())
    pthread_setaffinity_np(pthread_self(), sizeof affinity, &affinity);
  if (rc < 0)
    return Error{"DPDK did not start (" + std::string(rte_strerror(rte_errno)) +
                 "): " + last_log_lines() + "; " + remedy(config) + ", and restart"};
  eal->bodies_.resize(config.workers.size());
  eal->runtime_dir_ = rte_eal_get_runtime_dir();
  remove_stale_runtime_dirs(std::filesystem::path(eal->runtime_dir_).parent_path());
  return eal;
}

Eal::~Eal() {
  if (runtime_dir_.empty()) {  // EAL refused to start
    sink().send_to({});
    return;
  }
  rte_eal_mp_wait_lcore();
  rte_eal_cleanup();
  sink().send_to({});
  // EAL leaves the directory behind. Not one that the user named for himself: others may share it.
  std::error_code ignored;
  if (std::filesystem::path(runtime_dir_).filename() == file_prefix())
    std::filesystem::remove_all(runtime_dir_, ignored);
}

void Eal::launch(unsigned worker, std::function<void()> body) {
  bodies_.at(worker) = std::move(body);
  rte_eal_remote_launch(run_body, &bodies_[worker], worker + 1);
}

bool Eal::running(unsigned worker) const {
  return rte_eal_get_lcore_state(worker + 1) == RUNNING;
}

void Eal::join(unsigned worker) {
  rte_eal_wait_lcore(worker + 1);
}

}  // namespace mtl::phy
