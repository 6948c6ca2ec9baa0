#include "plugins/nccl/context.h"

#include <algorithm>

#include <sys/syscall.h>
#include <unistd.h>

#include "spindrift/version.h"

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "plugins/nccl/connecting.h"
#include "plugins/nccl/handle.h"
#include "plugins/nccl/log.h"
#include "transport/base/host_identity.h"
#include "transport/base/random.h"

namespace spindrift::nccl {

Result<std::unique_ptr<Plugin>> Plugin::make(const SettingsSources& sources,
                                             const std::vector<Interface>& interfaces) {
  auto settings = load_plugin_settings(sources);
  if (!settings.ok()) return settings.error();
  std::vector<Device> devices = choose_devices(interfaces, settings.value().devices);
  return std::unique_ptr<Plugin>(new Plugin(std::move(settings).value(), std::move(devices)));
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
  for (int i = 0; i < devices_.count(); ++i) {
    const Device& device = *devices_.find(i);
    const std::string address = device.rails.front().to_string();
    names.push_back(absl::StrFormat("%s %s %g Gb/s", device.name,
                                    address.substr(0, address.rfind(':')),
                                    device.speed_mbps / 1000.0));
  }
  const ConnectOptions& connect = settings_.connect;
  return absl::StrFormat(
      "Spindrift %s, %s (%s), provider udp%s, congestion control %s, path policy %s, %d "
      "entropy values, %s",
      std::string(kVersion),
      names.size() == 1 ? std::string("1 device") : absl::StrFormat("%d devices", names.size()),
      absl::StrJoin(names, ", "), settings_.has_shm ? " and shm within a host" : "",
      connect.congestion_control, connect.path_selector, connect.path_count,
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

std::string Context::address_for(const std::string& provider, std::uint64_t shm_id,
                                 const Device& device) {
  if (shm_id != 0) return provider + "://" + shm_name(shm_id);
  std::vector<std::string> rails;
  for (const NetAddress& rail : device.rails)
    rails.push_back(rail.to_string());
  return provider + "://" + absl::StrJoin(rails, ",");
}

Result<Engine*> Context::acquire(const std::string& provider, int device_index) {
  const Device* device = plugin_.devices().find(device_index);
  if (device == nullptr)
    return Error(ErrorCode::kInvalidArgument,
                 absl::StrFormat("there is no device %d; there are %d", device_index,
                                 plugin_.devices().count()));
  Key key{.provider = provider};
  if (provider != "shm") key.device = device_index;
  if (is_shared_) key.owner = static_cast<std::uint64_t>(::syscall(SYS_gettid));
  const std::lock_guard guard(mutex_);
  Held& held = engines_[key];
  if (held.engine == nullptr) {
    const std::uint64_t shm_id = provider == "shm" ? random_u64() | 1 : 0;
    auto opened = Engine::open(address_for(provider, shm_id, *device), shm_id, plugin_.settings());
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
