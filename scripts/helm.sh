#!/usr/bin/env bash
# Builds helm with Go, for tests/kubernetes, and prints its path, which is in the user's cache, where the tests look for
# it. Takes a minute and a half of processor time the first time, none later. Needs Go and its module proxy.
set -euo pipefail

folder=${XDG_CACHE_HOME:-$HOME/.cache}/fairlead/bin
[[ -x $folder/helm ]] || GOBIN=$folder go install helm.sh/helm/v3/cmd/helm@latest >&2
echo "$folder/helm"
