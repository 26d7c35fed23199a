#!/usr/bin/env bash
# Builds the image with buildah. No registry is needed: without BUILD_BASE the Debian image of the build stage is
# created from Debian's packages.
#
#   docker/build.sh [--programs <build folder>] [folder for images, default build/image]
#
# --programs  skips the first stage: uses programs that were built on this machine, which must be Debian 12 too, and
#             the machine's libraries; takes seconds instead of minutes
# BUILD_BASE  image of the build stage, from a registry; without it, debootstrap creates one, once
# Needs root, buildah and, without BUILD_BASE, debootstrap.
set -euo pipefail
cd "$(dirname "$0")/.."
programs=
if [[ ${1:-} == --programs ]]; then
  programs=$2
  shift 2
fi
folder=${1:-build/image}
image=localhost/fairlead
base=${BUILD_BASE:-localhost/debian:12}

mkdir -p "$folder"
: >"$folder/build.log"
# vfs works on every file system, also inside a container.
tool=(buildah --storage-driver vfs --root "$(realpath "$folder")/storage" --runroot "$(realpath "$folder")/run")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

make_base() {
  debootstrap --variant=minbase bookworm "$scratch/base" >"$folder/debootstrap.log"
  local container
  container=$("${tool[@]}" from scratch)
  "${tool[@]}" add -q "$container" "$scratch/base" / >/dev/null
  "${tool[@]}" commit -q "$container" "$base" >/dev/null
  "${tool[@]}" rm "$container" >/dev/null
}

how=(--pull-never)
if [[ -n $programs ]]; then
  # A build context with a stage's name replaces the stage.
  docker/collect.sh "$programs" "$scratch/image" >>"$folder/build.log" 2>&1 || { tail "$folder/build.log" >&2; exit 1; }
  how+=(--build-context "build=$scratch")
elif [[ -n ${BUILD_BASE:-} ]]; then
  how=(--pull)
elif ! "${tool[@]}" inspect --type image "$base" >/dev/null 2>&1; then
  make_base
fi

revision=$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
"${tool[@]}" bud "${how[@]}" --isolation chroot --layers --build-arg BUILD_BASE="$base" \
  --build-arg REVISION="$revision" -t "$image" . >>"$folder/build.log" 2>&1 ||
  { tail -30 "$folder/build.log" >&2; exit 1; }
echo "built: $image in $folder"
