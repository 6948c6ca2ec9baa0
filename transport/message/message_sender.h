#pragma once
// What a connection sends: its requests, chunk by chunk over the paths, the answers it owes, and
// the words it shows.
#include "transport/message/message_context.h"

namespace spindrift {

// Sends what may be sent; what finds no room is tried again with the next turn.
void send_requests(MessageContext& ctx, MessageConnection& c);
void send_responses(MessageContext& ctx, MessageConnection& c);
// Shows the peer `c.shows` as it stands, with the newest counts.
void show(MessageContext& ctx, MessageConnection& c);

// The peer has executed our requests up to `done`, and posted `credits` RECEIVEs, ever. Nonsense is
// ignored.
void on_told(MessageContext& ctx, MessageConnection& c, std::uint32_t done, std::uint32_t credits);
// The message `number` and all behind it were not taken: they are sent again, from there on.
void on_turned_away(MessageContext& ctx, MessageConnection& c, std::uint32_t number);

// Says to the peer that what its answers to READs offered has been fetched; what finds no room
// stays owed.
void send_read_dones(MessageContext& ctx, MessageConnection& c);
// A record of its own, neither request nor answer. False: no room.
bool send_note(MessageContext& ctx, MessageConnection& c, Record& note);

// Whether the oldest request that is not begun could ever be: a message towards a peer that posts
// no more RECEIVEs could not.
bool is_hopeless(const MessageConnection& c, const MessageRequest& request);

// CRC of a record, with zero in its own field, and its payload.
std::uint32_t record_crc(Record record, std::span<const Sge> payload);

}  // namespace spindrift
