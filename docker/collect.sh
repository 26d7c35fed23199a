#!/usr/bin/env bash
# Writes the files of the image: collect.sh <build folder> <root of the image> [folder with libraries for arm64]
#
# With the third word, the programs are those of the preset arm64, and the libraries are in a folder of
# scripts/arm64_sysroot.sh. Versions of packages are then those of this machine: the same Debian.
#
# These are the stripped programs, the shared libraries that they load, and configuration. An SBOM (SPDX 2.3, JSON) lists
# the packages of these libraries and of the code that is linked into the programs.
set -euo pipefail
build=$1 root=$(realpath -m "$2") sysroot=${3:-}
here=$(cd "$(dirname "$0")/.." && pwd)
strip=strip
[[ -z $sysroot ]] || strip=aarch64-linux-gnu-strip

# Prints the libraries that a program loads, as ldd does.
libraries_of() {
  local file
  for file in "$@"; do
    if [[ -z $sysroot ]]; then
      ldd "$file"
    else
      # The loader prints its own path with the folder in front.
      qemu-aarch64-static -L "$sysroot" "$sysroot/lib/ld-linux-aarch64.so.1" --list "$file"
    fi
  done
}

mkdir -p "$root/usr/local/bin" "$root/etc/fairlead" "$root/run/fairlead" "$root/usr/share/doc/fairlead"
programs=()
for program in proxy/fairlead-proxy proxy/ctl/fairleadctl injector/fairlead-injector cni/fairlead-cni \
  cni/fairlead-node; do
  install -m 755 -s --strip-program="$strip" "$build/$program" "$root/usr/local/bin/"
  programs+=("$root/usr/local/bin/$(basename "$program")")
done
install -m 644 "$here/config/pod.yaml" "$here/config/proxy.yaml" "$here/config/seccomp.json" "$root/etc/fairlead/"
mkdir -p "$root/run/fairlead/shm"
chown -R 2201:2201 "$root/run/fairlead"
echo 'fairlead:x:2201:2201::/:/usr/sbin/nologin' >"$root/etc/passwd"
echo 'fairlead:x:2201:' >"$root/etc/group"

# The image needs no base: it has every library that a program loads, also the loader. Programs do not
# link RDMA providers; libibverbs loads them by name if a device is present. Some of them (mlx5, mlx4, EFA, MANA) are
# links to libraries outside their folder.
libraries=$({
  for program in "${programs[@]}"; do libraries_of "$program" || true; done
  for provider in "$sysroot"/usr/lib/*/libibverbs/*.so; do
    [[ -e $provider ]] || continue
    libraries_of "$provider" || true
    [[ ! -L $provider ]] || { path=$(readlink -f "$provider"); echo "${path#"$sysroot"}"; }
  done
} | awk '$2 == "=>" && $3 ~ /^\// {print $3} $1 ~ /^\// && $1 !~ /:$/ {print $1}' | sed "s|^$sysroot/|/|" | sort -u)
# Header-only libraries, and libraries linked statically into the plugin. No file in the image shows them.
packages=(libcli11-dev libexpected-dev libspdlog-dev nlohmann-json3-dev libbpf-dev libelf-dev zlib1g-dev libc6-dev)
# Prints the package of a library. dpkg lists some of them under /lib, which is a link to /usr/lib now.
package_of() {
  local path=$1
  path=${path/ld-linux-aarch64.so.1/ld-linux-x86-64.so.2}
  path=$(realpath -m "${path/aarch64-linux-gnu/x86_64-linux-gnu}")
  { dpkg-query -S "$path" 2>/dev/null || dpkg-query -S "${path#/usr}" 2>/dev/null || true; } |
    head -1 | cut -d: -f1
}
for library in $libraries; do
  folder=$(realpath -m "$(dirname "$library")")
  target=$root/usr${folder#/usr}
  mkdir -p "$target"
  cp -L "$sysroot$library" "$target/"
  packages+=("$(package_of "$library")")
done
mkdir -p "$root/usr/lib" "$root/usr/lib64"
ln -sfn usr/lib "$root/lib"
ln -sfn usr/lib64 "$root/lib64"
for folder in "$sysroot"/usr/lib/*/libibverbs "$sysroot/etc/libibverbs.d"; do
  [[ -d $folder ]] || continue
  (cd "$sysroot/" && cp -a --parents "${folder#"$sysroot"/}" "$root/")
  packages+=(ibverbs-providers)
done

# The order is stable, so that the same input gives the same bytes.
{
  printf '{\n "spdxVersion": "SPDX-2.3",\n "dataLicense": "CC0-1.0",\n "SPDXID": "SPDXRef-DOCUMENT",\n'
  printf ' "name": "fairlead",\n "documentNamespace": "urn:fairlead:image:%s",\n' \
    "$(cat "${programs[@]}" | sha256sum | cut -c1-32)"
  printf ' "creationInfo": {"created": "%s", "creators": ["Tool: docker/collect.sh"]},\n "packages": [' \
    "$(date -u -d "@${SOURCE_DATE_EPOCH:-$(date +%s)}" +%Y-%m-%dT%H:%M:%SZ)"
  separator=$'\n'
  while read -r package; do
    [[ -n $package ]] || continue
    version=$(dpkg-query -W -f '${Version}' "$package" 2>/dev/null | head -1)
    printf '%s  {"SPDXID": "SPDXRef-%s", "name": "%s", "versionInfo": "%s", "downloadLocation": "NOASSERTION",' \
      "$separator" "${package//[^A-Za-z0-9.-]/-}" "$package" "$version"
    printf ' "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",'
    printf ' "referenceLocator": "pkg:deb/debian/%s@%s"}]}' "$package" "${version//+/%2B}"
    separator=$',\n'
  done < <(printf '%s\n' "${packages[@]}" | sort -u)
  printf '\n ]\n}\n'
} >"$root/usr/share/doc/fairlead/sbom.spdx.json"
