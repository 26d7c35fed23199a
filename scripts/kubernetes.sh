#!/usr/bin/env bash
# Builds the Kubernetes programs of a cluster of one node with Go, for tests/kubernetes.
#
#   scripts/kubernetes.sh                    all of them
#   scripts/kubernetes.sh kube-apiserver     only some
#
# Prints their paths, which are in the user's cache, where the tests look for them.
# The first run takes ten and a half minutes of processor time (Go 1.26, nothing cached), later runs none. Needs Go
# and its module proxy.
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
  # The modules developed in the Kubernetes repository have the same version, but 0 instead of 1 in front.
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
