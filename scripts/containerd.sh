#!/usr/bin/env bash
# Builds containerd 2 with Go, for tests/two_nodes: Debian's own has no NRI.
#
#   scripts/containerd.sh
#
# and says where its programs are: in the user's cache, where the tests find them.
# Takes four minutes of processor time the first time (Go 1.26, nothing cached), none later. Needs Go and its module
# proxy.
set -euo pipefail

version=${CONTAINERD_VERSION:-2.3.7}
folder=${XDG_CACHE_HOME:-$HOME/.cache}/fairlead/containerd-$version
package=github.com/containerd/containerd/v2
programs=(containerd containerd-shim-runc-v2 ctr)
mkdir -p "$folder"
missing=()
for name in "${programs[@]}"; do
  [[ -x $folder/$name ]] || missing+=("$package/cmd/$name@v$version")
done
if [[ ${#missing[@]} -gt 0 ]]; then
  # Without cgo: no snapshotter of btrfs, and no library of this machine.
  CGO_ENABLED=0 GOBIN=$folder go install -ldflags "-s -w -X $package/version.Version=$version" "${missing[@]}" >&2
fi
printf '%s\n' "${programs[@]/#/$folder/}"
