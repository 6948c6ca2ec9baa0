#include "plugins/nccl/context.h"

#include <algorithm>

#include <sys/syscall.h>
#include <unistd.h>

#include "spindrift/open.h"
#include "spindrift/version.h"

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "plugins/nccl/connecting.h"
#include "plugins/nccl/handle.h"
#include "plugins/nccl/log.h"
#include "plugins/provider_modules.h"
#include "transport/base/host_identity.h"
#include "transport/base/random.h"

namespace spindrift::nccl {
namespace {

constexpr int kThisHostsDevice = -1;

// Whether endpoints of this provider can be opened here.
Status check_provider(const std::string& name) {
  const auto provider = builtin_registry().find_provider(name);
  if (!provider.ok()) return provider.error();
  return provider.value()->probe == nullptr ? ok_status() : provider.value()->probe();
}

// What the user names must be there; what is merely found is left aside where it cannot be used.
Result<std::vector<Device>> find_devices(PluginSettings& settings,
                                         const std::vector<Interface>& interfaces,
                                         const std::vector<Adapter>& adapters) {
  const DeviceChoice& choice = settings.devices;
  if (!choice.rails.empty()) {
    auto named = named_devices(choice, interfaces, adapters);
    if (!named.ok()) return named;
    for (const Device& device : named.value())
      if (const Status usable = check_provider(device.provider); !usable.ok())
        return Error(usable.error().code(),
                     "SPINDRIFT_NCCL_RAILS: " + device.address + ": " + usable.error().message());
    return named;
  }
  std::vector<Device> usable;
  for (Device& device : adapter_devices(adapters, choice)) {
    if (!choice.has_rdma) break;
    const Status status = check_provider(device.provider);
    if (status.ok())
      usable.push_back(std::move(device));
    else
      settings.notes.push_back("RDMA device " + device.name +
                               " is not used: " + status.error().message());
  }
  return join_devices(std::move(usable), interfaces, choice);
}

// "eth1 10.0.0.1 100 Gb/s", "mlx5_0 verbs://mlx5_0:1 100 Gb/s"
std::string describe_device(const Device& device) {
  std::string where = device.address;
  if (device.provider == "udp") {
    where = device.rails.front().to_string();
    where = where.substr(0, where.rfind(':'));
  }
  return absl::StrFormat("%s %s %g Gb/s", device.name, where, device.speed_mbps / 1000.0);
}

}  // namespace

Result<std::unique_ptr<Plugin>> Plugin::make(const SettingsSources& sources,
                                             const std::vector<Interface>& interfaces,
                                             const std::vector<Adapter>& adapters) {
  auto settings = load_plugin_settings(sources);
  if (!settings.ok()) return settings.error();
  auto devices = find_devices(settings.value(), interfaces, adapters);
  if (!devices.ok()) return devices.error();
  return std::unique_ptr<Plugin>(
      new Plugin(std::move(settings).value(), std::move(devices).value()));
}

Plugin::Plugin(PluginSettings settings, std::vector<Device> devices)
    : settings_(std::move(settings)),
      devices_(std::move(devices)),
      host_(host_identity(settings_.open.endpoint.host_id)) {}

// The mutex, which polling threads let go of at every round and take at once again.
Plugin::Turn::Turn(Plugin& plugin) : plugin_(plugin) {
  plugin_.waiting_.fetch_add(1, std::memory_order_relaxed);
  plugin_.mutex_.lock();
  plugin_.waiting_.fetch_sub(1, std::memory_order_relaxed);
}

Plugin::Turn::~Turn() {
  plugin_.mutex_.unlock();
}

Plugin::~Plugin() {
  is_stopping_ = true;
  for (std::thread& thread : threads_)
    thread.join();
}

std::string Plugin::describe() const {
  std::vector<std::string> names;
  std::vector<std::string> providers;
  for (int i = 0; i < devices_.count(); ++i) {
    const Device& device = *devices_.find(i);
    names.push_back(describe_device(device));
    if (std::find(providers.begin(), providers.end(), device.provider) == providers.end())
      providers.push_back(device.provider);
  }
  const ConnectOptions& connect = settings_.connect;
  return absl::StrFormat(
      "Spindrift %s, %s (%s), provider %s%s, congestion control %s, path policy %s, %d "
      "entropy values, %s",
      std::string(kVersion),
      names.size() == 1 ? std::string("1 device") : absl::StrFormat("%d devices", names.size()),
      absl::StrJoin(names, ", "), providers.empty() ? "none" : absl::StrJoin(providers, " and "),
      settings_.has_shm ? " and shm within a host" : "", connect.congestion_control,
      connect.path_selector, connect.path_count,
      settings_.threads == 0 ? std::string("no polling threads")
                             : absl::StrFormat("%d polling threads", settings_.threads));
}

void Plugin::add(Engine& engine) {
  const Turn turn(*this);
  engines_.push_back(&engine);
  if (!threads_.empty()) return;
  is_stopping_ = false;
  for (std::uint32_t i = 0; i < settings_.threads; ++i)
    threads_.emplace_back([this, i] { poll_engines(i); });
}

void Plugin::remove(Engine& engine) {
  std::vector<std::thread> idle;
  {
    const Turn turn(*this);
    std::erase(engines_, &engine);
    if (engines_.empty()) {
      is_stopping_ = true;
      idle.swap(threads_);
    }
  }
  for (std::thread& thread : idle)
    thread.join();
}

// Thread `first` serves every n-th engine, so that several share the work.
void Plugin::poll_engines(std::uint32_t first) {
  while (!is_stopping_) {
    {
      const std::lock_guard guard(mutex_);
      for (std::size_t i = first; i < engines_.size(); i += settings_.threads) {
        Engine& engine = *engines_[i];
        if (!engine.try_lock()) continue;
        engine.progress();
        engine.unlock();
      }
    }
    while (waiting_.load(std::memory_order_relaxed) != 0)
      std::this_thread::yield();
  }
}

void Plugin::drop_everywhere(Registration& registration) {
  const Turn turn(*this);
  for (Engine* engine : engines_) {
    const std::lock_guard engine_guard(*engine);
    engine->drop_region(registration.number);
  }
}

Context::Context(Plugin& plugin, bool is_shared, int traffic_class)
    : plugin_(plugin), is_shared_(is_shared), traffic_class_(traffic_class) {}

Context::~Context() {
  attempts_.clear();
  for (auto& [key, held] : engines_)
    end(std::move(held.engine), plugin_);
}

void Context::end(std::unique_ptr<Engine> engine, Plugin& plugin) {
  plugin.remove(*engine);
  if (!engine->is_foreign()) return;
  engine->abandon();
}

Engine::Place Context::place_of(const Device& device) {
  const bool has_several_rails = device.parts.size() > 1;
  if (!device.address.empty()) {
    const ListenAddresses addresses = listen_addresses(device.address, 0);
    return {.open = device.provider == "ofi" ? device.address : addresses.open,
            .listen = device.provider + "://",
            .has_several_rails = has_several_rails};
  }
  std::vector<std::string> rails;
  for (const NetAddress& rail : device.rails)
    rails.push_back(rail.to_string());
  return {.open = "udp://",
          .listen = "udp://" + absl::StrJoin(rails, ","),
          .has_several_rails = has_several_rails};
}

Result<Engine*> Context::acquire(Medium medium, int device_index) {
  const Device* device = plugin_.devices().find(device_index);
  if (device == nullptr)
    return Error(ErrorCode::kInvalidArgument,
                 absl::StrFormat("there is no device %d; there are %d", device_index,
                                 plugin_.devices().count()));
  Key key{.device = medium == Medium::kThisHost ? kThisHostsDevice : device_index};
  if (is_shared_) key.owner = static_cast<std::uint64_t>(::syscall(SYS_gettid));
  const std::lock_guard guard(mutex_);
  Held& held = engines_[key];
  if (held.engine == nullptr) {
    Engine::Place place;
    if (medium == Medium::kThisHost) {
      place = {.open = "shm://", .listen = "shm://", .shm_id = random_u64() | 1};
      place.listen += shm_name(place.shm_id);
    } else {
      place = place_of(*device);
    }
    auto opened = Engine::open(place, plugin_.settings());
    if (!opened.ok()) {
      engines_.erase(key);
      return opened.error();
    }
    held.engine = std::move(opened).value();
    plugin_.add(*held.engine);
  }
  ++held.users;
  return held.engine.get();
}

void Context::acquire_again(Engine& engine) {
  const std::lock_guard guard(mutex_);
  for (auto& [key, held] : engines_)
    if (held.engine.get() == &engine) ++held.users;
}

void Context::release(Engine& engine) {
  std::unique_ptr<Engine> last;
  {
    const std::lock_guard guard(mutex_);
    for (auto it = engines_.begin(); it != engines_.end(); ++it) {
      if (it->second.engine.get() != &engine) continue;
      if (--it->second.users == 0) {
        last = std::move(it->second.engine);
        engines_.erase(it);
      }
      break;
    }
  }
  if (last != nullptr) end(std::move(last), plugin_);
}

std::uint32_t Context::add_attempt(std::unique_ptr<Attempt> attempt) {
  const std::lock_guard guard(mutex_);
  ++next_attempt_;
  attempts_[next_attempt_] = std::move(attempt);
  return next_attempt_;
}

Attempt* Context::find_attempt(std::uint32_t number) {
  const std::lock_guard guard(mutex_);
  const auto it = attempts_.find(number);
  return it == attempts_.end() ? nullptr : it->second.get();
}

std::unique_ptr<Attempt> Context::take_attempt(std::uint32_t number) {
  const std::lock_guard guard(mutex_);
  const auto it = attempts_.find(number);
  if (it == attempts_.end()) return nullptr;
  std::unique_ptr<Attempt> attempt = std::move(it->second);
  attempts_.erase(it);
  return attempt;
}

}  // namespace spindrift::nccl
