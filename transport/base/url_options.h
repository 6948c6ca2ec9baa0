#pragma once
// What the address of a provider says after '?': its tunables, without the provider's name in front
// ("udp://?gso=0" for udp_gso).
#include <string_view>

#include "spindrift/address.h"
#include "spindrift/tunables.h"

namespace spindrift {

// Sets what `url` says of the tunables of `scope`; refuses what is none of them.
Status take_url_options(const Url& url, TunableScope scope, Settings& settings);
// Adds to `url` what it does not say itself.
void add_url_options(const Settings& settings, TunableScope scope, Url& url);

// Options are an endpoint's: the addresses that it listens on and connects to have none.
Status refuse_url_options(const Url& url);

}  // namespace spindrift
