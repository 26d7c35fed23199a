#!/usr/bin/env bash
# Installs the missing Debian packages, and does nothing else.
#
#   scripts/bootstrap.sh [build] [test] [arm64] [k8s] [lab] [demo] [examples] [plot] [model] [mutants] [fuzz]
#                        [suites] [programs]
#                                                          default: build
#   scripts/bootstrap.sh --print build     only prints their names, one on each line
#
# Needs root or sudo only if a package is missing. Does not start the services of a package. Takes a
# fraction of a second if all packages are installed.
set -euo pipefail

declare -A groups=(
  [build]="cmake ninja-build g++ make pkg-config libevent-dev libibverbs-dev ibverbs-providers
           libnl-3-dev libnl-genl-3-dev
           libyaml-cpp-dev prometheus-cpp-dev libspdlog-dev nlohmann-json3-dev libexpected-dev
           libcli11-dev libprotobuf-dev protobuf-compiler libbpf-dev libssl-dev zlib1g-dev libgtest-dev libgmock-dev libbenchmark-dev
           clang-14 llvm-14 bpftool git python3"
  [test]="clang-format-14 clang-tidy-14 prometheus redis-server redis-tools nginx-light
          libnginx-mod-stream haproxy postgresql postgresql-contrib curl iproute2 nftables iperf3
          python3-yaml procps openssl util-linux containernetworking-plugins strace
          libseccomp2 spin libclang-rt-14-dev"
  [lab]="qemu-system-x86 busybox-static kmod perftest rdma-core ibverbs-utils ibverbs-providers
         iproute2 nftables tshark redis-server redis-tools nginx-light curl iperf3 haproxy
         python3"
  [arm64]="g++-aarch64-linux-gnu qemu-user-static mmdebstrap"
  [k8s]="podman buildah debootstrap runc conmon catatonit containernetworking-plugins iproute2
         prometheus redis-server redis-tools python3 python3-yaml etcd-server docker-compose containerd conntrack
         nftables iputils-ping systemd openssl"
  [demo]="curl iproute2 iperf3 redis-server redis-tools nginx-light nftables haproxy procps python3"
  [examples]="curl iproute2 nftables haproxy procps util-linux python3 postgresql nats-server
              python3-distributed python3-pandas"
  [plot]="python3-matplotlib"
  [model]="spin gcc libc6-dev python3"
  [suites]="dpkg-dev patch gcc iproute2 nftables util-linux redis-server redis-tools tcl postgresql
            memcached perl lighttpd lighttpd-mod-webdav litmus python3"
  [programs]="iperf3 nginx-light wrk nghttp2-client apache2-utils sysbench mariadb-server redis-server redis-tools nats-server
              python3-grpcio iproute2 nftables util-linux python3"
  [mutants]="python3-clang-14"
  [fuzz]="clang-14 llvm-14 libclang-rt-14-dev"
)

only_print=no
if [[ ${1:-} == --print ]]; then
  only_print=yes
  shift
fi
wanted=()
for group in "${@:-build}"; do
  if [[ -z "${groups[$group]:-}" ]]; then
    echo "bootstrap: no group \"$group\"; there are: ${!groups[*]}" >&2
    exit 64
  fi
  read -r -d '' -a packages <<<"${groups[$group]}" || true
  wanted+=("${packages[@]}")
done
if [[ $only_print == yes ]]; then
  printf '%s\n' "${wanted[@]}"
  exit 0
fi

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "bootstrap: not a Debian system; please provide: ${wanted[*]}" >&2
  exit 0
fi

# dpkg-query exits with 1 if it does not know one of the packages; only its output is used.
installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${wanted[@]}" 2>/dev/null || true)
missing=()
for package in "${wanted[@]}"; do
  if ! grep -qx -- "$package installed" <<<"$installed" && [[ " ${missing[*]} " != *" $package "* ]]; then
    missing+=("$package")
  fi
done
if [[ ${#missing[@]} -eq 0 ]]; then
  exit 0
fi

echo "bootstrap: installing ${missing[*]}"
as_root=()
if [[ $EUID -ne 0 ]]; then
  if ! sudo -n true 2>/dev/null; then
    echo "bootstrap: neither root nor sudo without a password; please run:" >&2
    echo "  apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo -n)
fi

# invoke-rc.d asks this file before it starts a service: 101 forbids it.
policy=/usr/sbin/policy-rc.d
log=$(mktemp)
made_policy=no
finish() {
  rm -f "$log"
  if [[ $made_policy == yes ]]; then "${as_root[@]}" rm -f "$policy"; fi
}
trap finish EXIT
if [[ ! -e $policy ]]; then
  printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
  made_policy=yes
  "${as_root[@]}" chmod 755 "$policy"
fi

run_apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -qq -o Dpkg::Use-Pty=0 \
    -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 "$@" </dev/null >>"$log" 2>&1
}

# The package lists of an image are often old or absent. Refresh them only if the installation fails.
if ! run_apt install -y --no-install-recommends "${missing[@]}"; then
  if ! run_apt update || ! run_apt install -y --no-install-recommends "${missing[@]}"; then
    tail -n 40 "$log" >&2
    echo "bootstrap: installation failed" >&2
    exit 1
  fi
fi
