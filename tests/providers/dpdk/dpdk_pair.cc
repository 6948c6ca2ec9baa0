#include "tests/providers/dpdk/dpdk_pair.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_ring.h>
#include <unistd.h>

#include "providers/dpdk/dpdk_io.h"
#include "providers/dpdk/eal.h"

namespace spindrift::testing {
namespace {

bool run(const std::string& command) {
  return std::system((command + " > /dev/null 2>&1").c_str()) == 0;
}

MacAddress mac_of(std::size_t host) {
  return MacAddress{{2, 0, 0, 0, 0, static_cast<std::uint8_t>(host + 1)}};
}

DeviceOptions common(std::size_t host, const DpdkPairShape& shape = {}) {
  DeviceOptions options;
  options.queues = shape.queues;
  options.mbufs = shape.mbufs;
  options.mac = mac_of(host);
  options.ring = 512;
  options.mtu = 9000;
  for (const std::uint8_t family : {std::uint8_t{4}, std::uint8_t{6}})
    for (const std::size_t rail : {0U, 1U}) {
      options.nets.push_back(
          {dpdk_address(family, host, rail), static_cast<std::uint8_t>(family == 6 ? 64 : 24)});
      options.neighbors.push_back({dpdk_address(family, 1 - host, rail), mac_of(1 - host)});
    }
  return options;
}

// Looks for frames once it is: memif's client offers buffers to its server only then.
bool is_up(const std::string& device) {
  std::uint16_t port = 0;
  rte_eth_link link{};
  rte_mbuf* frame = nullptr;
  if (rte_eth_dev_get_port_by_name(device.c_str(), &port) != 0 ||
      rte_eth_link_get_nowait(port, &link) != 0 || link.link_status != RTE_ETH_LINK_UP)
    return false;
  if (rte_eth_rx_burst(port, 0, &frame, 1) == 1) rte_pktmbuf_free(frame);
  return true;
}

// Devices of which there is one pair per process: memif's stay open (PortDevice::must_stay_open),
// rings have no other owner, vhost's take a second to close, and a card's to find its link.
void keep_open(DpdkPair& pair) {
  static auto* const kept = new std::map<std::string, std::unique_ptr<PacketIo>>;
  for (const std::size_t host : {0U, 1U}) {
    const DeviceOptions one = pair.options(host);
    auto& io = (*kept)[one.device];
    if (io == nullptr) io = std::move(open_dpdk({&one, 1})).value();
  }
}

class MemoryLink : public DpdkPair {
 public:
  explicit MemoryLink(const char* kind)
      : socket_(std::filesystem::temp_directory_path().string() + "/spindrift-" + kind + "-" +
                std::to_string(getpid())) {}
  void connect() override {
    for (int tries = 0; tries < 2000; ++tries) {
      if (is_up(options(0).device) && is_up(options(1).device)) return;
      usleep(1000);
    }
  }
  void settle() override {}

 protected:
  const std::string& socket() const { return socket_; }

 private:
  std::string socket_;
};

class Memif final : public MemoryLink {
 public:
  Memif(bool is_zero_copy, const DpdkPairShape& shape)
      : MemoryLink("memif"), is_zero_copy_(is_zero_copy), shape_(shape) {
    keep_open(*this);
  }
  DeviceOptions options(std::size_t host) override {
    DeviceOptions out = common(host, shape_);
    out.device = "net_memif" + std::to_string(host);
    out.arguments = std::string("role=") + (host == 0 ? "server" : "client") +
                    ",socket-abstract=no,rsize=9,bsize=9216,socket=" + socket();
    if (is_zero_copy_ && host == 1) out.arguments += ",zero-copy=yes";
    return out;
  }

 private:
  bool is_zero_copy_;
  DpdkPairShape shape_;
};

class Vhost final : public MemoryLink {
 public:
  explicit Vhost(const DpdkPairShape& shape) : MemoryLink("vhost"), shape_(shape) {
    keep_open(*this);
  }
  DeviceOptions options(std::size_t host) override {
    DeviceOptions out = common(host, shape_);
    out.device = host == 0 ? "net_vhost0" : "net_virtio_user0";
    out.arguments =
        (host == 0 ? "iface=" : "path=") + socket() + ",queues=" + std::to_string(shape_.queues);
    if (host == 1) out.arguments += ",queue_size=512,mac=" + to_string(mac_of(1));
    if (host == 1 && shape_.queues > 1)
      out.arguments += ",cq=1";  // by which it asks for the others
    return out;
  }

 private:
  DpdkPairShape shape_;
};

class Veth final : public DpdkPair {
 public:
  Veth(bool is_xdp, const DpdkPairShape& shape) : is_xdp_(is_xdp), shape_(shape) {
    const std::string link = "ip link add " + interface(0) + " type veth peer name " + interface(1);
    static_cast<void>(run(link));
    for (const std::size_t host : {0U, 1U})
      static_cast<void>(run("ip link set " + interface(host) + " address " +
                            to_string(mac_of(host)) + " mtu " + (is_xdp ? "3300" : "9000") +
                            " up"));
  }
  ~Veth() override { static_cast<void>(run("ip link del " + interface(0))); }
  DeviceOptions options(std::size_t host) override {
    DeviceOptions out = common(host, shape_);
    const std::string number = std::to_string(2 * serial_ + host);
    if (is_xdp_) {
      out.device = "net_af_xdp" + number;
      out.arguments = "iface=" + interface(host);
      out.mtu = 3000;
    } else {
      out.device = "net_af_packet" + number;
      out.arguments = "iface=" + interface(host) + ",blocksz=65536,framesz=16384,framecnt=512" +
                      ",qpairs=" + std::to_string(shape_.queues);
    }
    return out;
  }
  // The kernel looks at its links once a second at most, where many come and go: until it has found
  // both ends up it drops what is sent.
  void connect() override {
    for (int tries = 0; tries < 5000 && !(is_running(0) && is_running(1)); ++tries)
      usleep(1000);
    usleep(10000);
  }
  // A thread of the kernel's carries frames where processors are busy, and has its turns to wait
  // for: until nothing waits for it any more.
  void settle() override {
    usleep(25000);
    for (int tries = 0; tries < 200 && kernel_backlog() != 0; ++tries)
      usleep(10000);
  }

 private:
  bool is_running(std::size_t host) const {
    std::string state;
    std::ifstream("/sys/class/net/" + interface(host) + "/operstate") >> state;
    return state == "up";
  }
  // Frames that wait for the kernel's receive threads, of all interfaces.
  static std::uint64_t kernel_backlog() {
    constexpr int kBacklogColumn = 11;
    std::ifstream processors("/proc/net/softnet_stat");
    std::uint64_t sum = 0;
    for (std::string line; std::getline(processors, line);) {
      std::istringstream words(line);
      std::string word;
      for (int column = 0; column <= kBacklogColumn && words >> word; ++column)
        if (column == kBacklogColumn) sum += std::stoull(word, nullptr, 16);
    }
    return sum;
  }
  std::string interface(std::size_t host) const {
    return "sdv" + std::to_string(getpid()) + (host == 0 ? "a" : "b") + std::to_string(serial_);
  }
  static unsigned next_serial() {
    static unsigned next = 0;
    return next++;
  }
  bool is_xdp_;
  DpdkPairShape shape_;
  unsigned serial_ = next_serial();
};

// Within the process: each of the two sends into the ring that the other receives from. (What the
// driver makes by its own arguments sends to itself.)
class Rings final : public DpdkPair {
 public:
  Rings() {
    static const bool is_made = make();
    if (is_made) keep_open(*this);
  }
  DeviceOptions options(std::size_t host) override {
    DeviceOptions out = common(host);
    out.device = "net_ring_host" + std::to_string(host);
    return out;
  }
  void connect() override {}
  void settle() override {}

 private:
  static bool make() {
    if (!start_eal("net_ring_host0").ok()) return false;
    use_thread();
    rte_ring* const there = rte_ring_create("there", 1024, SOCKET_ID_ANY, 0);
    rte_ring* const back = rte_ring_create("back", 1024, SOCKET_ID_ANY, 0);
    return there != nullptr && back != nullptr &&
           rte_eth_from_rings("host0", &back, 1, &there, 1, 0) >= 0 &&
           rte_eth_from_rings("host1", &there, 1, &back, 1, 0) >= 0;
  }
};

// Interfaces of the kernel's that end in this process, on one bridge of the kernel's.
class Taps final : public DpdkPair {
 public:
  Taps() {
    keep_open(*this);
    static_cast<void>(run("ip link add " + bridge() + " type bridge mcast_snooping 0"));
    for (const std::size_t host : {0U, 1U}) {
      // A bridge keeps for itself what is for the address of one of its own interfaces, which the
      // driver makes that of the device.
      static_cast<void>(run("ip link set " + interface(host) + " address 02:00:00:00:77:0" +
                            std::to_string(host) + " addrgenmode none master " + bridge()));
      static_cast<void>(run("ip link set " + interface(host) + " up"));
    }
    static_cast<void>(run("ip link set " + bridge() + " addrgenmode none up"));
  }
  ~Taps() override { static_cast<void>(run("ip link del " + bridge())); }
  DeviceOptions options(std::size_t host) override {
    DeviceOptions out = common(host);
    out.mtu = 1500;
    out.device = "net_tap" + std::to_string(host);
    out.arguments = "iface=" + interface(host);
    return out;
  }
  void connect() override {}
  void settle() override { usleep(10000); }

 private:
  static std::string interface(std::size_t host) {
    return "sdt" + std::to_string(getpid()) + (host == 0 ? "a" : "b");
  }
  static std::string bridge() { return "sdr" + std::to_string(getpid()); }
};

// Ports of a virtual machine (tests/vm/run_in_vm.sh), on one hub.
class Nics final : public DpdkPair {
 public:
  explicit Nics(PayloadChoice payload) : payload_(payload) { keep_open(*this); }
  DeviceOptions options(std::size_t host) override {
    DeviceOptions out = common(host);
    out.payload = payload_;
    const std::string both = ports();
    const std::size_t comma = both.find(',');
    out.device = host == 0 ? both.substr(0, comma) : both.substr(comma + 1);
    return out;
  }
  void connect() override {
    static const bool is_connected = wait_for_links(*this);
    static_cast<void>(is_connected);
  }
  // Another thread of the machine's carries frames, and may have other things to do.
  void settle() override { usleep(30000); }
  static std::string ports() {
    const char* both = std::getenv("VM_PORTS");  // NOLINT(concurrency-mt-unsafe): only read
    return both == nullptr ? "" : both;
  }

 private:
  // The machine's card negotiates once more, for half a second, after its driver has found it up.
  static bool wait_for_links(Nics& nics) {
    for (int tries = 0; tries < 5000; ++tries) {
      if (is_up(nics.options(0).device) && is_up(nics.options(1).device)) break;
      usleep(1000);
    }
    usleep(600000);
    return true;
  }
  PayloadChoice payload_;
};

}  // namespace

NetAddress dpdk_address(std::uint8_t family, std::size_t host, std::size_t rail) {
  const std::string number = std::to_string(host + 1);
  const std::string text = family == 6 ? "fd77:" + std::to_string(rail) + "::" + number
                                       : "10.77." + std::to_string(rail) + "." + number;
  return parse_net_address(family == 6 ? "[" + text + "]:0" : text + ":0", 0).value();
}

std::vector<std::string> dpdk_pair_names() {
  return {"memif",     "memif_zero_copy", "vhost", "ring",          "tap",
          "af_packet", "af_xdp",          "e1000", "e1000_in_place"};
}

std::unique_ptr<DpdkPair> make_dpdk_pair(const std::string& name, const DpdkPairShape& shape) {
  if (name == "memif") return std::make_unique<Memif>(false, shape);
  if (name == "memif_zero_copy") return std::make_unique<Memif>(true, shape);
  if (name == "vhost") return std::make_unique<Vhost>(shape);
  if (name == "ring") return std::make_unique<Rings>();
  if (name == "tap") return std::make_unique<Taps>();
  if (name == "e1000") return std::make_unique<Nics>(PayloadChoice::kCopy);
  if (name == "e1000_in_place") return std::make_unique<Nics>(PayloadChoice::kInPlace);
  return std::make_unique<Veth>(name == "af_xdp", shape);
}

std::string reason_to_skip_dpdk_pair(const std::string& name) {
  if (name.starts_with("e1000") && Nics::ports().empty())
    return "NOT TESTED: " + name + " needs the ports of a virtual machine (./dev vm-test)";
  const bool is_of_the_kernel = name.starts_with("af_") || name == "tap";
  if (!is_of_the_kernel) return {};
  if (geteuid() != 0) return "NOT TESTED: " + name + " needs root";
  if (name == "tap")
    return run("ip link add sdprobe2 type bridge && ip link del sdprobe2 && test -c /dev/net/tun")
               ? std::string()
               : "NOT TESTED: tap needs a bridge and /dev/net/tun, which this kernel lacks";
  if (run("ip link add sdprobe0 type veth peer name sdprobe1") && run("ip link del sdprobe0"))
    return {};
  return "NOT TESTED: " + name + " needs veth interfaces, which this kernel does not make";
}

}  // namespace spindrift::testing
