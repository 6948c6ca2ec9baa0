#pragma once
// What the plugin keeps for the process (Plugin) and for a communicator (Context): devices,
// settings, registered memory, and the engines that connections run on.
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "plugins/nccl/abi.h"
#include "plugins/nccl/devices.h"
#include "plugins/nccl/engine.h"
#include "plugins/nccl/memory.h"
#include "plugins/nccl/settings.h"

namespace spindrift::nccl {

class Context;
class Attempt;

class Plugin {
 public:
  // Reads the settings and looks for devices.
  static Result<std::unique_ptr<Plugin>> make(const SettingsSources& sources,
                                              const std::vector<Interface>& interfaces,
                                              const std::vector<Adapter>& adapters);
  ~Plugin();

  const PluginSettings& settings() const { return settings_; }
  DeviceTable& devices() { return devices_; }
  Registrations& memory() { return memory_; }
  std::uint64_t host() const { return host_; }
  // "Spindrift 0.1.0, 2 devices: eth0 100 Gb/s ..."
  std::string describe() const;

  // All engines of the process, for what concerns every one of them.
  void add(Engine& engine);
  void remove(Engine& engine);
  void drop_everywhere(Registration& registration);

 private:
  class Turn {
   public:
    explicit Turn(Plugin& plugin);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    Plugin& plugin_;
  };

  Plugin(PluginSettings settings, std::vector<Device> devices);
  void poll_engines(std::uint32_t first);

  PluginSettings settings_;
  DeviceTable devices_;
  Registrations memory_;
  std::uint64_t host_ = 0;
  std::mutex mutex_;  // of engines_ and threads_; taken before an engine's lock, never after
  std::vector<Engine*> engines_;
  std::vector<std::thread> threads_;
  std::atomic<bool> is_stopping_{false};
  std::atomic<std::uint32_t> waiting_{0};  // for mutex_: polling threads then step aside
};

// One per communicator; those of NCCL versions that know none share one per process, in which the
// calling service thread stands for the communicator.
class Context {
 public:
  Context(Plugin& plugin, bool is_shared, int traffic_class);
  // Aborts what is left.
  ~Context();

  Plugin& plugin() { return plugin_; }
  int traffic_class() const { return traffic_class_; }
  // The endpoint for this device, or between processes of this host. Every
  // acquire() needs a release(); the last one ends the endpoint and joins its threads.
  enum class Medium : std::uint8_t { kNetwork, kThisHost };
  Result<Engine*> acquire(Medium medium, int device);
  void acquire_again(Engine& engine);
  void release(Engine& engine);

  // Connections that are being made, by number.
  std::uint32_t add_attempt(std::unique_ptr<Attempt> attempt);
  Attempt* find_attempt(std::uint32_t number);
  std::unique_ptr<Attempt> take_attempt(std::uint32_t number);

 private:
  struct Key {
    int device = 0;
    std::uint64_t owner = 0;  // thread, in a shared context
    auto operator<=>(const Key&) const = default;
  };
  struct Held {
    std::unique_ptr<Engine> engine;
    std::uint32_t users = 0;
  };
  static Engine::Place place_of(const Device& device);
  static void end(std::unique_ptr<Engine> engine, Plugin& plugin);

  Plugin& plugin_;
  const bool is_shared_;
  const int traffic_class_;
  std::mutex mutex_;
  std::map<Key, Held> engines_;
  std::map<std::uint32_t, std::unique_ptr<Attempt>> attempts_;
  std::uint32_t next_attempt_ = 0;
};

}  // namespace spindrift::nccl
