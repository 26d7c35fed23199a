#!/bin/sh
# Process 1 of a guest, on the host's file tree. Mounts the usual file systems, sets up the network and the RDMA
# device, then starts the agent, or systemd with the agent as its only service. The kernel's command line has the
# node's number and the choice: lab.node=1 lab.init=systemd.
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH
here=$(dirname "$0")

mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
for place in /dev/shm /run /tmp/lab; do
  mkdir -p "$place"
  mount -t tmpfs tmpfs "$place"
done
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t bpf bpf /sys/fs/bpf

word() { sed -n "s|.*lab\.$1=\([^ ]*\).*|\1|p" /proc/cmdline; }
node=$(word node)
mkdir -p /lib/modules
mount --bind "$(word modules)" /lib/modules
mkdir -p /tmp/results
mount -t 9p -o rw,trans=virtio,version=9p2000.L,msize=524288,cache=none results /tmp/results

modprobe -a virtio_net veth rdma_rxe ib_uverbs smc smc_diag sch_netem tcp_diag inet_diag
hostname "node$node"
# Nodes route the packets of their pods. Long backlogs serve hundreds of concurrent connections.
sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 net.ipv6.conf.all.disable_ipv6=0 \
  net.core.somaxconn=4096 net.ipv4.tcp_max_syn_backlog=4096
ip link set lo up
ip link set eth0 mtu "$(word mtu)" up
ip address add "10.9.0.$node/24" dev eth0
rdma link add rxe0 type rxe netdev eth0
# With udev, device nodes are accessible for all users too.
chmod 0666 /dev/infiniband/uverbs* 2>/dev/null
ulimit -l unlimited
ulimit -n 65536

if [ "$(word init)" = systemd ]; then
  mkdir -p /run/systemd/system
  cat >/run/systemd/system/agent.service <<end
[Unit]
DefaultDependencies=no
SuccessAction=poweroff-force
FailureAction=poweroff-force
[Service]
ExecStart=/usr/bin/python3 -B $here/agent.py
Delegate=yes
LimitMEMLOCK=infinity
LimitNOFILE=65536
TasksMax=infinity
StandardOutput=file:/dev/ttyS0
StandardError=file:/dev/ttyS0
end
  exec /lib/systemd/systemd --unit=agent.service
fi
python3 -B "$here/agent.py"
poweroff -f
