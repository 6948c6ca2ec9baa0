#include "providers/dpdk/eal.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include <pthread.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <sched.h>
#include <unistd.h>

namespace spindrift {
namespace {

constexpr const char* kVariable = "SPINDRIFT_DPDK_EAL";
// Memory of the pools of a few ports; what is not touched costs nothing without hugepages.
constexpr const char* kMegabytes = "256";
constexpr std::uint64_t kNeededBytes = 256ULL << 20U;
constexpr std::size_t kKeptLines = 6;

// The last lines of DPDK's log.
class Log {
 public:
  void write(std::string_view text) {
    const std::lock_guard guard(mutex_);
    for (const char c : text) {
      if (c != '\n') {
        if (partial_.size() < 400) partial_ += c;
        continue;
      }
      if (!partial_.empty()) lines_.push_back(partial_);
      partial_.clear();
      if (lines_.size() > kKeptLines) lines_.pop_front();
    }
  }
  std::string text() {
    const std::lock_guard guard(mutex_);
    std::string out;
    for (const std::string& line : lines_)
      out.append(out.empty() ? "" : "; ").append(line);
    return out;
  }
  void clear() {
    const std::lock_guard guard(mutex_);
    lines_.clear();
    partial_.clear();
  }

 private:
  std::mutex mutex_;
  std::deque<std::string> lines_;
  std::string partial_;
};

struct Process {
  std::mutex mutex;
  bool is_started = false;
  Status status = ok_status();
  Log log;
};

// Never destroyed: DPDK's threads outlive static objects.
Process& process() {
  static auto* const one = new Process;
  return *one;
}

ssize_t write_log(void* /*cookie*/, const char* text, std::size_t size) {
  process().log.write({text, size});
  // Its last words before it ends the process.
  static std::atomic<bool> is_panic{false};
  if (std::string_view(text, size).find("PANIC") != std::string_view::npos) is_panic = true;
  if (is_panic) static_cast<void>(!::write(STDERR_FILENO, text, size));
  return static_cast<ssize_t>(size);
}

void collect_log() {
  FILE* stream = fopencookie(nullptr, "w", {nullptr, write_log, nullptr, nullptr});
  if (stream == nullptr) return;
  setvbuf(stream, nullptr, _IOLBF, 1024);
  rte_openlog_stream(stream);
}

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const std::size_t begin = text.find_first_not_of(" \t\n");
    if (begin == std::string_view::npos) break;
    text.remove_prefix(begin);
    const std::size_t end = text.find_first_of(" \t\n");
    out.emplace_back(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end);
  }
  return out;
}

// Whether one of `options` stands among the arguments, as "-m", "-m512", "--name" or "--name=...".
bool says(const std::vector<std::string>& arguments, std::initializer_list<const char*> options) {
  for (const std::string& argument : arguments)
    for (const char* option : options) {
      const std::size_t length = std::strlen(option);
      const bool is_short = length == 2;
      if (argument == option || argument.starts_with(std::string(option) + "=") ||
          (is_short && argument.starts_with(option)))
        return true;
    }
  return false;
}

std::uint64_t free_hugepage_bytes() {
  std::uint64_t bytes = 0;
  std::error_code error;
  const std::filesystem::directory_iterator sizes("/sys/kernel/mm/hugepages", error);
  if (error) return 0;
  for (const auto& folder : sizes) {
    const std::string name = folder.path().filename().string();  // hugepages-2048kB
    std::ifstream file(folder.path() / "free_hugepages");
    std::uint64_t count = 0;
    if (name.starts_with("hugepages-") && file >> count)
      bytes += count * std::strtoull(name.c_str() + 10, nullptr, 10) * 1024;
  }
  return bytes;
}

std::string allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return "0";
  std::string out;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &set)) continue;
    out.append(out.empty() ? "" : ",").append(std::to_string(cpu));
  }
  return out;
}

std::string why_not_started(const std::vector<std::string>& arguments) {
  std::string line;
  for (const std::string& argument : arguments)
    line += " " + argument;
  std::string remedy = "correct SPINDRIFT_DPDK_EAL";
  const std::string said = eal_said();
  const bool is_huge = !says(arguments, {"--no-huge"});
  if (rte_errno == EACCES || said.find("ermission denied") != std::string::npos) {
    remedy = "run as root, or give this user the files it names (/dev/hugepages, /dev/vfio)";
  } else if (is_huge && free_hugepage_bytes() < kNeededBytes) {
    remedy =
        "there are too few free hugepages: `echo 512 > /proc/sys/vm/nr_hugepages`, or do without "
        "them: SPINDRIFT_DPDK_EAL=\"--no-huge -m 256\"";
  } else if (!is_huge) {
    remedy =
        "without hugepages its memory (-m) must be free, and locked memory allowed (ulimit -l)";
  }
  return std::string("DPDK does not start (") + rte_strerror(rte_errno) + "): " + remedy +
         ". Its arguments were:" + line + (said.empty() ? "" : ". It said: " + said);
}

void run_eal_init(const std::vector<std::string>& arguments, Status& status) {
  collect_log();
  std::vector<std::string> copies = arguments;
  copies.insert(copies.begin(), "spindrift");
  std::vector<char*> pointers;
  pointers.reserve(copies.size());
  for (std::string& one : copies)
    pointers.push_back(one.data());
  if (rte_eal_init(static_cast<int>(pointers.size()), pointers.data()) < 0)
    status = Error(ErrorCode::kUnsupported, why_not_started(arguments));
}

}  // namespace

std::vector<std::string> eal_arguments(std::string_view first_device, std::string_view said,
                                       const EalHost& host) {
  std::vector<std::string> out = words(said);
  const std::vector<std::string> given = out;
  const auto add = [&](std::initializer_list<const char*> unless,
                       std::initializer_list<std::string> arguments) {
    if (!says(given, unless)) out.insert(out.end(), arguments);
  };
  const bool says_memory =
      says(given, {"--no-huge", "--in-memory", "--huge-dir", "--legacy-mem", "--socket-mem"});
  if (!says_memory && host.has_hugepages)
    out.insert(out.end(), {"--in-memory", "--single-file-segments"});
  else if (!says_memory)
    out.emplace_back("--no-huge");
  add({"-m", "--socket-mem"}, {"-m", kMegabytes});
  add({"-l", "-c", "--lcores"}, {"--lcores", "0@(" + host.cpus + ")"});
  if (is_pci_address(first_device))
    add({"-a", "--allow", "-b", "--block"}, {"-a", std::string(first_device)});
  else
    add({"--no-pci", "-a", "--allow", "-b", "--block"}, {"--no-pci"});
  add({"--telemetry", "--no-telemetry"}, {"--no-telemetry"});
  add({"--proc-type"}, {"--no-shconf"});
  add({"--file-prefix"}, {"--file-prefix=spindrift-" + std::to_string(host.process)});
  return out;
}

bool is_pci_address(std::string_view device) {
  // [domain:]bus:device.function
  const std::size_t dot = device.rfind('.');
  const std::size_t colon = device.rfind(':');
  return dot != std::string_view::npos && colon != std::string_view::npos && colon < dot &&
         device.find_first_not_of("0123456789abcdefABCDEF:.") == std::string_view::npos;
}

Status start_eal(std::string_view first_device) {
  Process& one = process();
  const std::lock_guard guard(one.mutex);
  if (!is_eal_usable())
    return Error(ErrorCode::kUnsupported,
                 "this process was forked from one that had DPDK running, whose threads did not "
                 "come along: open dpdk:// before fork() in neither, or start a new program");
  if (one.is_started) return one.status;
  one.is_started = true;
  const char* said = std::getenv(kVariable);  // NOLINT(concurrency-mt-unsafe): only read
  const EalHost host{.has_hugepages = free_hugepage_bytes() >= kNeededBytes,
                     .process = ::getpid(),
                     .cpus = allowed_cpus()};
  const std::vector<std::string> arguments =
      eal_arguments(first_device, said == nullptr ? "" : said, host);
  // It pins the thread that starts it to the processors of its choice.
  std::thread starter([&] {
    // Its threads inherit this: signals are for the program's own.
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    const ControlThreadsFirst control_threads_first;
    run_eal_init(arguments, one.status);
  });
  starter.join();
  pthread_atfork(nullptr, nullptr, [] { is_forked_from_eal.store(true); });
  return one.status;
}

namespace {

struct Registration {
  Registration() : is_made(rte_lcore_id() == LCORE_ID_ANY && rte_thread_register() == 0) {}
  ~Registration() {
    if (is_made && is_eal_usable()) rte_thread_unregister();
  }
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;
  bool is_made;
};

}  // namespace

void register_thread() {
  static thread_local const Registration registration;
  static_cast<void>(registration.is_made);
}

NoSigpipe::NoSigpipe() {
  sigset_t pipe;
  sigset_t pending;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  sigpending(&pending);
  was_pending_ = sigismember(&pending, SIGPIPE) == 1;
  pthread_sigmask(SIG_BLOCK, &pipe, &before_);
}

NoSigpipe::~NoSigpipe() {
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  const timespec now{};
  if (!was_pending_) sigtimedwait(&pipe, nullptr, &now);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

ControlThreadsFirst::ControlThreadsFirst() {
  if (pthread_getschedparam(pthread_self(), &policy_, &before_) != 0) return;
  if (policy_ != SCHED_FIFO && policy_ != SCHED_RR) return;
  sched_param raised = before_;
  ++raised.sched_priority;
  // By turns: DPDK polls for what the threads it has made do first, perhaps on the only processor
  // that they may have. Refused above the highest there is, or the highest that this user may have.
  is_raised_ = pthread_setschedparam(pthread_self(), SCHED_RR, &raised) == 0;
}

ControlThreadsFirst::~ControlThreadsFirst() {
  if (is_raised_) pthread_setschedparam(pthread_self(), policy_, &before_);
}

std::string eal_said() {
  return process().log.text();
}

void forget_eal_said() {
  process().log.clear();
}

}  // namespace spindrift
