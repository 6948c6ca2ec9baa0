#include "providers/libfabric/ofi_device.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include <netinet/in.h>
#include <poll.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <unistd.h>

namespace spindrift {
namespace {

constexpr std::uint32_t kApi = FI_VERSION(1, 17);
constexpr int kMemoryModes =
    FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;

// Asked of every provider. No order: it is kept above, so that those that have to work for it need
// not.
FiInfo make_hints(const OfiWish& wish, std::uint64_t capabilities) {
  FiInfo hints(fi_allocinfo());
  hints->caps = capabilities;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode = kMemoryModes;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
  hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  // libfabric frees them.
  if (!wish.provider.empty()) hints->fabric_attr->prov_name = ::strdup(wish.provider.c_str());
  if (!wish.domain.empty()) hints->domain_attr->name = ::strdup(wish.domain.c_str());
  return hints;
}

void set_source(fi_info& hints, const NetAddress& source) {
  if (source.family == 6) {
    auto* to = static_cast<sockaddr_in6*>(::calloc(1, sizeof(sockaddr_in6)));
    to->sin6_family = AF_INET6;
    to->sin6_scope_id = source.scope;
    std::memcpy(&to->sin6_addr, source.ip.data(), sizeof(to->sin6_addr));
    hints.src_addr = to;
    hints.src_addrlen = sizeof(*to);
    hints.addr_format = FI_SOCKADDR_IN6;
    return;
  }
  auto* to = static_cast<sockaddr_in*>(::calloc(1, sizeof(sockaddr_in)));
  to->sin_family = AF_INET;
  std::memcpy(&to->sin_addr, source.ip.data(), sizeof(to->sin_addr));
  hints.src_addr = to;
  hints.src_addrlen = sizeof(*to);
  hints.addr_format = FI_SOCKADDR_IN;
}

bool has_ip_addresses(const fi_info& info) {
  return info.addr_format == FI_SOCKADDR || info.addr_format == FI_SOCKADDR_IN ||
         info.addr_format == FI_SOCKADDR_IN6;
}

bool is_of_family(const fi_info& info, std::uint8_t family) {
  if (family == 0 || !has_ip_addresses(info) || info.src_addr == nullptr) return true;
  const int kind = static_cast<const sockaddr*>(info.src_addr)->sa_family;
  return kind == (family == 6 ? AF_INET6 : AF_INET);
}

// The first of its offers, of the domain that is wanted: some providers do not look at that.
FiInfo ask(const fi_info& hints, std::uint8_t family) {
  fi_info* found = nullptr;
  if (fi_getinfo(kApi, nullptr, nullptr, 0, &hints, &found) != 0) return nullptr;
  FiInfo all(found);
  const char* const domain = hints.domain_attr->name;
  if (domain == nullptr) return all;
  for (const fi_info* one = found; one != nullptr; one = one->next)
    if (std::strcmp(one->domain_attr->name, domain) == 0 && is_of_family(*one, family))
      return FiInfo(fi_dupinfo(one));
  return nullptr;
}

// With reads of the peer's memory, or failing that without.
FiInfo ask_for(const OfiWish& wish) {
  for (const std::uint64_t capabilities :
       {std::uint64_t{FI_MSG | FI_RMA | FI_READ | FI_REMOTE_READ}, std::uint64_t{FI_MSG}}) {
    const FiInfo hints = make_hints(wish, capabilities);
    FiInfo any = ask(*hints, wish.family);
    if (any == nullptr) continue;
    if (!wish.source.is_set() || !has_ip_addresses(*any)) return any;
    set_source(*hints, wish.source);
    FiInfo there = ask(*hints, wish.family);
    // The two sides may meet on another network than the one that moves their bytes.
    return there != nullptr ? std::move(there) : std::move(any);
  }
  return nullptr;
}

std::string what_there_is() {
  FiInfo hints(fi_allocinfo());
  hints->ep_attr->type = FI_EP_RDM;
  hints->mode = ~0ULL;
  hints->domain_attr->mode = ~0ULL;
  hints->domain_attr->mr_mode = kMemoryModes;
  const FiInfo found = ask(*hints, 0);
  std::vector<std::string> names;
  for (const fi_info* one = found.get(); one != nullptr; one = one->next) {
    const std::string name =
        std::string(one->fabric_attr->prov_name) + " (" + one->domain_attr->name + ")";
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  std::string out;
  for (const std::string& name : names)
    out += (out.empty() ? "" : ", ") + name;
  return out.empty() ? "nothing" : out;
}

std::string text_of(const OfiWish& wish) {
  std::string out = wish.provider.empty() ? "a provider" : "provider " + wish.provider;
  if (!wish.domain.empty()) out += " with domain " + wish.domain;
  return out;
}

bool keeps_reads_in_order(const fi_info& info) {
  constexpr std::uint64_t kRma = FI_ORDER_RMA_RAR;
  const std::uint64_t sent = info.tx_attr->msg_order;
  const std::uint64_t taken = info.rx_attr->msg_order;
  return ((sent & FI_ORDER_RAR) != 0 || (sent & kRma) != 0) &&
         ((taken & FI_ORDER_RAR) != 0 || (taken & kRma) != 0);
}

}  // namespace

Error fi_refused(const std::string& call, long code) {
  const int error = static_cast<int>(-code);
  const bool is_memory = error == FI_ENOMEM;
  return Error(is_memory ? ErrorCode::kNoMemory : ErrorCode::kIo, call + ": " + fi_strerror(error));
}

Result<FiInfo> find_offer(const OfiWish& wish) {
  FiInfo found = ask_for(wish);
  if (found != nullptr) return found;
  const char* filter = ::getenv("FI_PROVIDER");  // NOLINT(concurrency-mt-unsafe): only read
  std::string why = "libfabric offers no " + text_of(wish) +
                    " (reliable datagrams with messages); it offers " + what_there_is();
  if (filter != nullptr) why += "; FI_PROVIDER=" + std::string(filter) + " hides all others";
  return Error(ErrorCode::kUnsupported, why);
}

OfiTraits traits_of(const fi_info& info) {
  const auto has = [mode = info.domain_attr->mr_mode](int bit) { return (mode & bit) != 0; };
  constexpr std::uint64_t kReads = FI_RMA | FI_READ | FI_REMOTE_READ;
  const std::size_t key_bytes = info.domain_attr->mr_key_size;
  OfiTraits out;
  out.can_read = (info.caps & kReads) == kReads && key_bytes <= sizeof(std::uint64_t);
  out.reads_in_order = keeps_reads_in_order(info);
  out.needs_local_keys = has(FI_MR_LOCAL);
  out.names_by_address = has(FI_MR_VIRT_ADDR);
  out.chooses_keys = has(FI_MR_PROV_KEY);
  out.binds_to_endpoint = has(FI_MR_ENDPOINT);
  out.largest_key = key_bytes >= sizeof(std::uint64_t) ? UINT64_MAX : (1ULL << (8 * key_bytes)) - 1;
  out.inject_bytes = info.tx_attr->inject_size;
  out.max_message = info.ep_attr->max_msg_size;
  out.max_local = std::max<std::size_t>(1, info.tx_attr->iov_limit);
  out.max_remote = std::max<std::size_t>(1, info.tx_attr->rma_iov_limit);
  out.receive_depth = info.rx_attr->size;
  out.send_depth = info.tx_attr->size;
  return out;
}

Result<std::unique_ptr<OfiDevice>> OfiDevice::open(const OfiWish& wish) {
  auto found = find_offer(wish);
  if (!found.ok()) return found.error();
  std::unique_ptr<OfiDevice> device(new OfiDevice);
  device->info_ = std::move(found).value();
  device->traits_ = traits_of(*device->info_);
  const Status opened = device->open_all();
  if (!opened.ok())
    return Error(opened.error().code(), "libfabric provider " + device->provider() + ", domain " +
                                            device->info_->domain_attr->name + ": " +
                                            opened.error().message());
  return device;
}

Status OfiDevice::open_completions() {
  fi_cq_attr attributes{};
  attributes.format = FI_CQ_FORMAT_MSG;
  attributes.size = info_->tx_attr->size + info_->rx_attr->size;
  for (const fi_wait_obj wait : {FI_WAIT_FD, FI_WAIT_NONE}) {
    attributes.wait_obj = wait;
    fid_cq* queue = nullptr;
    const int code = fi_cq_open(domain_.get(), &attributes, &queue, nullptr);
    if (code != 0) {
      if (wait == FI_WAIT_NONE) return fi_refused("fi_cq_open", code);
      continue;
    }
    completions_.reset(queue);
    int fd = -1;
    if (wait == FI_WAIT_NONE) return ok_status();
    if (fi_control(&queue->fid, FI_GETWAIT, &fd) == 0 && fd >= 0) {
      wait_fd_ = fd;
      return ok_status();
    }
    completions_.reset();
  }
  return ok_status();
}

namespace {

Error explain_enable(int code) {
  Error refused = fi_refused("fi_enable", code);
  if (code != -FI_EBUSY) return refused;
  const std::string own = std::to_string(getpid());
  return Error(refused.code(),
               refused.message() + "; libfabric's shm says so where a process of our number (" +
                   own + ") was killed and left its files: rm /dev/shm/" + own + ":*");
}

}  // namespace

Result<FiOwner<fid_ep>> OfiDevice::make_endpoint() const {
  fid_ep* endpoint = nullptr;
  if (const int code = fi_endpoint(domain_.get(), info_.get(), &endpoint, nullptr); code != 0)
    return fi_refused("fi_endpoint", code);
  FiOwner<fid_ep> owner(endpoint);
  int code = fi_ep_bind(endpoint, &completions_->fid, FI_TRANSMIT | FI_RECV);
  if (code == 0) code = fi_ep_bind(endpoint, &addresses_->fid, 0);
  if (code != 0) return fi_refused("fi_ep_bind", code);
  if (code = fi_enable(endpoint); code != 0) return explain_enable(code);
  return owner;
}

Status OfiDevice::renew_reader() {
  reader_.reset();
  auto made = make_endpoint();
  if (!made.ok()) return made.error();
  reader_ = std::move(made).value();
  return ok_status();
}

Status OfiDevice::open_all() {
  fid_fabric* fabric = nullptr;
  if (const int code = fi_fabric(info_->fabric_attr, &fabric, nullptr); code != 0)
    return fi_refused("fi_fabric", code);
  fabric_.reset(fabric);
  fid_domain* domain = nullptr;
  if (const int code = fi_domain(fabric, info_.get(), &domain, nullptr); code != 0)
    return fi_refused("fi_domain", code);
  domain_.reset(domain);
  if (Status opened = open_completions(); !opened.ok()) return opened;
  fi_av_attr table{};
  fid_av* addresses = nullptr;
  if (const int code = fi_av_open(domain, &table, &addresses, nullptr); code != 0)
    return fi_refused("fi_av_open", code);
  addresses_.reset(addresses);
  auto endpoint = make_endpoint();
  if (!endpoint.ok()) return endpoint.error();
  endpoint_ = std::move(endpoint).value();
  if (traits_.can_read)
    if (Status made = renew_reader(); !made.ok()) return made;
  std::array<std::byte, 1024> name{};
  std::size_t bytes = name.size();
  if (const int code = fi_getname(&endpoint_->fid, name.data(), &bytes); code != 0)
    return fi_refused("fi_getname", code);
  name_.assign(name.begin(), name.begin() + static_cast<std::ptrdiff_t>(bytes));
  return ok_status();
}

NetAddress OfiDevice::own_address() const {
  NetAddress out;
  if (has_ip_addresses(*info_) && name_.size() >= sizeof(sockaddr_in)) {
    sockaddr_in6 name{};
    std::memcpy(&name, name_.data(), std::min(name_.size(), sizeof(name)));
    if (name.sin6_family == AF_INET6) {
      out.family = 6;
      out.scope = name.sin6_scope_id;
      std::memcpy(out.ip.data(), &name.sin6_addr, sizeof(name.sin6_addr));
    } else if (name.sin6_family == AF_INET) {
      out.family = 4;
      std::memcpy(out.ip.data(), &reinterpret_cast<const sockaddr_in&>(name).sin_addr,
                  sizeof(in_addr));
    }
    if (!out.is_wildcard()) return out;
  }
  if ((info_->caps & FI_REMOTE_COMM) == 0 && info_->addr_format == FI_ADDR_STR)
    return {.ip = {127, 0, 0, 1}, .family = 4};
  return {};
}

bool OfiDevice::may_be_name(std::span<const std::byte> name) const {
  if (info_->addr_format == FI_ADDR_STR)
    return !name.empty() && name.size() <= 255 && name.back() == std::byte{0};
  return name.size() == name_.size();
}

Result<fi_addr_t> OfiDevice::add_peer(std::span<const std::byte> name) {
  for (KnownPeer& peer : peers_) {
    if (!std::equal(peer.name.begin(), peer.name.end(), name.begin(), name.end())) continue;
    ++peer.uses;
    return peer.address;
  }
  KnownPeer peer{.name = {name.begin(), name.end()}, .address = FI_ADDR_UNSPEC, .uses = 1};
  const int count = fi_av_insert(addresses_.get(), peer.name.data(), 1, &peer.address, 0, nullptr);
  if (count != 1)
    return fi_refused("fi_av_insert of the peer's address", count < 0 ? count : -FI_EINVAL);
  peers_.push_back(std::move(peer));
  return peers_.back().address;
}

void OfiDevice::remove_peer(std::span<const std::byte> name, fi_addr_t address) {
  const auto found = std::find_if(peers_.begin(), peers_.end(), [&](const KnownPeer& peer) {
    return peer.address == address &&
           std::equal(peer.name.begin(), peer.name.end(), name.begin(), name.end());
  });
  if (found == peers_.end() || --found->uses != 0) return;
  fi_av_remove(addresses_.get(), &found->address, 1, 0);
  peers_.erase(found);
}

bool OfiDevice::may_sleep() const {
  fid* const watched = &completions_->fid;
  fid* list[] = {watched};
  return fi_trywait(fabric_.get(), list, 1) == 0;
}

bool OfiDevice::is_woken() const {
  pollfd one{.fd = wait_fd_, .events = POLLIN, .revents = 0};
  return ::poll(&one, 1, 0) == 1;
}

}  // namespace spindrift
