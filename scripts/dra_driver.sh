#!/usr/bin/env bash
# Builds the DRA driver of tests/two_nodes with Go, and prints its path, which is in the user's cache. Needs Go and its
# module proxy. The modules have the version of Kubernetes that scripts/kubernetes.sh builds.
set -euo pipefail

version=${KUBERNETES_VERSION:-1.36.3}
sources=$(cd "$(dirname "$0")/../tests/two_nodes/dra_driver" && pwd)
folder=${XDG_CACHE_HOME:-$HOME/.cache}/fairlead/dra-driver-$version
program=$folder/dra-driver
if [[ ! -x $program || $sources/main.go -nt $program ]]; then
  mkdir -p "$folder"
  cp "$sources/main.go" "$folder/"
  cd "$folder"
  {
    printf 'module dra-driver\n\ngo 1.26.0\n\nrequire (\n'
    for module in api apimachinery client-go dynamic-resource-allocation; do
      printf '\tk8s.io/%s v0.%s\n' "$module" "${version#1.}"
    done
    printf ')\n'
  } >go.mod
  go build -mod=mod -ldflags "-s -w" -o "$program" . >&2
fi
echo "$program"
