#!/usr/bin/env bash
# Builds the API server of Kubernetes with Go, for tests/kubernetes/apiserver_test.py:
#
#   scripts/kube_apiserver.sh
#
# and says where it is: in the user's cache, where the test finds it.
# Takes seven and a half minutes of processor time the first time (Go 1.26, 2 cores, nothing cached), none later. Needs
# Go and its module proxy.
set -euo pipefail

version=${KUBERNETES_VERSION:-1.36.3}
folder=${XDG_CACHE_HOME:-$HOME/.cache}/fairlead/kubernetes-$version
program=$folder/kube-apiserver
mkdir -p "$folder"
cd "$folder"
if [[ ! -x $program ]]; then
  # The modules of Kubernetes that are developed with it have the same version, with 0 for 1.
  curl -sSf "$(go env GOPROXY | cut -d, -f1)/k8s.io/kubernetes/@v/v$version.mod" -o kubernetes.mod
  {
    printf 'module apiserver\n\ngo 1.26.0\n\nrequire k8s.io/kubernetes v%s\n\nreplace (\n' "$version"
    grep -oE 'k8s.io/[a-z-]+ => \./staging' kubernetes.mod |
      awk -v version="v0.${version#1.}" '{print "\t" $1 " => " $1 " " version}'
    printf ')\n'
  } >go.mod
  printf 'package main\n\nimport _ "k8s.io/kubernetes/cmd/kube-apiserver/app"\n\nfunc main() {}\n' >main.go
  package=k8s.io/component-base/version
  go build -mod=mod -o "$program" -ldflags "-s -w -X $package.gitVersion=v$version \
    -X $package.gitMajor=1 -X $package.gitMinor=$(cut -d. -f2 <<<"$version")" \
    k8s.io/kubernetes/cmd/kube-apiserver >&2
fi
echo "$program"
