#!/usr/bin/env bash
# Signs a file with ECDSA on P-256 and SHA-256:
#
#   scripts/sign.sh check KEY        only checks that the key can sign
#   scripts/sign.sh sign KEY FILE    writes FILE.sig, the signature in base64
#
# KEY is a file in PEM with a private key on P-256 and without a passphrase. `openssl dgst -sha256 -verify` and `cosign
# verify-blob --key` accept the signature: docker/README.md has the commands. Exit codes: 0; 1 if signing failed; 64 for a
# wrong key or wrong words.
set -euo pipefail
allowed="allowed: a PEM file with an ECDSA private key on P-256 (prime256v1), without a passphrase"
refuse() {
  echo "sign: $*" >&2
  exit 64
}
command -v openssl >/dev/null || { echo "sign: openssl is not installed; scripts/bootstrap.sh k8s" >&2; exit 1; }

check() {
  local key=$1 text
  [[ -f $key ]] || refuse "key \"$key\" is no file; $allowed"
  [[ -r $key ]] || refuse "key \"$key\" cannot be read; $allowed"
  # An empty passphrase fails where one is needed, instead of asking for it.
  text=$(openssl pkey -in "$key" -noout -text -passin pass: 2>/dev/null </dev/null) ||
    refuse "key \"$key\" has no private key that can be read; $allowed"
  grep -q '^ASN1 OID: prime256v1$' <<<"$text" ||
    refuse "key \"$key\" is $(head -1 <<<"$text" | cut -c1-60) of another kind; $allowed"
}

case ${1:-} in
  check)
    [[ $# -eq 2 ]] || refuse "check needs a key"
    check "$2"
    ;;
  sign)
    [[ $# -eq 3 ]] || refuse "sign needs a key and a file"
    key=$2 file=$3
    check "$key"
    [[ -f $file ]] || refuse "\"$file\" is no file; allowed: the file to sign"
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    openssl dgst -sha256 -sign "$key" -passin pass: -out "$scratch/signature" "$file"
    openssl pkey -in "$key" -passin pass: -pubout -out "$scratch/public"
    openssl dgst -sha256 -verify "$scratch/public" -signature "$scratch/signature" "$file" >/dev/null
    openssl base64 -A -in "$scratch/signature" -out "$scratch/text"
    mv "$scratch/text" "$file.sig"
    chmod 644 "$file.sig"
    ;;
  *) refuse "unknown word \"${1:-}\"; there are: check KEY, sign KEY FILE" ;;
esac
