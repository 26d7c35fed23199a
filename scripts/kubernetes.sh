#!/usr/bin/env bash
# Builds programs of Kubernetes with Go, for tests/kubernetes: what a cluster of one node needs.
#
#   scripts/kubernetes.sh                    all of them
#   scripts/kubernetes.sh kube-apiserver     only some
#
# and says where they are: in the user's cache, where the tests find them.
# Takes ten and a half minutes of processor time the first time (Go 1.26, nothing cached), none later. Needs Go and
# its module proxy.
set -euo pipefail

version=${KUBERNETES_VERSION:-1.36.3}
folder=${XDG_CACHE_HOME:-$HOME/.cache}/fairlead/kubernetes-$version
read -r -a programs <<<"${*:-kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet kubectl}"
mkdir -p "$folder"
cd "$folder"
missing=()
for name in "${programs[@]}"; do
  [[ -x $name ]] || missing+=("k8s.io/kubernetes/cmd/$name")
done
if [[ ${#missing[@]} -gt 0 ]]; then
  # The modules of Kubernetes that are developed with it have the same version, with 0 for 1.
  curl -sSf "$(go env GOPROXY | cut -d, -f1)/k8s.io/kubernetes/@v/v$version.mod" -o kubernetes.mod
  {
    printf 'module programs\n\ngo 1.26.0\n\nrequire k8s.io/kubernetes v%s\n\nreplace (\n' "$version"
    grep -oE 'k8s.io/[a-z-]+ => \./staging' kubernetes.mod |
      awk -v version="v0.${version#1.}" '{print "\t" $1 " => " $1 " " version}'
    printf ')\n'
  } >go.mod
  package=k8s.io/component-base/version
  go build -mod=mod -o "$folder/" -ldflags "-s -w -X $package.gitVersion=v$version \
    -X $package.gitMajor=1 -X $package.gitMinor=$(cut -d. -f2 <<<"$version")" "${missing[@]}" >&2
fi
printf '%s\n' "${programs[@]/#/$folder/}"
