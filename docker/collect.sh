#!/usr/bin/env bash
# Writes the files of the image: collect.sh <build folder> <root of the image> [folder with libraries for arm64]
#
# With the third word, the programs are those of the preset arm64, and the libraries are in a folder of
# scripts/arm64_sysroot.sh. Versions of packages are then those of this machine: the same Debian.
#
# These are the stripped programs, the shared libraries that they load, and configuration. sbom.py adds an SBOM (SPDX 2.3,
# JSON) and the copyright files of the packages that these libraries and the code linked into the programs are from.
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
mkdir -p "$root/run/fairlead"
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
for library in $libraries; do
  folder=$(realpath -m "$(dirname "$library")")
  target=$root/usr${folder#/usr}
  mkdir -p "$target"
  cp -L "$sysroot$library" "$target/"
done
mkdir -p "$root/usr/lib" "$root/usr/lib64"
ln -sfn usr/lib "$root/lib"
ln -sfn usr/lib64 "$root/lib64"
for folder in "$sysroot"/usr/lib/*/libibverbs "$sysroot/etc/libibverbs.d"; do
  [[ -d $folder ]] || continue
  (cd "$sysroot/" && cp -a --parents "${folder#"$sysroot"/}" "$root/")
done

architecture=amd64
[[ -z $sysroot ]] || architecture=arm64
"$here/docker/sbom.py" "$root" "$architecture" --build "$build"
