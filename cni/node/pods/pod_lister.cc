#include "cni/node/pods/pod_lister.h"
#include "base/result.h"
#include "event/http/http_status.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace fairlead::cni::node {
namespace {

std::string status_of(const std::string& path, const event::HttpsReply& reply) {
  return "GET " + path + ": status " + std::to_string(reply.status);
}

}  // namespace

PodLister::Step PodLister::stop(Progress& progress, std::string trouble) const {
  progress.listing.trouble = std::move(trouble);
  return Step::kEnd;
}

// A server keeps the place of a next page for some minutes.
PodLister::Step PodLister::restart(Progress& progress) const {
  if (progress.restarts++ >= kRestartsMax)
    return stop(progress, "list of pods: status 410 for a next page, " +
                              std::to_string(kRestartsMax + 1) + " times");
  progress.listing.pods.clear();
  progress.next.clear();
  progress.from_start = true;
  return Step::kMore;
}

PodLister::Step PodLister::take(Result<PodPage, std::string> page, Progress& progress) const {
  if (!page) return stop(progress, page.error());
  auto& pods = progress.listing.pods;
  std::move(page->pods.begin(), page->pods.end(), std::back_inserter(pods));
  progress.next = std::move(page->next);
  progress.limit = std::min(progress.limit * 2, kPodsPerPage);
  if (progress.next.empty()) {
    progress.listing.is_whole = progress.from_start;
    return Step::kEnd;
  }
  if (pods.size() >= kPodsMax)
    return stop(progress, "list of pods: more than " + std::to_string(kPodsMax));
  return Step::kMore;
}

PodLister::Step PodLister::read_page(const std::string& node, Progress& progress) const {
  const std::string path = pod_page_path(node, progress.limit, progress.next);
  const bool is_lone = progress.limit == 1;
  const std::size_t most = is_lone ? kLonePodBytesMax : kPodPageBytesMax;
  const auto reply = server_.send({"GET", path, "", "", "", most, true, kPodMetadataListType});
  if (!reply) return stop(progress, reply.error());
  progress.bytes += reply->body.size();
  if (reply->status == http_status::kGone && !progress.next.empty()) return restart(progress);
  // The path without the token, which differs each time, so that it is logged once.
  if (reply->status != http_status::kOk)
    return stop(progress, status_of(pod_page_path(node, progress.limit, ""), *reply));
  auto page = reply->cut ? tl::unexpected(std::string()) : parse_pod_page(reply->body, most);
  if (page) return take(std::move(page), progress);
  if (!is_lone) {
    progress.limit /= 2;
    return Step::kMore;
  }
  const std::string why = reply->cut ? too_long("its metadata", reply->length, most)
                                     : "its metadata cannot be read: " + page.error();
  return take(parse_page_beginning(reply->body, why), progress);
}

PodListing PodLister::list(const std::string& node) {
  Progress progress;
  progress.next = std::exchange(resume_, std::string());
  progress.from_start = progress.next.empty();
  while (read_page(node, progress) == Step::kMore) {
    const bool is_long = progress.bytes >= kListBytesMax;
    if (!is_long && ++progress.pages < kPagesMax) continue;
    resume_ = progress.next;
    progress.listing.trouble =
        "list of pods: longer than " +
        (is_long ? std::to_string(kListBytesMax) + " bytes" : std::to_string(kPagesMax) + " pages");
    break;
  }
  return std::move(progress.listing);
}

bool PodLister::fetch(const NodePod& pod, PodListing& listing) const {
  const std::string path = pod_path(pod.name_space, pod.name);
  const auto reply = server_.send({"GET", path, "", "", "", kLonePodBytesMax, true});
  if (!reply) {
    listing.trouble = reply.error();
    return false;
  }
  if (reply->status == http_status::kNotFound) return true;
  if (reply->status != http_status::kOk) {
    listing.trouble = status_of(path, *reply);
    return true;
  }
  auto whole = reply->cut ? tl::unexpected(too_long("the pod", reply->length, kLonePodBytesMax))
                          : parse_pod(reply->body);
  if (whole && whole->uid != pod.uid) return true;  // another pod of that name
  if (whole) {
    listing.pods.push_back(std::move(*whole));
    return true;
  }
  listing.pods.push_back(pod);
  listing.pods.back().unread = whole.error();
  return true;
}

PodListing PodLister::complete(const std::vector<NodePod>& pods) {
  PodListing listing;
  for (const NodePod& pod : pods) {
    const auto known = whole_.find(pod.uid);
    if (!pod.unread.empty())
      listing.pods.push_back(pod);
    else if (known != whole_.end() && !pod.version.empty() && known->second.version == pod.version)
      listing.pods.push_back(known->second);
    else if (!fetch(pod, listing))
      break;
  }
  listing.is_whole = listing.trouble.empty();
  whole_.clear();
  for (const NodePod& pod : listing.pods) whole_.emplace(pod.uid, pod);
  return listing;
}

}  // namespace fairlead::cni::node
