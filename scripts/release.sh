#!/usr/bin/env bash
# Makes the files of a release from the commit that is checked out:
#
#   scripts/release.sh [--arch amd64,arm64] [--programs <build folder>] [folder, default build/release-<version>]
#
#   fairlead-VERSION.oci.tar           the image for each architecture, as an OCI layout
#   fairlead-VERSION.tgz               the chart
#   fairlead-VERSION-ARCH.spdx.json    the SBOM of each image (SPDX 2.3)
#   NOTES.md                           what CHANGELOG.md says about the version
#   SHA256SUMS                         of all of them
#   SHA256SUMS.sig                     with RELEASE_KEY: the signature of SHA256SUMS, see scripts/sign.sh
#
# RELEASE_KEY is a PEM file with an ECDSA private key on P-256. Another key is refused before anything is built.
# The same commit gives the same bytes on the same Debian packages. After the packages of scripts/bootstrap.sh (build
# arm64 k8s) and the libraries of scripts/arm64_sysroot.sh are there, no network is needed.
# --programs takes programs for amd64 that are already built.
# Needs root and buildah.
set -euo pipefail
key=
[[ -z ${RELEASE_KEY:-} ]] || key=$(realpath -m "$RELEASE_KEY")
cd "$(dirname "$0")/.."
architectures=amd64,arm64
programs=
while [[ ${1:-} == --* ]]; do
  [[ -n ${2:-} ]] || { echo "release: $1 lacks its value" >&2; exit 64; }
  case $1 in
    --arch) architectures=$2 ;;
    --programs) programs=$2 ;;
    *) echo "release: unknown option \"$1\"; there are: --arch --programs" >&2; exit 64 ;;
  esac
  shift 2
done
for arch in ${architectures//,/ }; do
  [[ $arch == amd64 || $arch == arm64 ]] ||
    { echo "release: unknown architecture \"$arch\"; there are: amd64, arm64" >&2; exit 64; }
done
if [[ -n $key ]]; then scripts/sign.sh check "$key"; fi
say() { echo "release: $*"; }

# CMakeLists.txt has the version; the others must agree.
version=$(sed -nE 's/^project\(fairlead VERSION ([0-9.]+).*/\1/p' CMakeLists.txt)
check_version() {
  local found
  found=$(sed -nE "$2" "$1" | head -1)
  [[ $found == "$version" ]] ||
    { echo "release: $1 says version \"$found\", CMakeLists.txt says \"$version\"" >&2; exit 1; }
}
check_version helm/fairlead/Chart.yaml 's/^version: (.*)/\1/p'
check_version helm/fairlead/Chart.yaml 's/^appVersion: (.*)/\1/p'
check_version Dockerfile 's/^ARG VERSION=(.*)/\1/p'
folder=$(realpath -m "${1:-build/release-$version}")
# Files without a repository have no date.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH
revision=$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
if [[ -n $(git status --porcelain --untracked-files=no 2>/dev/null) ]]; then
  say "the checkout has changes that are not committed; the release contains them"
fi

work=$folder.work
if [[ -e $folder && ! -f $folder/SHA256SUMS && -n $(ls -A "$folder" 2>/dev/null || echo file) ]]; then
  echo "release: $folder is neither empty nor an earlier release; name another folder" >&2
  exit 64
fi
rm -rf "$folder" "$work"
mkdir -p "$folder" "$work"
log=$work/log
# A release that failed leaves its log only, so that the next one may have the folder.
trap 'status=$?; ((status == 0)) || { tail -30 "$log" >&2; rm -rf "$folder"; }; rm -rf "$work/images"; exit $status' EXIT
tool=(buildah --storage-driver vfs --root "$work/images/storage" --runroot "$work/images/run")

# Prints the folder of the programs; builds them without tests.
built() {
  local preset=release
  [[ $1 == amd64 ]] || preset=arm64
  cmake --preset "$preset" -B "build/dist-$1" -DFAIRLEAD_TESTS=OFF -DFAIRLEAD_BENCHMARKS=OFF >>"$log" 2>&1
  cmake --build "build/dist-$1" -j "$(nproc)" --target fairlead-proxy fairleadctl fairlead-injector fairlead-cni \
    fairlead-node >>"$log" 2>&1
  echo "build/dist-$1"
}

for arch in ${architectures//,/ }; do
  sysroot=()
  if [[ $arch == arm64 ]]; then
    scripts/arm64_sysroot.sh >>"$log" 2>&1
    sysroot=("$PWD/build/arm64-sysroot")
  fi
  from=$programs
  if [[ $arch != amd64 || -z $programs ]]; then
    say "building the programs for $arch"
    from=$(built "$arch")
  fi
  docker/collect.sh "$from" "$work/$arch/image" "${sysroot[@]}" >>"$log" 2>&1
  cp "$work/$arch/image/usr/share/doc/fairlead/sbom.spdx.json" "$folder/fairlead-$version-$arch.spdx.json"
  "${tool[@]}" bud --pull-never --isolation chroot --platform "linux/$arch" --timestamp "$SOURCE_DATE_EPOCH" \
    --build-context "build=$work/$arch" --build-arg VERSION="$version" --build-arg REVISION="$revision" \
    --manifest "fairlead:$version" . >>"$log" 2>&1
  say "the image for $arch is built"
done
"${tool[@]}" manifest push --all "fairlead:$version" "oci:$work/oci:$version" >>"$log" 2>&1

# Archives with nothing of this machine: sorted, owned by root, dated by the commit.
archive() {
  tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u+rw,go+r,go-w \
    --pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime "$@"
}
archive -cf "$folder/fairlead-$version.oci.tar" -C "$work/oci" .
archive -cf - -C helm fairlead | gzip -9n >"$folder/fairlead-$version.tgz"

notes() { awk -v title="$1" '/^## /{on = index($0, "## " title) == 1; next} on' CHANGELOG.md; }
{
  echo "# Fairlead $version"
  text=$(notes "$version")
  printf '%s\n' "${text:-$(notes Unreleased)}"
} >"$folder/NOTES.md"
(cd "$folder" && sha256sum -- * >"$work/sums" && mv "$work/sums" SHA256SUMS)
signed="not signed: no RELEASE_KEY"
if [[ -n $key ]]; then
  scripts/sign.sh sign "$key" "$folder/SHA256SUMS" 2>>"$log"
  signed="signed in SHA256SUMS.sig"
fi
rm -rf "${work:?}"
trap - EXIT
say "fairlead $version ($revision) for ${architectures//,/ and } is in $folder, $signed"
