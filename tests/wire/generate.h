#pragma once
// Random headers with every field inside its range, for round trips.
#include <algorithm>
#include <cstring>
#include <span>
#include <string>

#include "transport/base/rng.h"
#include "transport/wire/hello.h"
#include "transport/wire/pds.h"
#include "transport/wire/request_codec.h"
#include "transport/wire/ses.h"

namespace spindrift::wire {

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : rng_(seed) {}

  RudRequest rud_request() {
    RudRequest out{.next = static_cast<NextHeader>(rng_.below(7)),
                   .is_retransmit = flag(),
                   .wants_ack = flag(),
                   .is_syn = flag(),
                   .has_cc_state = flag(),
                   .clear_psn_offset = bits<std::int16_t>(16),
                   .psn = bits<std::uint32_t>(32),
                   .spdcid = bits<std::uint16_t>(16)};
    if (out.has_cc_state) {
      out.ccc_id = bits<std::uint8_t>(8);
      out.credit_target = bits<std::uint32_t>(24);
    }
    (out.is_syn ? out.psn_offset : out.dpdcid) = bits<std::uint16_t>(out.is_syn ? 12 : 16);
    return out;
  }

  Ack ack() {
    constexpr NextHeader kNext[] = {NextHeader::kNone, NextHeader::kResponse,
                                    NextHeader::kResponseData, NextHeader::kResponseDataSmall};
    Ack out{.next = kNext[rng_.below(4)],
            .is_marked = flag(),
            .is_retransmit = flag(),
            .is_probe = flag(),
            .request = static_cast<std::uint8_t>(rng_.below(3)),
            .has_cc = flag(),
            .cack_psn = bits<std::uint32_t>(32),
            .spdcid = bits<std::uint16_t>(16),
            .dpdcid = bits<std::uint16_t>(16)};
    if (out.is_probe) {
      out.probe_opaque = bits<std::uint16_t>(16);
    } else {
      out.ack_psn_offset = bits<std::int16_t>(16);
    }
    if (out.has_cc) {
      out.cc_type = static_cast<CcType>(rng_.below(2));
      out.mpr = bits<std::uint8_t>(8);
      out.sack_psn_offset = bits<std::int16_t>(16);
      out.sack_bitmap = rng_.next();
      out.ack_cc_state = rng_.next();
    }
    return out;
  }

  Nack nack() {
    return {.is_marked = flag(),
            .is_retransmit = flag(),
            .code = bits<std::uint8_t>(8),
            .vendor_code = bits<std::uint8_t>(8),
            .psn = bits<std::uint32_t>(32),
            .spdcid = bits<std::uint16_t>(16),
            .dpdcid = bits<std::uint16_t>(16),
            .payload = bits<std::uint32_t>(32)};
  }

  Control control() {
    return {.type = static_cast<ControlType>(rng_.below(10)),
            .is_retransmit = flag(),
            .wants_ack = flag(),
            .is_syn = flag(),
            .probe_opaque = bits<std::uint16_t>(16),
            .psn = bits<std::uint32_t>(32),
            .spdcid = bits<std::uint16_t>(16),
            .dpdcid = bits<std::uint16_t>(16),
            .payload = bits<std::uint32_t>(32)};
  }

  NsccState nscc_state() {
    return {.service_time = bits<std::uint16_t>(16),
            .restores_window = flag(),
            .window_penalty = bits<std::uint8_t>(7),
            .received_quanta = bits<std::uint32_t>(24),
            .out_of_order = bits<std::uint16_t>(16)};
  }

  StandardRequest standard_request() {
    auto out = request<StandardRequest>();
    out.message_id = bits<std::uint16_t>(16);
    out.initiator = bits<std::uint32_t>(32);
    out.key = rng_.next();
    if (out.is_som) {
      out.header_data = rng_.next();
    } else {
      out.payload_length = bits<std::uint16_t>(14);
      out.message_offset = bits<std::uint32_t>(32);
    }
    out.request_length = bits<std::uint32_t>(32);
    return out;
  }

  SmallRequest small_request() {
    auto out = request<SmallRequest>();
    out.request_length = bits<std::uint16_t>(14);
    return out;
  }

  AtomicExtension atomic_extension() {
    AtomicExtension out{.opcode = flag() ? AtomicOpcode::kSum : AtomicOpcode::kCompareSwap,
                        .datatype = bits<std::uint8_t>(8),
                        .semantic_control = bits<std::uint8_t>(8)};
    if (out.opcode == AtomicOpcode::kCompareSwap) {
      out.compare = rng_.next();
      out.swap = rng_.next();
    }
    return out;
  }

  Response response() {
    return {.list = bits<std::uint8_t>(2),
            .opcode = static_cast<ResponseOpcode>(rng_.below(4)),
            .return_code = bits<std::uint8_t>(6),
            .message_id = bits<std::uint16_t>(16),
            .ri_generation = bits<std::uint8_t>(8),
            .job_id = bits<std::uint32_t>(24),
            .modified_length = bits<std::uint32_t>(32)};
  }

  ResponseData response_data() {
    return {.list = bits<std::uint8_t>(2),
            .opcode = static_cast<ResponseOpcode>(rng_.below(4)),
            .return_code = bits<std::uint8_t>(6),
            .message_id = bits<std::uint16_t>(16),
            .ri_generation = bits<std::uint8_t>(8),
            .job_id = bits<std::uint32_t>(24),
            .read_message_id = bits<std::uint16_t>(16),
            .payload_length = bits<std::uint16_t>(14),
            .modified_length = bits<std::uint32_t>(32),
            .message_offset = bits<std::uint32_t>(32)};
  }

  ResponseDataSmall response_data_small() {
    return {.list = bits<std::uint8_t>(2),
            .opcode = static_cast<ResponseOpcode>(rng_.below(4)),
            .return_code = bits<std::uint8_t>(6),
            .payload_length = bits<std::uint16_t>(14),
            .job_id = bits<std::uint32_t>(24),
            .request_psn = bits<std::uint32_t>(32)};
  }

  Hello hello() {
    Hello out;
    out.kind = static_cast<HelloKind>(1 + rng_.below(3));
    out.version_max = static_cast<std::uint16_t>(1 + rng_.below(0xffff));
    out.version_min = static_cast<std::uint16_t>(1 + rng_.below(out.version_max));
    out.nonce = rng_.next();
    out.peer_nonce = out.kind == HelloKind::kConnect ? 0 : rng_.next();
    if (out.kind == HelloKind::kAccept)
      out.peer_start_psn = static_cast<std::uint32_t>(rng_.next());
    out.partition_key = bits<std::uint32_t>(32);
    out.payload_mtu = static_cast<std::uint32_t>(128 * (4 + rng_.below(124)));
    out.path_count = static_cast<std::uint16_t>(1 + rng_.below(256));
    out.cc_family = static_cast<CcFamily>(rng_.below(2));
    out.crc = static_cast<std::uint8_t>(1 + rng_.below(2));
    out.host_id = rng_.next();
    out.receive_buffer_bytes = rng_.next();
    out.receive_credits = bits<std::uint32_t>(32);
    out.window_packets = static_cast<std::uint32_t>(128 * (1 + rng_.below(255)));
    out.max_reads = static_cast<std::uint16_t>(rng_.below(1025));
    out.link_rate_bps = rng_.next();
    out.progresses_alone = flag();
    out.rail_count = static_cast<std::uint8_t>(rng_.below(kMaxHelloRails + 1));
    for (std::size_t i = 0; i < out.rail_count; ++i)
      out.rails[i] = rail();
    out.private_bytes = static_cast<std::uint16_t>(rng_.below(kMaxPrivateBytes + 1));
    for (std::size_t i = 0; i < out.private_bytes; ++i)
      out.private_data[i] = byte();
    if (out.kind == HelloKind::kRefuse) {
      out.refuse_code = static_cast<RefuseCode>(rng_.below(9));
      out.set_reason(std::string(rng_.below(kMaxReasonBytes + 1), 'x'));
    }
    return out;
  }

  void fill(std::span<std::byte> out) {
    while (!out.empty()) {
      const std::uint64_t word = rng_.next();
      const auto part = out.first(std::min(out.size(), sizeof(word)));
      std::memcpy(part.data(), &word, part.size());
      out = out.subspan(part.size());
    }
  }
  std::byte byte() { return static_cast<std::byte>(rng_.next()); }
  Rng& rng() { return rng_; }

 private:
  template <class Request>
  Request request() {
    Request out;
    out.opcode = static_cast<Opcode>(rng_.below(6));
    out.delivery_complete = flag();
    out.initiator_error = flag();
    out.is_relative = flag();
    out.has_header_data = flag();
    out.is_eom = flag();
    out.is_som = flag();
    out.ri_generation = bits<std::uint8_t>(8);
    out.job_id = bits<std::uint32_t>(24);
    out.pid_on_fep = bits<std::uint16_t>(12);
    out.resource_index = bits<std::uint16_t>(12);
    out.buffer_offset = rng_.next();
    return out;
  }

  NetAddress rail() {
    NetAddress out;
    out.family = flag() ? 4 : 6;
    const std::size_t ip_bytes = out.family == 4 ? 4 : 16;
    for (std::size_t i = 0; i < ip_bytes; ++i)
      out.ip[i] = bits<std::uint8_t>(8);
    out.ip[0] |= 1;  // not the wildcard
    out.port = static_cast<std::uint16_t>(1 + rng_.below(0xffff));
    if (out.family == 6) out.scope = bits<std::uint32_t>(32);
    return out;
  }

  bool flag() { return rng_.below(2) == 1; }
  template <class T>
  T bits(unsigned count) {
    return static_cast<T>(rng_.next() >> (64 - count));
  }

  Rng rng_;
};

}  // namespace spindrift::wire
