#!/usr/bin/env bash
# Unpacks, without installing, the Debian packages with libraries and headers for arm64:
#
#   scripts/arm64_sysroot.sh [folder, default build/arm64-sysroot]
#
# Takes some ten seconds and 200 MB. Does nothing if the folder is complete. Needs mmdebstrap and root.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-build/arm64-sysroot}
packages=$(scripts/bootstrap.sh --print build | grep -- '-dev$' | paste -sd,)
packages=$packages,libc6-dev,libstdc++-12-dev,libelf-dev
if [[ $(cat "$folder/packages" 2>/dev/null) != "$packages" ]]; then
  rm -rf "$folder"
  mkdir -p "$folder"
  mmdebstrap --quiet --variant=extract --architectures=arm64 --include="$packages" bookworm "$folder"
  echo "$packages" >"$folder/packages"
fi
echo "arm64: libraries in $folder"
