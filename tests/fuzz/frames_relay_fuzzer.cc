// The relay of frames as a state machine. An even first byte: two relays talk, and the input says
// who speaks, ends, reads, urges and hands over, and how bytes are split. An odd one: a hostile
// peer sends the rest of the input. Properties: two relays never break a rule, and no byte is lost,
// repeated or moved. A hostile peer's bytes reach the application only as data of valid frames,
// within the bound, and the result does not depend on how they are split.
#include <algorithm>
#include <cstdint>
#include <string>

#include "fuzz/reached.h"
#include "relay/pipes/framed_relay.h"
#include "unit/relay/fake_stream.h"

namespace {

using namespace fairlead;
using namespace fairlead::relay;
using Role = smc::Deferral::Role;

constexpr TimePoint kNow{std::chrono::hours(1)};
constexpr smc::Deferral::Limits kNeverEarned{1ULL << 40, 1U << 30, std::chrono::hours(1)};

TcpRelayResources& shared() {
  static TcpRelayResources resources;
  return resources;
}

struct Side {
  explicit Side(Role role) : relay(role, kNeverEarned, app, net, shared(), kNow) {}
  void say(std::size_t count, bool urgent) {
    if (app.ended) return;
    for (std::size_t i = 0; i < count; ++i) said += static_cast<char>(said.size() % 251);
    const std::string fresh = said.substr(said.size() - count);
    if (!urgent) return app.feed(fresh);
    for (const char c : fresh) app.feed_urgent(c);
  }
  void end() {
    if (!app.ended) app.feed_end();
  }
  void hand_over() {
    if (!relay.deferral().may_hand_over()) return;
    fuzz::reached("handed over");
    relay.towards_net().hand_over();
  }
  void check(const Side& peer) const {
    SMC_ASSERT(*const_cast<FramedRelay&>(relay).towards_app().fault() == '\0');
    SMC_ASSERT(peer.said.starts_with(app.outgoing), app.outgoing.size());
  }

  FakeStream app, net;
  std::string said;
  FramedRelay relay;
};

class Pair {
 public:
  void act(unsigned what, std::size_t count) {
    constexpr std::size_t kLarge = 1024;
    Side& one = what % 2 == 0 ? client_ : server_;
    Side& other = what % 2 == 0 ? server_ : client_;
    switch (what / 2 % 8) {
      case 0:
        return one.say(count, false);
      case 1:
        return one.say(count * kLarge, false);
      case 2:
        return one.say(count % 3, true);
      case 3:
        return one.end();
      case 4:
        return carry(one, other, count * (count % 2 == 0 ? kLarge : 1));
      case 5:
        return one.hand_over();
      case 6:
        return one.app.allow(count * kLarge);
      default:
        return pump(one);
    }
  }
  // Everything arrives now, and the applications read.
  void settle() {
    constexpr int kTurns = 64;
    for (Side* side : {&client_, &server_}) side->app.allow(std::size_t{1} << 40);
    for (int i = 0; i < kTurns; ++i) {
      for (Side* side : {&client_, &server_}) pump(*side);
      carry(client_, server_, std::string::npos);
      carry(server_, client_, std::string::npos);
    }
    client_.check(server_);
    server_.check(client_);
    check_complete(client_, server_);
    check_complete(server_, client_);
  }

 private:
  void pump(Side& side) {
    const RelayStep step = side.relay.pump(kNow);
    SMC_ASSERT(step != RelayStep::kReset && step != RelayStep::kRefused, step);
    if (step == RelayStep::kEnded) fuzz::reached("both ended");
  }
  void carry(Side& from, Side& to, std::size_t count) {
    std::string& out = from.net.outgoing;
    std::string part = out.substr(0, count);
    out.erase(0, part.size());
    if (&from == &client_) {
      const std::size_t preface = std::min(part.size(), wire::kFramePreface.size() - preface_);
      preface_ += preface;
      part.erase(0, preface);
    }
    if (!part.empty()) to.net.feed(part);
  }
  // What was sent has arrived.
  void check_complete(Side& from, Side& to) {
    SMC_ASSERT(to.app.outgoing.size() == from.relay.towards_net().bytes());
    const smc::Deferral& deferral = from.relay.deferral();
    if (deferral.held() && !deferral.handed_over()) fuzz::reached("held back at the bound");
    if (deferral.held() || deferral.handed_over()) return;
    SMC_ASSERT(to.app.outgoing == from.said);
    SMC_ASSERT(to.app.shut_down == from.app.ended);
    fuzz::reached(from.app.ended ? "all arrived, and the end" : "all arrived");
  }

  Side client_{Role::kClient}, server_{Role::kServer};
  std::size_t preface_ = 0;  // bytes of it that were carried
};

void converse(std::span<const std::uint8_t> script) {
  Pair pair;
  for (std::size_t i = 0; i + 1 < script.size(); i += 2) pair.act(script[i], script[i + 1]);
  pair.settle();
}

struct Outcome {
  std::string delivered, fault;
  bool ended = false, handed_over = false;
  bool over = false;  // both directions have ended: the connection closes
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

bool over(RelayStep step) { return step == RelayStep::kReset || step == RelayStep::kEnded; }

Outcome attack(unsigned flags, std::string_view bytes, std::size_t part) {
  const Role role = (flags & 2U) != 0 ? Role::kClient : Role::kServer;
  Side victim(role);
  if ((flags & 4U) != 0) victim.end();
  (void)victim.relay.pump(kNow);
  if ((flags & 8U) != 0) victim.hand_over();
  RelayStep step = RelayStep::kIdle;
  for (std::size_t at = 0; at < bytes.size() && !over(step); at += part) {
    victim.net.feed(std::string(bytes.substr(at, part)));
    do {
      step = victim.relay.pump(kNow);
    } while (step == RelayStep::kMore);
  }
  const smc::Deferral& deferral = victim.relay.deferral();
  if (!deferral.unbounded()) SMC_ASSERT(victim.app.outgoing.size() <= smc::kFramedBytesMax);
  return {victim.app.outgoing, victim.relay.towards_app().fault(), deferral.peer_ended(),
          deferral.peer_handed_over(), step == RelayStep::kEnded};
}

// The data of the frames at the front that are valid by themselves.
std::string data_of(std::string_view bytes) {
  std::string data;
  while (bytes.size() >= wire::kFrameHeaderBytes) {
    const auto head = std::as_bytes(std::span(bytes)).first<wire::kFrameHeaderBytes>();
    const auto header = wire::decode_frame_header(head);
    bytes.remove_prefix(wire::kFrameHeaderBytes);
    if (!header || header->type == wire::FrameType::kHandOver) break;
    data += bytes.substr(0, header->body_bytes);
    bytes.remove_prefix(std::min<std::size_t>(header->body_bytes, bytes.size()));
  }
  return data;
}

void resist(unsigned flags, std::string_view bytes) {
  const Outcome whole = attack(flags, bytes, std::max<std::size_t>(bytes.size(), 1));
  for (const std::size_t part : {std::size_t{1}, std::size_t{7}}) {
    Outcome split = attack(flags, bytes, part);
    // A connection that is over is not read, unless more came with the end.
    if (split.over) {
      SMC_ASSERT(whole.ended && (whole.over || !whole.fault.empty()));
      split.over = whole.over;
      split.fault = whole.fault;
    }
    SMC_ASSERT(split == whole);
  }
  SMC_ASSERT(data_of(bytes).starts_with(whole.delivered), whole.delivered.size());
  if (!whole.fault.empty()) fuzz::reached("refused: " + whole.fault);
  if (whole.ended) fuzz::reached("the peer ended");
  if (whole.handed_over) fuzz::reached("the peer handed over");
  if (!whole.delivered.empty()) fuzz::reached("data of the peer arrived");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::span<const std::uint8_t> rest = std::span(data, size).subspan(1);
  if (data[0] % 2 == 0)
    converse(rest);
  else
    resist(data[0], {reinterpret_cast<const char*>(rest.data()), rest.size()});
  return 0;
}
