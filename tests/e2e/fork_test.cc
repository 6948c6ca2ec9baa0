// A process that forks while its endpoints are at work: the child may look at them and end them,
// and harms nobody; the parent goes on.
#include <array>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spindrift/open.h"

#include "transport/base/fork_guard.h"

namespace spindrift {
namespace {

using namespace std::chrono_literals;

struct Two {
  std::unique_ptr<Endpoint> server;
  std::unique_ptr<Endpoint> client;
  ConnId at_server{};
  ConnId at_client{};
};

// Guardians make the server answer while the client waits.
Two open_two(const std::string& address) {
  OpenOptions options;
  options.endpoint.has_guardian = true;
  Two out;
  auto server = open_endpoint(address, options);
  auto client = open_endpoint(address, options);
  EXPECT_TRUE(server.ok() && client.ok());
  out.server = std::move(server).value();
  out.client = std::move(client).value();
  EXPECT_TRUE(out.server->listen(address).ok());
  std::thread accepts([&out] {
    auto conn = accept_one(*out.server, 30s);
    EXPECT_TRUE(conn.ok());
    if (conn.ok()) out.at_server = conn.value();
  });
  auto conn = connect_and_wait(*out.client, out.server->local_addresses().at(0));
  EXPECT_TRUE(conn.ok());
  if (conn.ok()) out.at_client = conn.value();
  accepts.join();
  return out;
}

// Sends `text` to the server's RECEIVE and waits for both ends.
void expect_carries(Two& two, const std::string& text) {
  std::array<std::byte, 64> to{};
  const std::span<const std::byte> from = std::as_bytes(std::span(text));
  const auto target = two.server->register_memory(to, Access::kLocalWrite).value();
  const Sge into = sge_of(target, 0, to.size());
  const WorkRequest receive{.conn = two.at_server, .kind = OpKind::kReceive, .local = {&into, 1}};
  ASSERT_EQ(two.server->post({&receive, 1}).accepted, 1U) << two.server->last_error(ConnId{});
  const Sge piece{.data = const_cast<std::byte*>(from.data()),
                  .bytes = static_cast<std::uint32_t>(from.size())};
  const WorkRequest send{
      .conn = two.at_client, .kind = OpKind::kSend, .is_inline = true, .local = {&piece, 1}};
  ASSERT_EQ(two.client->post({&send, 1}).accepted, 1U) << two.client->last_error(ConnId{});
  const auto received = wait_completion(*two.server, 30s);
  ASSERT_TRUE(received.ok()) << received.error().message();
  EXPECT_EQ(received.value().status, OpStatus::kOk) << two.server->last_error(two.at_server);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(to.data()), text.size()), text);
  const auto sent = wait_completion(*two.client, 30s);
  ASSERT_TRUE(sent.ok()) << sent.error().message();
  EXPECT_EQ(sent.value().status, OpStatus::kOk);
  EXPECT_TRUE(two.server->deregister_memory(target).ok());
}

bool is_told(const Error& error) {
  return error.message() == ForkGuard::sentence("endpoint");
}

// What the child finds; 0: all as it should be.
int use_in_child(Two& two, const std::string& listening) {
  std::array<std::byte, 8> bytes{};
  const Sge piece{.data = bytes.data(), .bytes = 8};
  const WorkRequest send{
      .conn = two.at_client, .kind = OpKind::kSend, .is_inline = true, .local = {&piece, 1}};
  if (two.client->post({&send, 1}).accepted != 0) return 2;
  if (two.client->last_error(ConnId{}) != ForkGuard::sentence("endpoint")) return 3;
  const auto connected = two.client->connect(listening);
  if (connected.ok() || !is_told(connected.error())) return 4;
  const auto listener = two.server->listen(listening);
  if (listener.ok() || !is_told(listener.error())) return 5;
  const auto region = two.client->register_memory(bytes, Access::kLocalWrite);
  if (region.ok() || !is_told(region.error())) return 6;
  std::array<Completion, 4> done{};
  two.client->progress();
  if (two.server->poll(done) != 0) return 7;
  two.client->wait(std::chrono::hours(1));
  two.client->close(two.at_client);
  two.client->abort(two.at_client);
  two.server->release(two.at_server);
  two = {};
  return 0;
}

class Forked : public testing::TestWithParam<const char*> {};

TEST_P(Forked, ChildLeavesTheParentsEndpointsAlone) {
  Two two = open_two(GetParam());
  ASSERT_NE(two.at_server.value, 0U);
  ASSERT_NO_FATAL_FAILURE(expect_carries(two, "before"));
  const std::string listening = two.server->local_addresses().at(0);

  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(use_in_child(two, listening));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "the child ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);

  ASSERT_NO_FATAL_FAILURE(expect_carries(two, "after"));
  std::thread accepts([&two] { EXPECT_TRUE(accept_one(*two.server, 30s).ok()); });
  EXPECT_TRUE(connect_and_wait(*two.client, listening).ok());
  accepts.join();
}

INSTANTIATE_TEST_SUITE_P(, Forked, testing::Values("udp://127.0.0.1:0", "shm://"),
                         [](const auto& one) { return std::string(one.param, 3); });

}  // namespace
}  // namespace spindrift
