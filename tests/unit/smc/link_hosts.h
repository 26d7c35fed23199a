// Two link groups without a device. Each has an owner that has ports and creates queue pairs as the
// relay does. Messages are delivered in order; a link whose port is down delivers none.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "unit/smc/transcript.h"

namespace fairlead::smc {

struct Host {
  Host(GroupRole role, std::uint8_t host_id, unsigned ports, const Terms& terms,
       std::uint8_t links_max, TimePoint now)
      : id(host_id), up(ports, true), group(role, terms, GroupTimes{}, now, links_max) {}

  Gid gid(std::size_t port) const {
    Gid made;
    made.bytes[14] = id;
    made.bytes[15] = static_cast<std::uint8_t>(port + 1);
    return made;
  }
  LinkIdentity make(LinkIndex link, std::size_t port) {
    port_of[link] = port;
    return {gid(port), Mac{}, QpNumber{static_cast<std::uint32_t>(id * 100 + ++queue_pairs)}};
  }
  // Chooses as the relay does: a port without a link, else one whose link is redundant, else any.
  std::optional<std::size_t> choose_port(const LinkPeer& peer) const {
    for (const bool spared : {false, true})
      for (std::size_t port = 0; port < up.size(); ++port) {
        bool taken = !up[port];
        for (LinkIndex i = 0; i < kLinksMax; ++i)
          if (group.links().active(i) && port_of.at(i) == port &&
              !(spared && group.links().is_asymmetric(i)))
            taken = true;
        if (!taken) return port;
      }
    if (group.role() == GroupRole::kServer && group.links().active_count() > 1) return std::nullopt;
    if (group.role() == GroupRole::kClient && group.links().type() == GroupType::kSymmetric)
      return std::nullopt;
    for (LinkIndex i = 0; i < kLinksMax; ++i)
      if (group.links().active(i) && group.links()[i]->peer().gid == peer.identity.gid)
        return std::nullopt;
    for (std::size_t port = 0; port < up.size(); ++port)
      if (up[port]) return port;
    return std::nullopt;
  }
  void perform(TimePoint now) {
    while (const auto task = group.poll_task(now)) {
      switch (task->kind) {
        case LinkTask::Kind::kPrepare:
          if (const auto port = choose_port(task->peer)) {
            const LinkIdentity local = make(task->link, *port);
            for (const RmbRow row : rmbs)
              group.local_rmbs().set_key(row, task->link, key(row, task->link));
            group.task_done(*task, now, LinkOffer{local, PacketSeq{7}, Mtu::k2048});
          } else {
            group.task_done(*task, now);
          }
          break;
        case LinkTask::Kind::kConnect:
          if (refuse_to_connect)
            group.handle_link_down(task->link, now, "no way to the peer");
          else
            group.task_done(*task, now);
          break;
        case LinkTask::Kind::kMove:
          moves.emplace_back(task->link, task->to);
          break;
        case LinkTask::Kind::kRelease:
          released.push_back(task->link);
          break;
      }
    }
  }
  // Keys differ by link, as with one protection domain a link.
  RmbKey key(std::size_t row, LinkIndex link) const {
    return {RemoteKey{static_cast<std::uint32_t>(id * 10000 + row * 10 + link)},
            RemoteAddress{(row + 1) << 20}};
  }
  RmbRow add_rmb() {
    const std::size_t row = rmbs.size();
    const RmbRow made = *group.local_rmbs().add(0, key(row, 0));
    rmbs.push_back(made);
    for (LinkIndex i = 1; i < kLinksMax; ++i)
      if (group.links()[i]) group.local_rmbs().set_key(made, i, key(row, i));
    return made;
  }
  bool announced(RmbRow rmb) { return group.local_rmbs().announced(rmb, group.links()); }
  void lose_link(LinkIndex link, TimePoint now) {
    group.handle_link_down(link, now, "the cable was cut");
    perform(now);
  }
  void wake(TimePoint now) {
    group.handle_deadline(now);
    perform(now);
  }
  void remove_rmb(RmbRow rmb) {
    group.local_rmbs().remove(rmb);
    std::erase(rmbs, rmb);
  }
  std::vector<GroupEvent::Kind> events() {
    std::vector<GroupEvent::Kind> kinds;
    while (const auto event = group.output().poll_event()) kinds.push_back(event->kind);
    return kinds;
  }
  bool saw(GroupEvent::Kind kind) {
    const auto kinds = events();
    return std::count(kinds.begin(), kinds.end(), kind) != 0;
  }

  std::uint8_t id;
  std::vector<bool> up;
  RecordedGroup group;
  std::map<LinkIndex, std::size_t> port_of;
  std::uint32_t queue_pairs = 0;
  bool refuse_to_connect = false;
  std::vector<std::pair<LinkIndex, LinkIndex>> moves;
  std::vector<RmbRow> rmbs;  // own
  std::vector<LinkIndex> released;
};

class LinkHosts : public testing::Test {
 protected:
  // What a peer says that offers a link to a port of its own.
  static wire::AddLink add_link_request(std::uint8_t number) {
    wire::AddLink message;
    message.gid.bytes[0] = number;
    message.queue_pair = QpNumber{number};
    message.link = LinkNumber{number};
    message.mtu_code = 3;
    return message;
  }
  void set_up(unsigned server_ports, unsigned client_ports, std::uint8_t links = 2,
              std::uint8_t version = 2) {
    terms.version = version;
    terms.max_links = links;
    server.emplace(GroupRole::kServer, std::uint8_t{1}, server_ports, terms, links, now);
    client.emplace(GroupRole::kClient, std::uint8_t{2}, client_ports, terms, links, now);
    const LinkIdentity s = server->make(0, 0);
    const LinkIdentity c = client->make(0, 0);
    client->group.start_first_contact(c, s, now);
    server->group.start_first_contact(s, c, now);
    server->add_rmb();
    client->add_rmb();
    server->group.peer_rmb_named(0, client->key(0, 0));
    client->group.peer_rmb_named(0, server->key(0, 0));
  }
  void connect(unsigned server_ports, unsigned client_ports, std::uint8_t links = 2,
               std::uint8_t version = 2) {
    set_up(server_ports, client_ports, links, version);
    settle();
  }
  wire::LlcVersion version() const {
    return terms.version == 1 ? wire::LlcVersion::k1 : wire::LlcVersion::k2;
  }
  Host& other(Host& one) { return &one == &*server ? *client : *server; }

  // The other end of a link: the same number.
  std::optional<LinkIndex> opposite(Host& from, LinkIndex link) {
    const auto& sent_on = from.group.links()[link];
    if (!sent_on) return std::nullopt;
    Host& to = other(from);
    for (LinkIndex i = 0; i < kLinksMax; ++i) {
      const auto& candidate = to.group.links()[i];
      if (candidate && candidate->local().queue_pair == sent_on->peer().queue_pair) return i;
    }
    return std::nullopt;
  }
  bool carry(Host& from) {
    from.perform(now);
    const auto out = from.group.output().poll_llc();
    if (!out) return false;
    const auto message = wire::decode_llc(out->bytes);
    EXPECT_TRUE(message);
    trace.push_back({&from == &*server, message->body});
    const auto link = opposite(from, out->link);
    if (!link || !from.up[from.port_of[out->link]] || lost(message->body)) return true;
    Host& to = other(from);
    if (!to.up[to.port_of[*link]]) return true;
    to.group.handle_received(*link, now);
    to.group.handle_llc(*link, *message, now);
    to.perform(now);
    return true;
  }
  // The next message of `host`, which stays with the caller.
  template <class Message>
  Message answer(Host& host) {
    const auto out = host.group.output().poll_llc();
    EXPECT_TRUE(out);
    if (!out) return {};
    const auto message = wire::decode_llc(out->bytes);
    EXPECT_EQ(message->version, version());
    EXPECT_TRUE(std::holds_alternative<Message>(message->body));
    return std::get<Message>(message->body);
  }
  // The answer to a request, which is a message of the same type.
  template <class Message>
  Message ask(Host& host, LinkIndex link, const Message& request) {
    inject(host, link, request);
    return answer<Message>(host);
  }
  static GroupEvent next_event(Host& host) {
    const auto event = host.group.output().poll_event();
    EXPECT_TRUE(event);
    return event.value_or(GroupEvent{});
  }
  void settle() {
    for (int rounds = 0; carry(*server) || carry(*client); ++rounds) ASSERT_LT(rounds, 1000);
  }
  void advance(Duration by) {
    now += by;
    for (Host* host : {&*server, &*client}) host->wake(now);
    settle();
  }
  RmbRow begin_to_tell_rmb(Host& host) {
    const RmbRow made = host.add_rmb();
    host.group.start_next_flow(now);
    return made;
  }
  RmbRow tell_rmb(Host& host) {
    const RmbRow made = begin_to_tell_rmb(host);
    settle();
    return made;
  }
  void begin_to_delete_rmb(Host& host, RmbRow rmb) {
    host.group.local_rmbs().want_deleted(rmb);
    host.group.start_next_flow(now);
  }
  void delete_rmb(Host& host, RmbRow rmb) {
    begin_to_delete_rmb(host, rmb);
    settle();
  }
  // The port's links fail for both ends, and each end notices by itself.
  void cut(Host& host, std::size_t port) {
    host.up[port] = false;
    std::vector<std::pair<Host*, LinkIndex>> dead;
    for (LinkIndex i = 0; i < kLinksMax; ++i) {
      if (!host.group.links()[i] || host.port_of[i] != port) continue;
      if (const auto there = opposite(host, i)) dead.emplace_back(&other(host), *there);
      dead.emplace_back(&host, i);
    }
    for (const auto& [end, link] : dead) {
      if (only_one_notices && end != &host) continue;
      end->lose_link(link, now);
    }
    settle();
  }
  void restore(Host& host, std::size_t port) {
    host.up[port] = true;
    std::vector<Gid> gids;
    for (std::size_t i = 0; i < host.up.size(); ++i)
      if (host.up[i]) gids.push_back(host.gid(i));
    host.group.handle_ports_changed(gids, now);
    settle();
  }
  std::vector<unsigned> numbers(const Host& host) {
    std::vector<unsigned> found;
    for (LinkIndex i = 0; i < kLinksMax; ++i)
      if (host.group.links().active(i)) found.push_back(host.group.links()[i]->number().value);
    std::sort(found.begin(), found.end());
    return found;
  }
  void expect_types(GroupType of_server, GroupType of_client) {
    EXPECT_EQ(server->group.links().type(), of_server);
    EXPECT_EQ(client->group.links().type(), of_client);
    EXPECT_EQ(numbers(*server), numbers(*client));
  }
  template <class Message>
  std::vector<Message> sent(bool by_server) {
    std::vector<Message> found;
    for (const auto& [from_server, body] : trace)
      if (from_server == by_server && std::holds_alternative<Message>(body))
        found.push_back(std::get<Message>(body));
    return found;
  }
  template <class Message>
  void inject(Host& to, LinkIndex link, const Message& message, const char* unwritable = nullptr) {
    to.group.handle_llc(link, {version(), wire::LlcBody(message)}, now, unwritable);
    to.perform(now);
  }
  static bool silent(Host& host) { return !host.group.output().poll_llc(); }
  static void drop_output(Host& host) {
    while (host.group.output().poll_llc()) continue;
  }
  // From now on, messages of this type do not arrive.
  template <class Message>
  void drop() {
    dropped.insert(wire::LlcBody(Message{}).index());
  }
  bool lost(const wire::LlcBody& body) const { return drops_all || dropped.contains(body.index()); }

  TimePoint now{std::chrono::hours(1)};
  Terms terms;
  std::optional<Host> server, client;
  bool only_one_notices = false;
  bool drops_all = false;
  std::set<std::size_t> dropped;
  std::vector<std::pair<bool, wire::LlcBody>> trace;
};

}  // namespace fairlead::smc
