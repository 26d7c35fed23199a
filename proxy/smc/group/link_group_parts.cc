#include "smc/group/link_group_parts.h"

#include "base/assert.h"

namespace fairlead::smc {
namespace {

constexpr std::uint8_t kNoEyecatcher = 0x03;

}  // namespace

void LinkGroupParts::emit(GroupEvent::Kind kind, LinkIndex link, LinkNumber number,
                          const char* why) {
  GroupEvent event{kind};
  event.link = link;
  event.number = number;
  event.why = why;
  out.emit(event);
}

void LinkGroupParts::send_confirm_link(LinkIndex index, wire::LlcKind kind) {
  const Link& link = *links[index];
  wire::ConfirmLink message;
  message.kind = kind;
  message.eyecatcher_flags = kNoEyecatcher;
  message.mac = link.local().mac;
  message.gid = link.local().gid;
  message.queue_pair = link.local().queue_pair;
  message.link = link.number();
  message.link_user_id = link.number().value;
  message.max_links = terms.max_links;
  message.max_connections = terms.release >= 1 ? terms.max_connections : std::uint8_t{0};
  out.send(index, message);
}

void LinkGroupParts::release(LinkIndex link) {
  links[link]->set_state(LinkState::kDown);
  out.add_task({LinkTask::Kind::kRelease, link, 0, {}});
}

LinkIndex LinkGroupParts::reuse_index() {
  const std::optional<LinkIndex> index = links.free_index();
  SMC_ASSERT(index.has_value(), links.count());
  local_rmbs.forget_link(*index);
  peer_rmbs.forget_link(*index);
  return *index;
}

}  // namespace fairlead::smc
