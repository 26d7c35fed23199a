#!/bin/sh
# Prepares a guest of the lab as a node, before containerd and the kubelet start: guest_node.sh NUMBER OTHER
#
# The disk /dev/vda keeps the state of a node that is switched off: images, containers, CNI, the kubelet's state.
set -e
number=$1 other=$2
modprobe -a virtio_blk ext4 overlay bridge br_netfilter veth dummy nf_tables nf_conntrack nft_chain_nat nft_masq nft_ct \
  nft_fib_inet nft_reject_inet nft_numgen nft_limit nft_log nft_redir
# The kubelet needs mount propagation.
mount --make-rshared /
mount -t bpf bpf /sys/fs/bpf
mkdir -p /node
mount -t ext4 /dev/vda /node
for place in etc/cni/net.d opt/cni/bin var/lib/cni var/lib/containerd var/lib/kubelet var/log/pods; do
  mkdir -p "/node/$place" "/$place"
  mount --bind "/node/$place" "/$place"
done
cp -n /usr/lib/cni/* /opt/cni/bin/
mkdir -p /run/netns
if [ "$(cat /proc/1/comm)" != systemd ]; then
  for controller in $(cat /sys/fs/cgroup/cgroup.controllers); do
    echo "+$controller" >/sys/fs/cgroup/cgroup.subtree_control
  done
fi
hostname "node-$number"
sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
ip route replace default via 10.9.0.254
ip route replace "10.244.$other.0/24" via "10.9.0.$other"
ip address replace "fd00:9::$number/64" dev eth0 nodad
ip route replace default via fd00:9::fe
ip route replace "fd00:244:0:$other::/64" via "fd00:9::$other"
# RNICs have a separate network, so that they can be down while the node is up.
rdma link delete rxe0
ip link set eth1 mtu 9000 up
ip address add "10.9.1.$number/24" dev eth1
# An RNIC that no PNET of the cluster has.
ip link add other0 type dummy
ip address add "10.8.0.$number/24" dev other0
ip link set other0 up
rdma link add rxe1 type rxe netdev other0
chmod 0600 /dev/infiniband/uverbs*
