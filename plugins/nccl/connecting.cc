#include "plugins/nccl/connecting.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "plugins/nccl/log.h"
#include "transport/base/random.h"

namespace spindrift::nccl {
namespace {

constexpr int kTrafficClassBits = 2;  // below the DSCP

// For the log: what the connection goes over.
std::string medium(Context& context, const Engine& engine, int index) {
  if (engine.is_shm()) return "shared memory";
  const Device* device = context.plugin().devices().find(index);
  return device == nullptr ? std::string("?") : device->name;
}

// The ports that the endpoint listens on, as NCCL's handle carries them.
std::vector<NetAddress> rails_of(const Engine& engine) {
  std::vector<NetAddress> out;
  for (const std::string& address : engine.addresses()) {
    std::string_view host = std::string_view(address).substr(engine.name().size() + 3);
    host.remove_prefix(host.find('@') + 1);  // libfabric's provider stands in front
    const auto parsed = parse_net_address(host, 0);
    if (parsed.ok()) out.push_back(parsed.value());
  }
  return out;
}

}  // namespace

void end_comm(std::unique_ptr<Comm> comm) {
  if (comm == nullptr) return;
  comm->close();
  Context& context = comm->context();
  Engine& engine = comm->engine();
  comm.reset();
  context.release(engine);
}

Listener::Listener(Context& context, int device)
    : context_(context), device_(device), nonce_(random_u64()) {}

Result<std::unique_ptr<Listener>> Listener::open(Context& context, int device, void* handle) {
  auto network = context.acquire(Context::Medium::kNetwork, device);
  if (!network.ok()) return network.error();
  std::unique_ptr<Listener> made(new Listener(context, device));
  made->listen_on(*network.value());
  Handle out{.nonce = made->nonce_,
             .host = context.plugin().host(),
             .shm_id = 0,
             .rails = rails_of(*network.value()),
             .provider = network.value()->name()};
  if (context.plugin().settings().has_shm) {
    auto shm = context.acquire(Context::Medium::kThisHost, device);
    if (shm.ok()) {
      made->listen_on(*shm.value());
      out.shm_id = shm.value()->shm_id();
    } else {
      inform(kLogNet, "no shared memory within this host: " + shm.error().message());
    }
  }
  write_handle(out, handle);
  return made;
}

void Listener::listen_on(Engine& engine) {
  const std::lock_guard guard(engine);
  engine.expect(nonce_, *this);
  engines_.push_back(&engine);
}

Listener::~Listener() {
  end_comm(std::move(opening_));
  for (Engine* engine : engines_) {
    {
      const std::lock_guard guard(*engine);
      engine->forget(nonce_);
      const std::lock_guard guard_waiting(mutex_);
      for (const Caller& caller : waiting_)
        if (caller.engine == engine)
          static_cast<void>(engine->endpoint().reject(caller.conn, "the listener was closed"));
    }
    context_.release(*engine);
  }
}

void Listener::on_request(Engine& engine, ConnId conn, std::vector<std::byte> mailbox) {
  const std::lock_guard guard(mutex_);
  waiting_.push_back({.engine = &engine, .conn = conn, .mailbox = std::move(mailbox)});
}

void Listener::take_next() {
  Caller caller;
  {
    const std::lock_guard guard(mutex_);
    if (waiting_.empty()) return;
    caller = std::move(waiting_.front());
    waiting_.pop_front();
  }
  context_.acquire_again(*caller.engine);
  auto comm = std::make_unique<RecvComm>(context_, *caller.engine,
                                         medium(context_, *caller.engine, device_));
  Status started = ok_status();
  {
    const std::lock_guard guard(*caller.engine);
    started = comm->start(caller.conn, caller.mailbox, caller.engine->connect_options(), nonce_);
    if (!started.ok())
      static_cast<void>(caller.engine->endpoint().reject(caller.conn, started.error().message()));
  }
  if (!started.ok()) {
    inform(kLogNet, "refused a connection: " + started.error().message());
    end_comm(std::move(comm));
    return;
  }
  opening_ = std::move(comm);
}

std::unique_ptr<RecvComm> Listener::accept() {
  for (Engine* engine : engines_) {
    const std::lock_guard guard(*engine);
    engine->progress_now();
  }
  if (opening_ == nullptr) take_next();
  if (opening_ == nullptr) return nullptr;
  if (opening_->is_failed()) {
    inform(kLogNet, "a connection was given up while it was accepted: " + opening_->why());
    end_comm(std::move(opening_));
    return nullptr;
  }
  return opening_->is_open() ? std::move(opening_) : nullptr;
}

Attempt::Attempt(Context& context, int device, Handle handle, int traffic_class)
    : context_(context),
      device_(device),
      handle_(std::move(handle)),
      traffic_class_(traffic_class) {}

Attempt::~Attempt() {
  drop();
}

void Attempt::drop() {
  end_comm(std::move(comm_));
}

Result<std::unique_ptr<Attempt>> Attempt::start(Context& context, int device, const Handle& handle,
                                                int traffic_class) {
  std::unique_ptr<Attempt> made(new Attempt(context, device, handle, traffic_class));
  const Plugin& plugin = context.plugin();
  if (plugin.settings().has_shm && handle.shm_id != 0 && handle.host == plugin.host()) {
    const Status near =
        made->start_over(Context::Medium::kThisHost, "shm://" + shm_name(handle.shm_id));
    if (near.ok()) {
      made->is_over_shm_ = true;
      return made;
    }
    inform(kLogNet, "no shared memory to a peer of this host: " + near.error().message());
  }
  const Status started = made->start_network();
  if (!started.ok()) return started.error();
  return made;
}

Status Attempt::start_network() {
  std::vector<std::string> rails;
  for (const NetAddress& rail : handle_.rails)
    rails.push_back(rail.to_string());
  is_over_shm_ = false;
  const Device* device = context_.plugin().devices().find(device_);
  if (device != nullptr && device->provider != handle_.provider)
    return Error(ErrorCode::kInvalidArgument,
                 absl::StrCat("the other side's device is reached by ", handle_.provider,
                              "://, and ", device->name, " here uses ", device->provider,
                              "://; give both hosts the same SPINDRIFT_NCCL_ variables"));
  return start_over(Context::Medium::kNetwork,
                    handle_.provider + "://" + absl::StrJoin(rails, ","));
}

Status Attempt::start_over(Context::Medium over, const std::string& address) {
  auto engine = context_.acquire(over, device_);
  if (!engine.ok()) return engine.error();
  comm_ = std::make_unique<SendComm>(context_, *engine.value(),
                                     medium(context_, *engine.value(), device_));
  Status started = ok_status();
  {
    const std::lock_guard guard(*engine.value());
    ConnectOptions options = engine.value()->connect_options();
    if (engine.value()->name() == "udp") options.local_addresses = engine.value()->addresses();
    if (traffic_class_ >= 0)
      options.dscp = static_cast<std::uint8_t>((traffic_class_ & 0xff) >> kTrafficClassBits);
    started = comm_->start(address, options, handle_.nonce);
  }
  if (!started.ok()) drop();
  return started;
}

Result<std::unique_ptr<SendComm>> Attempt::step() {
  {
    const std::lock_guard guard(comm_->engine());
    comm_->engine().progress_now();
  }
  if (comm_->is_open()) return std::move(comm_);
  if (!comm_->is_failed()) return std::unique_ptr<SendComm>();
  const std::string why = comm_->why();
  drop();
  if (!is_over_shm_) return Error(ErrorCode::kIo, why);
  inform(kLogNet, "no shared memory to a peer of this host: " + why);
  const Status started = start_network();
  if (!started.ok()) return started.error();
  return std::unique_ptr<SendComm>();
}

}  // namespace spindrift::nccl
